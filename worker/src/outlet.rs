//! The response to one exchange. What the machine says before the platform
//! wants the response is held; if that is all there is, it goes out in one
//! piece, else the rest is written while the client reads.

use crate::platform::Pipe;
use bytes::Bytes;
use futures::channel::oneshot;
use http::response::Parts;
use worker::js_sys::Uint8Array;

/// Where the machine writes.
#[derive(Debug)]
pub(crate) struct Outlet {
    head: Option<oneshot::Sender<Parts>>,
    way: Way,
}

#[derive(Debug)]
enum Way {
    /// The response has not begun.
    Held(Vec<u8>, Option<End>),
    /// The client reads what is written.
    Open(Pipe),
    Closed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Finished,
    Aborted,
}

impl Outlet {
    pub(crate) fn new() -> (Self, oneshot::Receiver<Parts>) {
        let (head, begun) = oneshot::channel();
        (Self { head: Some(head), way: Way::Held(Vec::new(), None) }, begun)
    }

    pub(crate) fn respond(&mut self, parts: Parts) {
        if let Some(head) = self.head.take() {
            head.send(parts).ok();
        }
    }

    pub(crate) fn send(&mut self, bytes: &Bytes) {
        match &mut self.way {
            Way::Held(held, _) => held.extend_from_slice(bytes),
            Way::Open(pipe) => pipe.write(Uint8Array::from(bytes.as_ref())),
            Way::Closed => {}
        }
    }

    pub(crate) fn finish(&mut self) {
        self.end(End::Finished);
    }

    pub(crate) fn abort(&mut self) {
        self.end(End::Aborted);
    }

    /// A response that has not begun never will.
    pub(crate) fn abandon(&mut self) {
        self.head = None;
    }

    fn end(&mut self, how: End) {
        match (&mut self.way, how) {
            (Way::Held(_, end), _) => *end = Some(how),
            (Way::Open(pipe), End::Finished) => pipe.close(),
            (Way::Open(pipe), End::Aborted) => pipe.abort(),
            (Way::Closed, _) => {}
        }
    }

    /// The whole response, if the machine has said all of it.
    pub(crate) fn whole(&mut self) -> Option<Vec<u8>> {
        match &mut self.way {
            Way::Held(held, Some(End::Finished)) => {
                let held = std::mem::take(held);
                self.way = Way::Closed;
                Some(held)
            }
            Way::Held(..) | Way::Open(_) | Way::Closed => None,
        }
    }

    /// From now on the client reads from this.
    pub(crate) fn open(&mut self, pipe: Pipe) {
        if let Way::Held(held, end) = &self.way {
            if !held.is_empty() {
                pipe.write(Uint8Array::from(held.as_slice()));
            }
            if *end == Some(End::Aborted) {
                pipe.abort();
            }
        }
        self.way = Way::Open(pipe);
    }
}
