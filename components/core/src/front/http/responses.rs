//! The responses in progress, one for each request of the client: how far each one is,
//! which bytes the client has not read, and when a silent or stalled response is due.
//! Message contents and the choice of stream do not belong here.

use super::Exchange;
use super::event::StreamId;
use super::refusal::{EVENTS, Refusal};
use crate::boundary::{ExchangeId, Output};
use crate::config::HttpTransport;
use crate::time::{Deadline, Time, Why};
use crate::timetable::{Timed, Timetable};
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::response::Parts;
use http::{HeaderName, HeaderValue, StatusCode};
use std::collections::VecDeque;
use std::time::Duration;

/// Tells reverse proxies not to buffer a stream.
const NO_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");
/// How long a response waits at most until the server has admitted its request.
const ADMISSION: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(super) struct Responses {
    live: Timetable<ExchangeId, Response>,
    outputs: VecDeque<Output>,
    /// Bytes that clients have not read: the sum over all.
    unread: usize,
}

/// The time limits of responses.
#[derive(Debug)]
struct Terms {
    /// How long a response waits for its answer before it becomes a stream.
    hold: Duration,
    /// The same for a request that the server may still refuse to admit.
    admission: Duration,
    /// How long a stream may be silent before it gets a sign of life.
    heartbeat: Duration,
    /// How long the client may leave bytes unread.
    patience: Duration,
}

#[derive(Debug)]
struct Response {
    awaits: Await,
    /// The server has admitted the request.
    admitted: bool,
    /// Bytes that the client has not read.
    unread: usize,
    /// When the client last read something, or had read everything.
    read: Time,
    /// When the proxy last wrote to it.
    written: Time,
}

/// What a response waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Await {
    /// One body, however long that takes.
    Body,
    /// The answer on this stream, to be one body. After a while, or with another message
    /// before the answer, it begins the stream instead.
    Answer(StreamId),
    /// More events of this stream.
    Events(StreamId),
    /// The client, which has not read all of it.
    Reader,
}

impl Responses {
    pub(super) fn new(client: &HttpTransport) -> Self {
        let &HttpTransport { hold, heartbeat, patience, challenges, .. } = client;
        let admission = if challenges { hold.max(ADMISSION) } else { hold };
        let terms = Terms { hold, admission, heartbeat, patience };
        Self { live: Timetable::new(terms), outputs: VecDeque::new(), unread: 0 }
    }

    /// The next output, in order.
    pub(super) fn output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Bytes that clients have not read.
    pub(super) fn unread(&self) -> usize {
        self.unread
    }

    /// A client waits for this response, or reads it.
    pub(super) fn is_live(&self, id: ExchangeId) -> bool {
        self.live.get(id).is_some()
    }

    /// The client has read everything sent so far.
    pub(super) fn is_read(&self, id: ExchangeId) -> bool {
        self.live.get(id).is_none_or(|response| response.unread == 0)
    }

    pub(super) fn all(&self) -> Vec<ExchangeId> {
        self.live.iter().map(|(id, _)| id).collect()
    }

    /// Adds a response. One that waits for events begins at once.
    pub(super) fn add(&mut self, now: Time, id: ExchangeId, awaits: Await) {
        self.live.insert(id, Response { awaits, admitted: false, unread: 0, read: now, written: now });
        if let Await::Events(_) = awaits {
            self.begin(id, events());
        }
    }

    /// Adds a response and sends all of it.
    pub(super) fn respond(&mut self, exchange: Exchange<'_>, parts: Parts, body: Bytes) {
        self.add(exchange.now, exchange.id, Await::Body);
        self.answer(exchange.now, exchange.id, parts, body);
    }

    pub(super) fn refuse(&mut self, now: Time, id: ExchangeId, refusal: &Refusal) {
        self.add(now, id, Await::Body);
        self.answer(now, id, refusal.head(), refusal.body());
    }

    /// Sends all of a response that has not begun. Returns the stream that it carried.
    pub(super) fn answer(&mut self, now: Time, id: ExchangeId, parts: Parts, body: Bytes) -> Option<StreamId> {
        self.begin(id, parts);
        self.complete(now, id, body)
    }

    pub(super) fn begin(&mut self, id: ExchangeId, parts: Parts) {
        if self.is_live(id) {
            self.outputs.push_back(Output::Respond(id, parts));
        }
    }

    /// Sends the body of a response that has begun. Returns the stream that it carried.
    pub(super) fn complete(&mut self, now: Time, id: ExchangeId, body: Bytes) -> Option<StreamId> {
        if !body.is_empty() {
            self.send(now, id, body);
        }
        self.finish(id)
    }

