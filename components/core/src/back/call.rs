//! One call: its state, what it has been through, and what the server last
//! said about resuming it. What to do next is decided in `http`.

use crate::era::legacy::Session;
use crate::parcel::{Errand, Parcel};
use crate::time::{Deadline, Time, Why};
use crate::wire::sse::Sse;
use bytes::Bytes;
use http::{HeaderValue, StatusCode};
use std::time::Duration;
use url::Url;

/// How long a stream may go on after its answer.
const AFTERGLOW: Duration = Duration::from_secs(10);
/// How long the server may take over something that needs no answer.
const UNANSWERED: Duration = Duration::from_secs(60);

/// A parcel under way.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) parcel: Parcel,
    pub(crate) state: State,
    pub(crate) url: Url,
    pub(crate) session: Session,
    /// Redirects followed.
    pub(crate) hops: u32,
    /// The last sign of life.
    pub(crate) heard: Time,
    pub(crate) cursor: Cursor,
    /// The session id that the response offered.
    pub(crate) offered: Option<HeaderValue>,
    /// Bytes of the request body that have left.
    pub(crate) uploaded: usize,
    /// The length of the response body, where the head tells it.
    pub(crate) length: Option<usize>,
}

/// Where a call stands.
#[derive(Debug)]
#[expect(clippy::enum_variant_names, reason = "states are named by what they await")]
pub(crate) enum State {
    /// Its time to be sent, as a message.
    AwaitRetry(Time),
    /// Its time to be sent, as a GET for the rest of a stream.
    AwaitReconnect(Time),
    /// The response to a message.
    AwaitHead,
    /// The response to a GET.
    AwaitStream,
    /// Events.
    AwaitEvents(Sse),
    /// The end of a body that should be the answer.
    AwaitBody(StatusCode, Vec<u8>),
    /// The end of a body that says why not.
    AwaitReason(StatusCode, Vec<u8>),
    /// The end of a body that does not matter.
    AwaitEnd,
}

/// Where a stream can be resumed.
#[derive(Debug, Default)]
pub(crate) struct Cursor {
    pub(crate) last_event: Option<HeaderValue>,
    pub(crate) hint: Option<Duration>,
    /// Tries in a row that brought no event.
    pub(crate) fruitless: u32,
    /// Tries in a row that brought not even a response.
    pub(crate) unreached: u32,
}

impl Call {
    pub(crate) fn errand(&self) -> &Errand {
        &self.parcel.errand
    }

    /// No exchange is under way for it.
    pub(crate) fn waiting(&self) -> bool {
        matches!(self.state, State::AwaitRetry(_) | State::AwaitReconnect(_))
    }

    /// The server has the parcel: its body is kept only if it may go again.
    pub(crate) fn taken(mut self) -> Self {
        if !self.errand().repeatable() {
            self.parcel.body = Bytes::new();
        }
        self
    }

    /// Bytes of the request body that have not left.
    pub(crate) fn unsent(&self) -> usize {
        match self.state {
            State::AwaitRetry(_) | State::AwaitHead => self.parcel.body.len().saturating_sub(self.uploaded),
            State::AwaitReconnect(_)
            | State::AwaitStream
            | State::AwaitEvents(_)
            | State::AwaitBody(..)
            | State::AwaitReason(..)
            | State::AwaitEnd => 0,
        }
    }

    /// Bytes of the response held back.
    pub(crate) fn partial(&self) -> usize {
        match &self.state {
            State::AwaitEvents(sse) => sse.held(),
            State::AwaitBody(_, body) | State::AwaitReason(_, body) => body.len(),
            State::AwaitRetry(_)
            | State::AwaitReconnect(_)
            | State::AwaitHead
            | State::AwaitStream
            | State::AwaitEnd => 0,
        }
    }

    /// There is something the server has not taken, or not answered.
    pub(crate) fn busy(&self) -> bool {
        match self.errand() {
            Errand::Listen | Errand::Settled => false,
            Errand::Request { .. }
            | Errand::Initialize(_)
            | Errand::Reinitialize(_)
            | Errand::Restore
            | Errand::Initialized
            | Errand::Notification
            | Errand::Answer
            | Errand::Goodbye => true,
        }
    }

    /// The longest silence that is acceptable.
    pub(crate) fn patience(&self, request_timeout: Option<Duration>) -> Option<Duration> {
        match self.errand() {
            Errand::Listen => None,
            Errand::Settled => Some(AFTERGLOW),
            Errand::Request { .. } | Errand::Initialize(_) | Errand::Reinitialize(_) | Errand::Restore => {
                request_timeout
            }
            Errand::Initialized | Errand::Notification | Errand::Answer | Errand::Goodbye => {
                Some(request_timeout.unwrap_or(UNANSWERED).min(UNANSWERED))
            }
        }
    }

    /// When the silence has lasted too long. `paused`: the silence of a
    /// request is not the server's fault now, since the client owes it an
    /// answer or does not read what it says.
    pub(crate) fn quiet(&self, request_timeout: Option<Duration>, paused: bool) -> Option<Deadline> {
        let paused = paused && self.errand().wants_answer();
        let limit = self.patience(request_timeout).filter(|_| !paused)?;
        Some(Deadline { at: self.heard.after(limit), why: Why::Quiet })
    }

    /// When the call wants to be looked at.
    pub(crate) fn deadline(&self, request_timeout: Option<Duration>, paused: bool) -> Option<Deadline> {
        let quiet = self.quiet(request_timeout, paused);
        let turn = match self.state {
            State::AwaitRetry(at) => Some(Deadline { at, why: Why::Retry }),
            State::AwaitReconnect(at) => Some(Deadline { at, why: Why::Reconnect }),
            State::AwaitHead
            | State::AwaitStream
            | State::AwaitEvents(_)
            | State::AwaitBody(..)
            | State::AwaitReason(..)
            | State::AwaitEnd => None,
        };
        crate::time::earlier(turn, quiet)
    }

    /// Remembers what the stream said about resuming it.
    pub(crate) fn note_cursor(&mut self) {
        let State::AwaitEvents(sse) = &self.state else { return };
        self.cursor.hint = sse.retry().map(Duration::from_millis).or(self.cursor.hint);
        let id = sse.last_event_id();
        if !id.is_empty() {
            self.cursor.last_event = HeaderValue::from_bytes(id).ok();
        }
    }
}
