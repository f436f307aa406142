//! The server's transport, and how the proxy detects it from the client's first message.
//! The proxy sends the message as Streamable HTTP. If the server refuses it the way a
//! 2024-11-05 server would, the proxy tries HTTP+SSE. Missing credentials, server errors
//! and timeouts decide nothing.

use super::call::{Call, State};
use super::classify::SendMode;
use super::http::{HttpBack, Report};
use super::refusals;
use super::reopen::Reopenings;
use super::sse_session::{Endpoint, SseSession};
use crate::boundary::CallId;
use crate::config::Transport;
use crate::failure::{Attempt, Failure};
use crate::note::Note;
use crate::time::Time;
use http::StatusCode;
use std::time::Duration;

/// What the proxy knows about the server.
#[derive(Debug)]
pub(crate) enum Link {
    Unknown,
    /// It speaks Streamable HTTP.
    Streamable(Reopenings),
    /// It speaks HTTP+SSE, or the proxy is trying that.
    Sse(SseSession),
}

impl Link {
    pub(super) fn new(transport: Transport) -> Self {
        match transport {
            Transport::Auto => Self::Unknown,
            Transport::StreamableHttp => Self::Streamable(Reopenings::default()),
            Transport::Sse => Self::Sse(SseSession::default()),
        }
    }
}

impl HttpBack {
    /// The transport, as far as the proxy knows it.
    pub(crate) fn transport(&self) -> Transport {
        match self.link {
            Link::Unknown => Transport::Auto,
            Link::Streamable(_) => Transport::StreamableHttp,
            Link::Sse(_) => Transport::Sse,
        }
    }

    /// Sends a message over the server's transport.
    pub(super) fn dispatch(&mut self, now: Time, id: CallId, mut call: Call) {
        let Link::Sse(session) = &self.link else { return self.start_as(now, id, call, SendMode::Message) };
        if let Endpoint::Open(url) = &session.endpoint {
            call.url = url.clone();
            return self.start_as(now, id, call, SendMode::Post);
        }
        self.keep(id, call, State::AwaitEndpoint);
        self.open_stream(now);
    }

    /// How long to wait before reopening a session that has ended or could not be
    /// reopened; `None`: until a message needs it.
    pub(crate) fn reopening(&mut self) -> Option<Duration> {
        match &mut self.link {
            Link::Unknown => None,
            Link::Streamable(reopenings) | Link::Sse(SseSession { reopenings, .. }) => reopenings.next(&mut self.rng),
        }
    }

    /// The listening stream is open.
    pub(super) fn listening(&mut self, now: Time, call: &Call) {
        if let (Link::Streamable(reopenings), false) = (&mut self.link, call.cursor.opened) {
            reopenings.opened(now);
        }
    }

    /// The server has lost the session of the listening stream.
    pub(super) fn listen_lost(&mut self, now: Time, call: Call) {
        if let Link::Streamable(reopenings) = &mut self.link {
            reopenings.lost(now, call.cursor.hint);
        }
        self.reports.push_back(Report::ListenLost(call.outgoing.session));
    }

    /// The server answered a message in its own response.
    pub(super) fn found_streamable(&mut self) {
        if matches!(self.link, Link::Unknown) {
            self.link = Link::Streamable(Reopenings::default());
        }
    }

    /// Tries HTTP+SSE if the refusal of a message may mean that. Otherwise returns the
    /// call.
    pub(super) fn try_sse(&mut self, now: Time, call: Call, failure: &Failure, body: &[u8]) -> Option<Call> {
        let status = failure.data.http_status.and_then(|status| StatusCode::from_u16(status).ok());
        let handshake = call.traits().handshake;
        let telling = status.is_some_and(|status| refusals::may_be_sse(handshake, status, body));
        if call.mode != SendMode::Message || !telling || !call.traits().wants_answer() {
            return Some(call);
        }
        match &self.link {
            Link::Streamable(_) => return Some(call),
            Link::Sse(_) => {}
            Link::Unknown => {
                self.link = Link::Sse(SseSession::guessed(Attempt::new("POST", failure), handshake));
                self.reports.push_back(Report::Note(Note::SseTried(status)));
            }
        }
        let id = self.new_id();
        self.dispatch(now, id, call);
        None
    }
}
