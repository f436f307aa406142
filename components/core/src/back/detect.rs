//! The server's transport, and how the proxy detects it from the client's first message.
//! The proxy sends the message as Streamable HTTP. If the server refuses it the way a
//! 2024-11-05 server would, the proxy tries HTTP+SSE. Missing credentials, server errors
//! and timeouts decide nothing.

use super::call::Call;
use super::classify::SendMode;
use super::refusals;
use super::reopen::Reopenings;
use super::sse_session::SseSession;
use crate::config::{Config, Transport};
use crate::failure::{Attempt, Failure};
use crate::note::Note;
use http::StatusCode;

/// What the proxy knows about the server.
#[derive(Debug)]
pub(crate) enum Link {
    Unknown,
    /// It speaks Streamable HTTP.
    Streamable(Reopenings),
    /// It speaks HTTP+SSE, or the proxy is trying that.
    Sse(SseSession),
}

/// What the refusal of a message says about the server.
#[derive(Debug)]
pub(super) enum Suspicion {
    Nothing,
    /// It speaks HTTP+SSE. The note says so if that is new.
    Sse(Option<Note>),
}

impl Link {
    pub(super) fn new(config: &Config) -> Self {
        match config.transport {
            Transport::Auto if config.found().is_some_and(|found| found.transport == Transport::Sse) => {
                Self::Sse(SseSession::remembered())
            }
            // The first message shows that a server still speaks Streamable HTTP.
            Transport::Auto => Self::Unknown,
            Transport::StreamableHttp => Self::Streamable(Reopenings::default()),
            Transport::Sse => Self::Sse(SseSession::default()),
        }
    }

    /// The transport, as far as the proxy knows it.
    pub(super) fn transport(&self) -> Transport {
        match self {
            Self::Unknown => Transport::Auto,
            Self::Streamable(_) => Transport::StreamableHttp,
            Self::Sse(_) => Transport::Sse,
        }
    }

    pub(super) fn sse(&self) -> Option<&SseSession> {
        if let Self::Sse(session) = self { Some(session) } else { None }
    }

    pub(super) fn sse_mut(&mut self) -> Option<&mut SseSession> {
        if let Self::Sse(session) = self { Some(session) } else { None }
    }

    pub(super) fn reopenings(&mut self) -> Option<&mut Reopenings> {
        match self {
            Self::Unknown => None,
            Self::Streamable(reopenings) | Self::Sse(SseSession { reopenings, .. }) => Some(reopenings),
        }
    }

    /// The server answered a message in its own response.
    pub(super) fn found_streamable(&mut self) {
        if matches!(self, Self::Unknown) {
            *self = Self::Streamable(Reopenings::default());
        }
    }

    /// What the refusal of a call says about the server.
    pub(super) fn suspect(&mut self, call: &Call, failure: &Failure, body: &[u8]) -> Suspicion {
        let status = failure.data.http_status.and_then(|status| StatusCode::from_u16(status).ok());
        let handshake = call.traits().handshake;
        let telling = status.is_some_and(|status| refusals::may_be_sse(handshake, status, body));
        if call.mode != SendMode::Message || !telling || !call.traits().wants_answer() || call.probes() {
            return Suspicion::Nothing;
        }
        match self {
            Self::Streamable(_) => Suspicion::Nothing,
            Self::Sse(_) => Suspicion::Sse(None),
            Self::Unknown => {
                *self = Self::Sse(SseSession::guessed(Attempt::new("POST", failure), handshake));
                Suspicion::Sse(Some(Note::SseTried(status)))
            }
        }
    }
}
