//! How a server is spoken to, and how that is found out: with the client's own
//! first message. It goes as Streamable HTTP has it; a refusal that a server
//! of 2024-11-05 would give leads to its stream. Credentials that are wanted,
//! servers that fail and time that runs out decide nothing.

use super::call::{Call, State};
use super::channel::{Channel, Gate};
use super::http::{HttpBack, Report};
use super::meaning::Way;
use crate::boundary::CallId;
use crate::config::Transport;
use crate::failure::{Attempt, Failure};
use crate::note::Note;
use crate::time::Time;
use crate::wire::message::{self, Kind, Parsed};
use http::StatusCode;

/// What is known of the server.
#[derive(Debug)]
pub(crate) enum Link {
    /// Nothing yet.
    Unknown,
    /// It speaks Streamable HTTP.
    Streamable,
    /// It speaks HTTP+SSE, or that is being tried.
    Sse(Channel),
}

impl Link {
    pub(super) fn new(transport: Transport) -> Self {
        match transport {
            Transport::Auto => Self::Unknown,
            Transport::StreamableHttp => Self::Streamable,
            Transport::Sse => Self::Sse(Channel::default()),
        }
    }
}

impl HttpBack {
    /// The transport, as far as it is known.
    pub(crate) fn transport(&self) -> Transport {
        match self.link {
            Link::Unknown => Transport::Auto,
            Link::Streamable => Transport::StreamableHttp,
            Link::Sse(_) => Transport::Sse,
        }
    }

    /// Sends a message the way the server is spoken to.
    pub(super) fn dispatch(&mut self, now: Time, id: CallId, mut call: Call) {
        let Link::Sse(channel) = &self.link else { return self.start_as(now, id, call, Way::Message) };
        if let Gate::Open(url) = &channel.gate {
            call.url = url.clone();
            return self.start_as(now, id, call, Way::Post);
        }
        self.keep(id, call, State::AwaitEndpoint);
        self.open_stream(now);
    }

    /// A message was answered in the response to it.
    pub(super) fn found_streamable(&mut self) {
        if matches!(self.link, Link::Unknown) {
            self.link = Link::Streamable;
        }
    }

    /// Tries HTTP+SSE if the refusal of a message may mean that. Gives the
    /// call back if it does not.
    pub(super) fn try_sse(&mut self, now: Time, call: Call, failure: &Failure, body: &[u8]) -> Option<Call> {
        let status = failure.data.http_status.and_then(|status| StatusCode::from_u16(status).ok());
        let telling = status.is_some_and(|status| may_be_sse(status, body));
        if call.way != Way::Message || !telling || !call.errand().wants_answer() {
            return Some(call);
        }
        match &self.link {
            Link::Streamable => return Some(call),
            Link::Sse(_) => {}
            Link::Unknown => {
                self.link = Link::Sse(Channel::guessed(Attempt::new("POST", failure), call.errand().handshake()));
                self.reports.push_back(Report::Note(Note::SseTried(status)));
            }
        }
        let id = self.new_id();
        self.dispatch(now, id, call);
        None
    }
}

/// A server that knows only HTTP+SSE may refuse a message like this. One that
/// answers in JSON-RPC has understood the message.
fn may_be_sse(status: StatusCode, body: &[u8]) -> bool {
    let parsed = message::parse(body.to_vec());
    let answer = matches!(parsed, Ok(Parsed::One(message)) if matches!(message.kind, Kind::Response { .. }));
    matches!(status.as_u16(), 400 | 404 | 405 | 406 | 415 | 501) && !answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_telling_refusals_without_a_json_rpc_body_lead_to_sse() {
        let leads = |status, body: &str| may_be_sse(StatusCode::from_u16(status).unwrap(), body.as_bytes());
        for status in [400, 404, 405, 406, 415, 501] {
            assert!(leads(status, "<html>no</html>"), "{status}");
            assert!(leads(status, ""), "{status}");
            assert!(
                !leads(status, r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"no"}}"#),
                "{status}"
            );
        }
        for status in [401, 403, 407, 408, 409, 410, 413, 422, 429, 500, 502, 503, 504] {
            assert!(!leads(status, ""), "{status}");
        }
    }
}
