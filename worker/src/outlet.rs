//! The response to one exchange. Output that the machine produces in one step goes out
//! together: as a single body if it is complete, otherwise as a stream that continues
//! while the client reads.

use crate::known::Known;
use crate::lines;
use crate::platform::{Pipe, Traffic};
use http::response::Parts;
use http::{HeaderMap, StatusCode};
use mcp_proxy_edge::{challenge, cors};

#[derive(Debug)]
pub(crate) struct Outlet {
    /// The origin of the page that may read the response.
    origin: Option<String>,
    /// The URL of the endpoint's metadata; empty if the server does not get the client's own
    /// credentials.
    metadata: String,
    head: Option<Parts>,
    way: Way,
}

/// The head of a response, and the origin that may read it.
pub(crate) type Head = (StatusCode, HeaderMap, Option<String>);

#[derive(Debug)]
enum Way {
    /// The response has not begun.
    Held(Vec<u8>, Option<End>),
    /// The client reads the stream.
    Open(Pipe),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Finished,
    Aborted,
}

impl Outlet {
    pub(crate) fn new(known: &Known<'_>) -> Self {
        let (origin, metadata) = (known.origin().map(str::to_owned), known.metadata.to_owned());
        Self { origin, metadata, head: None, way: Way::Held(Vec::new(), None) }
    }

    pub(crate) fn respond(&mut self, mut parts: Parts) {
        if !self.metadata.is_empty() {
            challenge::replace(parts.status, &mut parts.headers, &self.metadata);
        }
        self.head = Some(parts);
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        match &mut self.way {
            Way::Held(held, _) => held.extend_from_slice(bytes),
            Way::Open(pipe) => pipe.write(bytes),
        }
    }

    pub(crate) fn finish(&mut self) {
        self.end(End::Finished);
    }

    pub(crate) fn abort(&mut self) {
        self.end(End::Aborted);
    }

    fn end(&mut self, how: End) {
        match (&mut self.way, how) {
            (Way::Held(_, end), _) => *end = Some(how),
            (Way::Open(pipe), End::Finished) => pipe.close(),
            (Way::Open(pipe), End::Aborted) => pipe.abort(),
        }
    }

    pub(crate) fn origin(&self) -> Option<&str> {
        self.origin.as_deref()
    }

    /// The response has not begun.
    pub(crate) fn waits(&self) -> bool {
        matches!(self.way, Way::Held(..))
    }

    /// Begins the response if the machine has. Returns its length if it was complete.
    /// `known` is the head that the traffic used last.
    pub(crate) fn begin(&mut self, id: u32, traffic: &Traffic, known: &mut Option<Head>) -> Option<usize> {
        let (Parts { status, headers, .. }, Way::Held(held, end)) = (self.head.take()?, &self.way) else { return None };
        let head = (status, headers, self.origin.clone());
        if known.as_ref() != Some(&head) {
            say(&head, traffic);
            *known = Some(head);
        }
        if *end == Some(End::Finished) {
            traffic.whole(id, held);
            return Some(held.len());
        }
        let pipe = traffic.stream(id);
        if !held.is_empty() {
            pipe.write(held);
        }
        if *end == Some(End::Aborted) {
            pipe.abort();
        }
        self.way = Way::Open(pipe);
        None
    }
}

/// Sets the head for the traffic's next responses.
fn say((status, headers, origin): &Head, traffic: &Traffic) {
    let mut headers = lines::write(headers);
    for (name, value) in origin.iter().flat_map(|origin| cors::headers(origin)) {
        headers.extend([name, "\n", value, "\n"]);
    }
    traffic.head(status.as_u16(), &headers);
}
