//! One HTTP exchange as facts. Redirects are not followed: the machine does
//! that. To stop an exchange is to drop its future.

use crate::bindings::exports::mcp::proxy::machine::{CallError, Head, Input, Request, Sink};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::{self, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use std::io::{self, ErrorKind};
use std::time::Duration;

pub(crate) type Client = legacy::Client<HttpsConnector<HttpConnector>, Full<Bytes>>;
/// A call, what happened to it, and what is still to be read of its response.
pub(crate) type News = (u64, Vec<Input>, Option<Incoming>);

pub(crate) fn client() -> io::Result<Client> {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_connect_timeout(Some(Duration::from_secs(10)));
    let tls = HttpsConnectorBuilder::new().with_native_roots()?.https_or_http().enable_http1().wrap_connector(tcp);
    Ok(legacy::Client::builder(TokioExecutor::new()).build(tls))
}

pub(crate) async fn start(client: Client, request: Request) -> News {
    let (call, size) = (request.call, request.body.len() as u64);
    let parts = http::Request::builder().method(request.method.as_str()).uri(request.url);
    let parts = request.headers.into_iter().fold(parts, |parts, (name, value)| parts.header(name, value));
    let Ok(request) = parts.body(Full::from(request.body)) else { return failed(call, CallError::Protocol) };
    let (head, body) = match client.request(request).await {
        Ok(response) => response.into_parts(),
        Err(error) => return failed(call, cause(&error)),
    };
    let headers = head.headers.iter().map(|(name, value)| (name.to_string(), value.as_bytes().to_vec()));
    let head = Head { call, status: head.status.as_u16(), headers: headers.collect() };
    // A client that shows how its upload goes would say earlier what has left.
    (call, vec![Input::Flushed((Sink::Call(call), size)), Input::Head(head)], Some(body))
}

pub(crate) async fn read(call: u64, mut body: Incoming) -> News {
    match body.frame().await {
        // A frame of trailers is no data.
        Some(Ok(frame)) => (call, vec![Input::Chunk((call, frame.into_data().unwrap_or_default().into()))], Some(body)),
        Some(Err(error)) => failed(call, if error.is_parse() { CallError::Protocol } else { CallError::Reset }),
        None => (call, vec![Input::End(call)], None),
    }
}

fn failed(call: u64, error: CallError) -> News {
    (call, vec![Input::Failed((call, error, String::new()))], None)
}

/// What matters most: can the request have reached the server?
fn cause(error: &legacy::Error) -> CallError {
    let sources = || std::iter::successors(std::error::Error::source(error), |error| error.source());
    if !error.is_connect() {
        return CallError::Reset;
    }
    if sources().any(|source| source.to_string().contains("dns error")) {
        return CallError::Unresolved;
    }
    match sources().find_map(|source| source.downcast_ref::<io::Error>()).map(io::Error::kind) {
        Some(ErrorKind::TimedOut) => CallError::ConnectTimeout,
        Some(ErrorKind::InvalidData | ErrorKind::Other) => CallError::Tls,
        Some(_) | None => CallError::Refused,
    }
}
