//! Watches a component's exchanges from outside, for `doctor`: what it asked, how the
//! server answered, and when. It changes nothing and does not look into bodies.

use std::{
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, ready},
    time::Instant,
};

use ::http::{HeaderMap, Method, Request, Response, StatusCode, Uri};
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt as _;
use tokio::sync::watch;
use wasmtime_wasi_http::{Error, RequestOptions, WasiBody, WasiHttpHooks};

use super::{Exchanged, Sent};
use crate::stdio::lock;

/// The exchanges so far, oldest first; clones share them.
#[derive(Clone, Default)]
pub struct Watch {
    exchanges: Arc<Mutex<Vec<Exchange>>>,
    changes: Arc<watch::Sender<()>>,
}

/// One exchange.
#[derive(Debug, Clone)]
pub struct Exchange {
    pub method: Method,
    pub uri: Uri,
    pub headers: HeaderMap,
    pub outcome: Outcome,
}

/// How far an exchange has come.
#[derive(Debug, Clone)]
pub enum Outcome {
    Waiting,
    Failed,
    Answered(Answer),
}

/// A response.
#[derive(Debug, Clone)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    /// When the last bytes came, or the head if there were none.
    pub heard: Instant,
    /// How many pieces of the body came.
    pub pieces: usize,
    /// When the body ended, for whatever reason.
    pub ended: Option<Instant>,
}

impl Watch {
    /// What there is now.
    pub fn exchanges(&self) -> Vec<Exchange> {
        lock(&self.exchanges).clone()
    }

    /// Waits until the exchanges are as `enough` wants them.
    pub async fn until(&self, enough: impl Fn(&[Exchange]) -> bool) {
        let mut changes = self.changes.subscribe();
        // This cannot fail: `self` holds the sender.
        let _ = changes.wait_for(|()| enough(&lock(&self.exchanges))).await;
    }

    /// The same client, watched.
    pub fn over(&self, client: impl WasiHttpHooks + 'static) -> Watched {
        Watched { client: Box::new(client), watch: self.clone() }
    }

    fn begin<B>(&self, request: &Request<B>) -> Place {
        let (method, uri) = (request.method().clone(), request.uri().clone());
        let exchange = Exchange { method, uri, headers: request.headers().clone(), outcome: Outcome::Waiting };
        let mut exchanges = lock(&self.exchanges);
        exchanges.push(exchange);
        Place { watch: self.clone(), at: exchanges.len() - 1 }
    }
}

/// Where an exchange stands in the list.
#[derive(Clone)]
struct Place {
    watch: Watch,
    at: usize,
}

impl Place {
    fn set(&self, outcome: Outcome) {
        self.change(|exchange| exchange.outcome = outcome);
    }

    fn answer(&self, change: impl FnOnce(&mut Answer)) {
        self.change(|exchange| match &mut exchange.outcome {
            Outcome::Answered(answer) => change(answer),
            Outcome::Waiting | Outcome::Failed => {}
        });
    }

    fn change(&self, change: impl FnOnce(&mut Exchange)) {
        if let Some(exchange) = lock(&self.watch.exchanges).get_mut(self.at) {
            change(exchange);
        }
        self.watch.changes.send_replace(());
    }
}

/// A client whose exchanges somebody watches.
pub struct Watched {
    client: Box<dyn WasiHttpHooks>,
    watch: Watch,
}

impl WasiHttpHooks for Watched {
    fn send_request(
        &mut self,
        request: Request<WasiBody>,
        options: Option<RequestOptions>,
        sent: Box<dyn Future<Output = Sent> + Send>,
    ) -> Box<dyn Future<Output = Exchanged> + Send> {
        let place = self.watch.begin(&request);
        let exchanged = Box::into_pin(self.client.send_request(request, options, sent));
        Box::new(async move {
            match exchanged.await {
                Ok((response, sent)) => Ok((place.watched(response), sent)),
                Err(error) => {
                    place.set(Outcome::Failed);
                    Err(error)
                }
            }
        })
    }

    fn set_host_header(&mut self) -> bool {
        self.client.set_host_header()
    }
}

impl Place {
    fn watched(self, response: Response<WasiBody>) -> Response<WasiBody> {
        let (status, headers) = (response.status(), response.headers().clone());
        self.set(Outcome::Answered(Answer { status, headers, heard: Instant::now(), pieces: 0, ended: None }));
        response.map(|body| WatchedBody { body, place: self }.boxed_unsync())
    }
}

struct WatchedBody {
    body: WasiBody,
    place: Place,
}

impl Body for WatchedBody {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        let now = Instant::now();
        self.place.answer(|answer| match &frame {
            Some(Ok(_)) => (answer.heard, answer.pieces) = (now, answer.pieces + 1),
            Some(Err(_)) | None => answer.ended = Some(now),
        });
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
