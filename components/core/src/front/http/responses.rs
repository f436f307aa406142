//! The responses in progress, one for each request of the client: which bytes the client
//! has not read, and when a silent or stalled response is due. Message contents and the
//! choice of stream do not belong here.

use crate::boundary::{ExchangeId, Output};
use crate::config::HttpTransport;
use crate::time::{Deadline, Time, Why};
use crate::timetable::{Timed, Timetable};
use bytes::Bytes;
use http::response;
use std::collections::VecDeque;
use std::time::Duration;

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
    /// How long a stream may be silent before it gets a sign of life.
    heartbeat: Duration,
    /// How long the client may leave bytes unread.
    patience: Duration,
}

#[derive(Debug)]
struct Response {
    /// The stream that it carries; `None` for a single body.
    stream: Option<u64>,
    /// Bytes that the client has not read.
    unread: usize,
    /// When the client last read something, or had read everything.
    taken: Time,
    /// When the proxy last wrote to it.
    written: Time,
    /// It has not begun, and may still become a single body.
    held: bool,
    finished: bool,
}

impl Responses {
    pub(super) fn new(client: &HttpTransport) -> Self {
        let &HttpTransport { hold, heartbeat, patience, .. } = client;
        let terms = Terms { hold, heartbeat, patience };
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

    /// Adds a response that carries this stream.
    pub(super) fn owe(&mut self, now: Time, id: ExchangeId, stream: Option<u64>) {
        self.live.insert(id, Response { stream, unread: 0, taken: now, written: now, held: false, finished: false });
    }

    /// Lets a response wait for its answer.
    pub(super) fn hold(&mut self, id: ExchangeId) {
        self.live.change(id, |response| response.held = true);
    }

    pub(super) fn is_held(&self, id: ExchangeId) -> bool {
        self.live.get(id).is_some_and(|response| response.held)
    }

    /// Ends the wait. Returns the stream that it carries, if it was waiting.
    pub(super) fn release(&mut self, id: ExchangeId) -> Option<u64> {
        self.live.change(id, |response| std::mem::take(&mut response.held).then_some(response.stream)?)?
    }

    pub(super) fn begin(&mut self, id: ExchangeId, parts: response::Parts) {
        if self.is_live(id) {
            self.outputs.push_back(Output::Respond(id, parts));
        }
    }

    pub(super) fn send(&mut self, now: Time, id: ExchangeId, bytes: Bytes) {
        let sent = self.live.change(id, |response| {
            if response.unread == 0 {
                response.taken = now;
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
    pub(super) fn finish(&mut self, id: ExchangeId) -> Option<u64> {
        let finished = self.live.change(id, |response| std::mem::replace(&mut response.finished, true))?;
        let Response { stream, unread, .. } = *self.live.get(id).filter(|_| !finished)?;
        self.outputs.push_back(Output::Finish(id));
        if unread == 0 {
            self.live.remove(id);
        }
        stream
    }

    /// The client read `count` bytes.
    pub(super) fn taken(&mut self, now: Time, id: ExchangeId, count: usize) {
        let taken = self.live.change(id, |response| {
            let count = count.min(response.unread);
            response.unread -= count;
            response.taken = now;
            (count, response.finished && response.unread == 0)
        });
        let Some((count, over)) = taken else { return };
        self.unread -= count;
        if over {
            self.live.remove(id);
        }
    }

    /// Nobody reads it any longer. Returns the stream that it carried.
    pub(super) fn forget(&mut self, id: ExchangeId) -> Option<u64> {
        let response = self.live.remove(id)?;
        self.unread -= response.unread;
        response.stream
    }

    /// Aborts it. Returns the stream that it carried.
    pub(super) fn abort(&mut self, id: ExchangeId) -> Option<u64> {
        if self.is_live(id) {
            self.outputs.push_back(Output::Abort(id));
        }
        self.forget(id)
    }

    pub(super) fn deadline(&self) -> Option<Deadline> {
        self.live.first()
    }

    /// The responses that are due, and why.
    pub(super) fn overdue(&self, now: Time) -> Vec<(ExchangeId, Why)> {
        let due = |response: &Response| response.due(self.live.terms()).filter(|deadline| deadline.at <= now);
        self.live.iter().filter_map(|(id, response)| Some((id, due(response)?.why))).collect()
    }
}

impl Timed for Response {
    type Terms = Terms;

    /// When to abort it, or to send a sign of life.
    fn due(&self, terms: &Terms) -> Option<Deadline> {
        if self.unread > 0 {
            return Some(Deadline { at: self.taken.after(terms.patience), why: Why::Unread });
        }
        self.stream?;
        let silence = if self.held { terms.hold } else { terms.heartbeat };
        Some(Deadline { at: self.written.after(silence), why: Why::Heartbeat })
    }
}
