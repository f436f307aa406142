//! One call: its state, what it has been through, and what the server last
//! said about resuming it. What to do next is decided in `http`.

use super::classify::SendMode;
use super::http::Origin;
use crate::config::Config;
use crate::failure::Delivered;
use crate::outgoing::{Outgoing, Patience, Purpose, Traits};
use crate::time::{Deadline, Time, Why, earlier};
use crate::timetable::Timed;
use crate::wire::sse::Sse;
use bytes::Bytes;
use http::{HeaderValue, StatusCode};
use std::time::Duration;
use url::Url;

/// How long a stream may go on after its answer.
const AFTERGLOW: Duration = Duration::from_secs(10);
/// How long the server may take over something that needs no answer.
const UNANSWERED: Duration = Duration::from_secs(60);

/// How long the server may take over a ping of ours.
const PING: Duration = Duration::from_secs(30);

/// What the user allows calls, in time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Without any sign of life.
    silence: Option<Duration>,
    /// Until a response begins.
    first_byte: Option<Duration>,
    /// At all.
    total: Option<Duration>,
}

/// A message under way.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) outgoing: Outgoing,
    /// What its response is for; nothing any more, if nobody waits for it.
    pub(crate) purpose: Option<Purpose>,
    pub(crate) state: State,
    /// How it was sent last, or will be.
    pub(crate) mode: SendMode,
    pub(crate) url: Url,
    /// Redirects followed.
    pub(crate) hops: u32,
    /// When its exchange began.
    pub(crate) sent: Time,
    /// Its session has ended while it was under way: until then its response
    /// may still say what became of it.
    pub(crate) stranded: Option<Time>,
    /// The last sign of life.
    pub(crate) heard: Time,
    pub(crate) cursor: Cursor,
    /// The session id that the response offered.
    pub(crate) offered: Option<HeaderValue>,
    /// Bytes of the request body that have left.
    pub(crate) uploaded: usize,
    /// The length of the response body, where the head tells it.
    pub(crate) length: Option<usize>,
    /// The encoding of the response body, where the head tells one.
    pub(crate) encoding: Option<String>,
}

/// Where a call stands.
#[derive(Debug)]
#[expect(clippy::enum_variant_names, reason = "states are named by what they await")]
pub(crate) enum State {
    /// Its time to be sent, as a message.
    AwaitRetry(Time),
    /// Its time to be sent, as a GET for a stream or the rest of one.
    AwaitReconnect(Time),
    /// The endpoint of an HTTP+SSE server, to be sent there.
    AwaitEndpoint,
    /// The beginning of its response.
    AwaitHead,
    /// Events.
    AwaitEvents(Sse),
    /// The end of a body that should be the answer.
    AwaitBody(StatusCode, Vec<u8>),
    /// The end of a body that says why not.
    AwaitReason(Reason),
    /// The answer, on the stream of an HTTP+SSE session.
    AwaitAnswer(Exchange),
    /// The end of a body that does not matter.
    AwaitEnd,
}

/// Why the server does not do what was asked.
#[derive(Debug)]
pub(crate) struct Reason {
    pub(crate) status: StatusCode,
    /// What it wants to be shown.
    pub(crate) challenge: Option<String>,
    /// The beginning of the body.
    pub(crate) body: Vec<u8>,
}

/// Whether the response to a call is still coming in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exchange {
    Running,
    Over,
}

/// Where a stream can be resumed.
#[derive(Debug, Default)]
pub(crate) struct Cursor {
    /// The stream was open before.
    pub(crate) opened: bool,
    pub(crate) last_event: Option<HeaderValue>,
    pub(crate) hint: Option<Duration>,
    /// Tries in a row that brought no event.
    pub(crate) eventless: u32,
    /// Tries in a row that brought no message.
    pub(crate) messageless: u32,
    /// Tries in a row that brought not even a response.
    pub(crate) unreached: u32,
}

impl Limits {
    pub(crate) fn new(config: &Config) -> Self {
        let &Config { request_timeout: silence, first_byte_timeout: first_byte, total_timeout: total, .. } = config;
        Self { silence, first_byte, total }
    }
}

impl Call {
    pub(crate) fn new(now: Time, outgoing: Outgoing, url: Url) -> Self {
        let streams = matches!(outgoing.purpose, Purpose::Listen | Purpose::Stream);
        let mode = if streams { SendMode::Stream } else { SendMode::Message };
        Self {
            purpose: Some(outgoing.purpose),
            outgoing: Outgoing { since: outgoing.since.or(Some(now)), ..outgoing },
            state: State::AwaitHead,
            mode,
            url,
            hops: 0,
            sent: now,
            stranded: None,
            heard: now,
            cursor: Cursor::default(),
            offered: None,
            uploaded: 0,
            length: None,
            encoding: None,
        }
    }

    /// What follows from its purpose.
    pub(crate) fn traits(&self) -> Traits {
        self.purpose.map_or(Traits::SETTLED, Purpose::traits)
    }

    /// Where that comes from which is said in its response.
    pub(crate) fn origin(&self) -> Origin {
        Origin { request: self.traits().key, session: self.offered.clone() }
    }