    /// The server has admitted the request of this response.
    pub(super) fn admitted(&mut self, id: ExchangeId) {
        self.live.change(id, |response| response.admitted = true);
    }

    /// A response still waits for its answer, and has not begun.
    pub(super) fn is_held(&self, id: ExchangeId) -> bool {
        self.live.get(id).is_some_and(|response| matches!(response.awaits, Await::Answer(_)))
    }

    /// Begins the stream of a response that waits for its answer.
    pub(super) fn release(&mut self, id: ExchangeId) -> Option<StreamId> {
        let Await::Answer(stream) = self.live.get(id)?.awaits else { return None };
        self.live.change(id, |response| response.awaits = Await::Events(stream));
        self.begin(id, events());
        Some(stream)
    }

    pub(super) fn send(&mut self, now: Time, id: ExchangeId, bytes: Bytes) {
        let sent = self.live.change(id, |response| {
            if response.unread == 0 {
                response.read = now;
            }
            response.written = now;
            response.unread += bytes.len();
        });
        if sent.is_some() {
            self.unread += bytes.len();
            self.outputs.push_back(Output::Send(id, bytes));
        }
    }

    /// Ends the response. Returns the stream that it carried.
    pub(super) fn finish(&mut self, id: ExchangeId) -> Option<StreamId> {
        let before = self.live.change(id, |response| std::mem::replace(&mut response.awaits, Await::Reader))?;
        if before == Await::Reader {
            return None;
        }
        self.outputs.push_back(Output::Finish(id));
        if self.is_read(id) {
            self.live.remove(id);
        }
        before.stream()
    }

    /// The client read `count` bytes.
    pub(super) fn flushed(&mut self, now: Time, id: ExchangeId, count: usize) {
        let flushed = self.live.change(id, |response| {
            let count = count.min(response.unread);
            response.unread -= count;
            response.read = now;
            (count, response.unread == 0 && response.awaits == Await::Reader)
        });
        let Some((count, over)) = flushed else { return };
        self.unread -= count;
        if over {
            self.live.remove(id);
        }
    }

    /// Nobody reads it any longer. Returns the stream that it carried.
    pub(super) fn forget(&mut self, id: ExchangeId) -> Option<StreamId> {
        let response = self.live.remove(id)?;
        self.unread -= response.unread;
        response.awaits.stream()
    }

    /// Aborts it. Returns the stream that it carried.
    pub(super) fn abort(&mut self, id: ExchangeId) -> Option<StreamId> {
        if self.is_live(id) {
            self.outputs.push_back(Output::Abort(id));
        }
        self.forget(id)
    }

    pub(super) fn deadline(&self) -> Option<Deadline> {
        self.live.first()
    }

    /// The responses that are due, and why.
    pub(super) fn due(&self, now: Time) -> Vec<(ExchangeId, Why)> {
        let mut due = self.live.due(now);
        due.sort_unstable();
        let why = |id| Some((id, self.live.get(id)?.due(self.live.terms())?.why));
        due.into_iter().filter_map(why).collect()
    }
}

impl Await {
    fn stream(self) -> Option<StreamId> {
        match self {
            Self::Answer(stream) | Self::Events(stream) => Some(stream),
            Self::Body | Self::Reader => None,
        }
    }
}

impl Timed for Response {
    type Terms = Terms;

    /// When to abort it, or to send a sign of life.
    fn due(&self, terms: &Terms) -> Option<Deadline> {
        if self.unread > 0 {
            return Some(Deadline { at: self.read.after(terms.patience), why: Why::Unread });
        }
        let silence = match self.awaits {
            Await::Answer(_) if self.admitted => terms.hold,
            Await::Answer(_) => terms.admission,
            Await::Events(_) => terms.heartbeat,
            Await::Body | Await::Reader => return None,
        };
        Some(Deadline { at: self.written.after(silence), why: Why::Heartbeat })
    }
}

/// The head of a response with a body of this type, or without a body.
pub(super) fn head(status: StatusCode, kind: Option<&'static str>) -> Parts {
    let mut parts = http::Response::new(()).into_parts().0;
    parts.status = status;
    if let Some(kind) = kind {
        parts.headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        parts.headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    }
    parts
}

/// The head of a stream.
fn events() -> Parts {
    let mut parts = head(StatusCode::OK, Some(EVENTS));
    parts.headers.insert(NO_BUFFERING, HeaderValue::from_static("no"));
    parts
}
