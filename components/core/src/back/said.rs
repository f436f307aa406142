//! Reads what the server sends: bytes become messages, and a body that should be the
//! answer becomes an answer or a failure.

use super::call::Call;
use super::http::{BodyOver, HttpBack, Origin, Report};
use crate::boundary::CallId;
use crate::failure::{Delivered, Failure};
use crate::note::Note;
use crate::time::Time;
use crate::wire::message::{self, Fault, Id, Message, Parsed};
use http::StatusCode;

/// How much of a body to keep in case it is not the answer.
const BEGINNING: usize = 200;

impl HttpBack {
    /// The origin of messages in the response to a call.
    pub(super) fn origin(&self, id: CallId) -> Origin {
        self.calls.get(id).map_or(Origin { request: None, session: None }, Call::origin)
    }

    pub(super) fn said(&mut self, origin: Origin, bytes: Vec<u8>) {
        self.reports.push_back(match self.parsed(bytes) {
            Ok(parsed) => Report::Said(origin, parsed),
            Err(fault) => Report::Note(Note::BadMessage(fault)),
        });
    }

    fn parsed(&self, bytes: Vec<u8>) -> Result<Parsed, Fault> {
        if !self.config.quirks.pretty_json && message::is_pretty(&bytes) {
            return Err(Fault::Syntax);
        }
        message::parse(utf8(bytes)).map_err(|bad| bad.fault)
    }

    /// Parses a body as a JSON-RPC error of the server.
    pub(super) fn own_error(body: Vec<u8>) -> Option<Message> {
        let Ok(Parsed::One(message)) = message::parse(utf8(body)) else { return None };
        message.valid().ok().filter(|message| !message.error().is_empty())
    }

    /// A body of known length is complete before its response has ended.
    pub(super) fn body_whole(&mut self, id: CallId, status: StatusCode, body: Vec<u8>) {
        self.found_streamable();
        let Some(call) = self.calls.get(id) else { return };
        let reports = self.answers(call, status, body);
        self.settle(id);
        self.reports.extend(reports);
    }

    pub(super) fn body_over(&mut self, now: Time, mut call: Call, status: StatusCode, body: Vec<u8>) {
        if self.says_lost(&call, status, &body) {
            return self.session_gone(call, Failure::body(status, "the session is gone", &body));
        }
        if body.trim_ascii().is_empty() {
            let failure = Failure::body(status, "there is no answer in it", &[]);
            // The server may still have acted on the message.
            call.outgoing.delivered = Delivered::Maybe;
            let Some(call) = self.try_sse(now, call, &failure, &body) else { return };
            return self.fail(&call, failure);
        }
        self.found_streamable();
        let reports = self.answers(&call, status, body);
        self.reports.extend(reports);
    }

    /// Reports for the messages in a body, and for the case that the answer is not among
    /// them.
    fn answers(&self, call: &Call, status: StatusCode, body: Vec<u8>) -> Vec<Report> {
        let body = if self.config.quirks.byte_order_mark { unmarked(body) } else { body };
        let beginning = body.get(..BEGINNING).unwrap_or(&body).to_vec();
        let (outgoing, encoding) = (call.outgoing.clone(), call.encoding.clone());
        let over = BodyOver { outgoing, status, encoding, beginning };
        let said = match self.parsed(body) {
            Ok(parsed) => Report::Said(call.origin(), parsed),
            Err(fault) => Report::Note(Note::BadMessage(fault)),
        };
        std::iter::once(said).chain(call.purpose.map(|_| Report::BodyOver(Box::new(over)))).collect()
    }

    /// A message over the limit in a request's response counts as its answer, and the
    /// proxy does not read the rest of that response. Elsewhere, the id names the
    /// request.
    pub(super) fn too_long(&mut self, id: CallId, answer: Option<Id>) {
        let failure = Failure::too_long(self.config.max_message);
        let call = self.calls.get(id).filter(|call| call.traits().wants_answer());
        let Some((purpose, failed)) =
            call.and_then(|call| Some((call.purpose?, call.outgoing.failure(failure.clone()))))
        else {
            return self.reports.push_back(Report::TooLong(answer, failure));
        };
        self.reports.push_back(Report::Failed(purpose, failed));
        self.stop(id);
    }
}

impl BodyOver {
    /// The failure for the case that the answer was not in the body.
    pub(crate) fn failure(&self) -> Failure {
        self.outgoing.failure(Failure::body(self.status, &no_answer(self.encoding.as_deref()), &self.beginning))
    }
}

/// Why a response does not contain the answer.
pub(super) fn no_answer(encoding: Option<&str>) -> String {
    let compressed =
        |encoding| format!("its body is compressed (Content-Encoding: {encoding}), which the proxy did not ask for");
    encoding.map_or_else(|| "its body is not the answer".to_owned(), compressed)
}

/// Strips the byte order mark that some servers put before a body.
fn unmarked(mut body: Vec<u8>) -> Vec<u8> {
    if body.starts_with(b"\xEF\xBB\xBF") {
        body.drain(..3);
    }
    body
}

/// Event streams are UTF-8: replace invalid bytes instead of failing.
fn utf8(bytes: Vec<u8>) -> Vec<u8> {
    String::from_utf8(bytes)
        .map_or_else(|bad| String::from_utf8_lossy(bad.as_bytes()).into_owned().into_bytes(), String::into_bytes)
}