    /// Nobody waits for it any more.
    pub(crate) fn settle(&mut self) {
        self.purpose = None;
        self.outgoing.body = Bytes::new();
        if matches!(self.state, State::AwaitAnswer(_)) {
            self.state = State::AwaitEnd;
        }
    }

    /// Silence counts from here on.
    pub(crate) fn touch(&mut self, now: Time) {
        (self.heard, self.sent) = (self.heard.max(now), self.sent.max(now));
    }

    /// No exchange is under way for it.
    pub(crate) fn waiting(&self) -> bool {
        match self.state {
            State::AwaitRetry(_)
            | State::AwaitReconnect(_)
            | State::AwaitEndpoint
            | State::AwaitAnswer(Exchange::Over) => true,
            State::AwaitHead
            | State::AwaitEvents(_)
            | State::AwaitBody(..)
            | State::AwaitReason(_)
            | State::AwaitAnswer(Exchange::Running)
            | State::AwaitEnd => false,
        }
    }

    /// It waits to be sent as a message, for the first time or again.
    pub(crate) fn unsent_message(&self) -> bool {
        matches!(self.state, State::AwaitRetry(_) | State::AwaitEndpoint)
    }

    /// The server cannot have seen the message.
    pub(crate) fn unseen(&self) -> bool {
        self.unsent_message() && self.outgoing.delivered == Delivered::No
    }

    /// The server has the message: its body is kept only if it may go again.
    pub(crate) fn taken(mut self) -> Self {
        if !self.traits().repeatable {
            self.outgoing.body = Bytes::new();
        }
        self
    }

    /// Bytes of the request body that have not left.
    pub(crate) fn unsent(&self) -> usize {
        match self.state {
            State::AwaitRetry(_) | State::AwaitEndpoint | State::AwaitHead => {
                self.outgoing.body.len().saturating_sub(self.uploaded)
            }
            State::AwaitReconnect(_)
            | State::AwaitEvents(_)
            | State::AwaitBody(..)
            | State::AwaitReason(_)
            | State::AwaitAnswer(_)
            | State::AwaitEnd => 0,
        }
    }

    /// As much of a piece as belongs to the body, where its length is known.
    pub(crate) fn belonging<'a>(&self, piece: &'a [u8]) -> &'a [u8] {
        let State::AwaitBody(_, body) = &self.state else { return piece };
        let room = self.length.map(|length| length.saturating_sub(body.len()));
        room.and_then(|room| piece.get(..room)).unwrap_or(piece)
    }

    /// Bytes of the response held back.
    pub(crate) fn partial(&self) -> usize {
        match &self.state {
            State::AwaitEvents(sse) => sse.held(),
            State::AwaitBody(_, body) | State::AwaitReason(Reason { body, .. }) => body.len(),
            State::AwaitRetry(_)
            | State::AwaitReconnect(_)
            | State::AwaitEndpoint
            | State::AwaitHead
            | State::AwaitAnswer(_)
            | State::AwaitEnd => 0,
        }
    }

    /// The longest silence that is acceptable.
    pub(crate) fn patience(&self, limits: &Limits) -> Option<Duration> {
        match self.traits().patience {
            Patience::Endless => self.is_refused_listener().then_some(AFTERGLOW),
            Patience::Afterglow => Some(AFTERGLOW),
            Patience::Ping => Some(PING),
            Patience::Request => limits.silence,
            Patience::Message => Some(limits.silence.unwrap_or(UNANSWERED).min(UNANSWERED)),
        }
    }

    fn is_refused_listener(&self) -> bool {
        self.purpose == Some(Purpose::Listen) && matches!(self.state, State::AwaitReason(_))
    }

    /// How long the response may take to begin.
    pub(crate) fn first_byte(&self, limits: &Limits) -> Option<Duration> {
        match self.mode {
            SendMode::Message | SendMode::Post => limits.first_byte,
            SendMode::Stream => None,
        }
    }

    /// The limit that will be hit first.
    pub(crate) fn limit(&self, limits: &Limits) -> Option<Deadline> {
        let quiet = self.patience(limits);
        let quiet = quiet.map(|limit| Deadline { at: self.heard.after(limit), why: Why::Quiet });
        let begins = matches!(self.state, State::AwaitHead) && self.purpose.is_some();
        let first = self.first_byte(limits).filter(|_| begins);
        let first = first.map(|limit| Deadline { at: self.sent.after(limit), why: Why::FirstByte });
        let total = self.purpose.and_then(|_| self.outgoing.due(&limits.total));
        let stranded = self.stranded.map(|at| Deadline { at, why: Why::Quiet });
        earlier(earlier(total, stranded), earlier(quiet, first))
    }

    /// When the call wants to be looked at.
    pub(crate) fn deadline(&self, limits: &Limits) -> Option<Deadline> {
        earlier(self.turn(), self.limit(limits))
    }

    /// When it is to be sent.
    pub(crate) fn turn(&self) -> Option<Deadline> {
        match self.state {
            State::AwaitRetry(at) => Some(Deadline { at, why: Why::Retry }),
            State::AwaitReconnect(at) => Some(Deadline { at, why: Why::Reconnect }),
            State::AwaitEndpoint
            | State::AwaitHead
            | State::AwaitEvents(_)
            | State::AwaitBody(..)
            | State::AwaitReason(_)
            | State::AwaitAnswer(_)
            | State::AwaitEnd => None,
        }
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
