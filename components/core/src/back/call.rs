//! One call: its state, its history, and the server's last hints for resuming it. `http`
//! decides what to do next.

use super::challenge::Challenge;
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

/// How long a stream may continue after its answer.
const AFTERGLOW: Duration = Duration::from_secs(10);
/// How long the server may take to accept a message that needs no answer.
const UNANSWERED: Duration = Duration::from_secs(60);

/// How long the server may take to answer a keep-alive ping.
const PING: Duration = Duration::from_secs(30);

/// How long the server may take to answer a request that it may not understand.
const PROBE: Duration = Duration::from_secs(10);

/// The user's time limits for calls.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Limit without any sign of life.
    silence: Option<Duration>,
    /// Limit until a response begins.
    first_byte: Option<Duration>,
    /// Limit for the whole request.
    pub(super) total: Option<Duration>,
}

/// A message under way.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) outgoing: Outgoing,
    /// What the response is for; `None` if nobody waits for it any longer.
    pub(crate) purpose: Option<Purpose>,
    pub(crate) state: State,
    /// How the call was last sent, or will be.
    pub(crate) mode: SendMode,
    pub(crate) url: Url,
    /// How many redirects the call has followed.
    pub(crate) hops: u32,
    /// When the current exchange began.
    pub(crate) sent: Time,
    /// Set if the session ended while the message was being posted. Until this time, the
    /// response may still tell whether the server refused it.
    pub(crate) stranded: Option<Time>,
    /// The last sign of life.
    pub(crate) heard: Time,
    pub(crate) cursor: Cursor,
    /// The session id that the response offered.
    pub(crate) offered: Option<HeaderValue>,
    /// Bytes of the request body that have left.
    pub(crate) uploaded: usize,
    /// The length of the response body, if the head announces it.
    pub(crate) length: Option<usize>,
    /// The encoding of the response body, if the head names one.
    pub(crate) encoding: Option<String>,
}

/// The state of a call.
#[derive(Debug)]
#[expect(clippy::enum_variant_names, reason = "states are named by what they await")]
pub(crate) enum State {
    /// Awaits its time to be sent as a message.
    AwaitRetry(Time),
    /// Awaits its time to be sent as a GET, for a stream or the rest of one.
    AwaitReconnect(Time),
    /// Awaits the endpoint of an HTTP+SSE server, to be sent there.
    AwaitEndpoint,
    /// Awaits the head of its response.
    AwaitHead,
    AwaitEvents(Sse),
    /// Awaits the end of a body that should be the answer.
    AwaitBody(StatusCode, Vec<u8>),
    /// Awaits the end of a body that explains a refusal.
    AwaitReason(Reason),
    /// Awaits the answer on the stream of an HTTP+SSE session.
    AwaitAnswer(Exchange),
    /// Awaits the end of a body that does not matter.
    AwaitEnd,
}

/// Why the server refused.
#[derive(Debug)]
pub(crate) struct Reason {
    pub(crate) status: StatusCode,
    /// The credentials that the server asks for.
    pub(crate) challenge: Challenge,
    /// The beginning of the body.
    pub(crate) body: Vec<u8>,
}

/// Whether the response to a call is still coming in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exchange {
    Running,
    Over,
}

/// Where to resume a stream.
#[derive(Debug, Default)]
pub(crate) struct Cursor {
    /// The stream was open before.
    pub(crate) opened: bool,
    pub(crate) last_event: Option<HeaderValue>,
    pub(crate) hint: Option<Duration>,
    /// Attempts in a row that brought no event.
    pub(crate) eventless: u32,
    /// Attempts in a row that brought no message.
    pub(crate) messageless: u32,
    /// Attempts in a row that brought no response at all.
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

    pub(crate) fn traits(&self) -> Traits {
        self.purpose.map_or(Traits::SETTLED, Purpose::traits)
    }

    /// The origin of messages in this call's response.
    pub(crate) fn origin(&self) -> Origin {
        Origin { request: self.traits().key, session: self.offered.clone() }
    }

    /// Nobody waits for the response any longer.
    pub(crate) fn abandon(&mut self) {
        (self.purpose, self.stranded) = (None, None);
        self.outgoing.body = Bytes::new();
        if matches!(self.state, State::AwaitAnswer(_)) {
            self.state = State::AwaitEnd;
        }
    }

    /// Restarts the count of silence at `now`.
    pub(crate) fn touch(&mut self, now: Time) {
        (self.heard, self.sent) = (self.heard.max(now), self.sent.max(now));
    }

    /// No exchange is running for the call.
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

    /// The call waits to be sent as a message, for the first time or again.
    pub(crate) fn unsent_message(&self) -> bool {
        matches!(self.state, State::AwaitRetry(_) | State::AwaitEndpoint)
    }

    /// The server cannot have seen the message.
    pub(crate) fn unseen(&self) -> bool {
        self.unsent_message() && self.outgoing.delivered == Delivered::No
    }

    /// The server has the message: keep the body only if the call may be repeated.
    pub(crate) fn accepted(mut self) -> Self {
        if !self.traits().repeatable {
            self.outgoing.body = Bytes::new();
        }
        self
    }

    /// The call asks for the server's era, so its answer says nothing about the transport.
    pub(crate) fn probes(&self) -> bool {
        matches!(self.purpose, Some(Purpose::Discover(_)))
    }

    /// The call is a GET for messages, but not for those of an HTTP+SSE session.
    pub(crate) fn fetches(&self) -> bool {
        self.mode == SendMode::Stream && self.purpose != Some(Purpose::Stream)
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

    /// The part of `piece` that belongs to the body, if its length is known.
    pub(crate) fn belonging<'a>(&self, piece: &'a [u8]) -> &'a [u8] {
        let State::AwaitBody(_, body) = &self.state else { return piece };
        let room = self.length.map(|length| length.saturating_sub(body.len()));
        room.and_then(|room| piece.get(..room)).unwrap_or(piece)
    }

    /// Bytes of the unfinished response that the call holds.
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

    /// The longest acceptable silence.
    pub(crate) fn patience(&self, limits: &Limits) -> Option<Duration> {
        match self.traits().patience {
            Patience::Endless => self.is_refused_listener().then_some(AFTERGLOW),
            Patience::Afterglow => Some(AFTERGLOW),
            Patience::Ping => Some(PING),
            Patience::Probe => Some(limits.silence.unwrap_or(PROBE).min(PROBE)),
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

    /// The limit that expires first.
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

    /// When the call next needs attention.
    pub(crate) fn deadline(&self, limits: &Limits) -> Option<Deadline> {
        earlier(self.turn(), self.limit(limits))
    }

    /// When to send the call.
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

    /// Remembers the stream's hints for resuming it.
    pub(crate) fn note_cursor(&mut self) {
        let State::AwaitEvents(sse) = &self.state else { return };
        self.cursor.hint = sse.retry().map(Duration::from_millis).or(self.cursor.hint);
        let id = sse.last_event_id();
        if !id.is_empty() && !self.outgoing.session.stateless {
            self.cursor.last_event = HeaderValue::from_bytes(id).ok();
        }
    }
}
