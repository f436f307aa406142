//! The response to one exchange: what the machine has said and the client has
//! not taken yet.

use crate::shell::Shell;
use bytes::Bytes;
use futures::Stream;
use futures::channel::oneshot;
use http::response::Parts;
use mcp_proxy_core::{ExchangeId, Input, Sink};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use worker::Error;

/// Where the machine writes.
#[derive(Debug)]
pub(crate) struct Outlet {
    head: Option<oneshot::Sender<Parts>>,
    unread: VecDeque<Bytes>,
    end: Option<End>,
    reader: Option<Waker>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Finished,
    Aborted,
}

impl Outlet {
    pub(crate) fn new() -> (Self, oneshot::Receiver<Parts>) {
        let (head, begun) = oneshot::channel();
        (Self { head: Some(head), unread: VecDeque::new(), end: None, reader: None }, begun)
    }

    pub(crate) fn respond(&mut self, parts: Parts) {
        if let Some(head) = self.head.take() {
            head.send(parts).ok();
        }
    }

    pub(crate) fn send(&mut self, bytes: Bytes) {
        self.unread.push_back(bytes);
        self.wake();
    }

    pub(crate) fn finish(&mut self) {
        self.end = Some(End::Finished);
        self.wake();
    }

    pub(crate) fn abort(&mut self) {
        self.unread.clear();
        self.end = Some(End::Aborted);
        self.wake();
    }

    /// The whole response, if the machine has said all of it.
    pub(crate) fn whole(&mut self) -> Option<Vec<u8>> {
        (self.end == Some(End::Finished)).then(|| self.take())
    }

    /// All that is there, in one piece: each piece costs the client a wake-up.
    fn take(&mut self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.unread.iter().map(Bytes::len).sum());
        self.unread.drain(..).for_each(|piece| bytes.extend_from_slice(&piece));
        bytes
    }

    fn wake(&mut self) {
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }
}

/// The body of a response, as the client reads it. Dropping it before its end
/// means that the client has gone.
pub(crate) struct Body {
    pub(crate) shell: Rc<Shell>,
    pub(crate) run: u64,
    pub(crate) exchange: ExchangeId,
    pub(crate) outlet: Rc<RefCell<Outlet>>,
}

impl Stream for Body {
    type Item = Result<Vec<u8>, Error>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut outlet = self.outlet.borrow_mut();
        let bytes = outlet.take();
        if !bytes.is_empty() {
            drop(outlet);
            self.shell.tell(self.run, Input::Flushed(Sink::Exchange(self.exchange), bytes.len()));
            return Poll::Ready(Some(Ok(bytes)));
        }
        match outlet.end {
            Some(End::Finished) => Poll::Ready(None),
            Some(End::Aborted) => Poll::Ready(Some(Err(Error::RustError("the response was broken off".to_owned())))),
            None => {
                outlet.reader = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        self.shell.tell(self.run, Input::Gone(self.exchange));
    }
}
