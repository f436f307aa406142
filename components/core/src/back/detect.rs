//! How a server is spoken to, and how that is found out: with the client's own
//! first message. It goes as Streamable HTTP has it; a refusal that a server
//! of 2024-11-05 would give leads to its stream. Credentials that are wanted,
//! servers that fail and time that runs out decide nothing.

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

/// What is known of the server.
#[derive(Debug)]
pub(crate) enum Link {
    /// Nothing yet.
    Unknown,
    /// It speaks Streamable HTTP.
    Streamable(Reopenings),
    /// It speaks HTTP+SSE, or that is being tried.
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
    /// The transport, as far as it is known.
    pub(crate) fn transport(&self) -> Transport {
        match self.link {
            Link::Unknown => Transport::Auto,
            Link::Streamable(_) => Transport::StreamableHttp,
            Link::Sse(_) => Transport::Sse,
        }
    }

    /// Sends a message the way the server is spoken to.
    pub(super) fn dispatch(&mut self, now: Time, id: CallId, mut call: Call) {
        let Link::Sse(session) = &self.link else { return self.start_as(now, id, call, SendMode::Message) };
        if let Endpoint::Open(url) = &session.endpoint {
            call.url = url.clone();
            return self.start_as(now, id, call, SendMode::Post);
        }
        self.keep(id, call, State::AwaitEndpoint);
        self.open_stream(now);
    }

    /// How long to wait before a session that has ended, or could not be opened
    /// again, is opened again; `None`: until it is needed.
    pub(crate) fn reopening(&mut self) -> Option<Duration> {
        match &mut self.link {
            Link::Unknown => None,
            Link::Streamable(reopenings) | Link::Sse(SseSession { reopenings, .. }) => reopenings.next(&mut self.rng),
        }
    }

    /// The server can be heard on its listening stream.
    pub(super) fn listening(&mut self, now: Time, call: &Call) {
        if let (Link::Streamable(reopenings), false) = (&mut self.link, call.cursor.opened) {
            reopenings.opened(now);
        }
    }

    /// The session of the listening stream is lost.
    pub(super) fn listen_lost(&mut self, now: Time, call: Call) {
        if let Link::Streamable(reopenings) = &mut self.link {
            reopenings.lost(now, call.cursor.hint);
        }
        self.reports.push_back(Report::ListenLost(call.outgoing.session));
    }

    /// A message was answered in the response to it.
    pub(super) fn found_streamable(&mut self) {
        if matches!(self.link, Link::Unknown) {
            self.link = Link::Streamable(Reopenings::default());
        }
    }

    /// Tries HTTP+SSE if the refusal of a message may mean that. Gives the
    /// call back if it does not.
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
