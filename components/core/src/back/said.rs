//! Reads what the server sends: bytes become messages, and a body that should be the
//! answer becomes an answer or a failure.

use super::call::Call;
use super::exchanges::Exchanges;
use super::http::{BodyOver, Origin, Report};
use crate::boundary::CallId;
use crate::failure::Failure;
use crate::note::Note;
use crate::wire::message::{self, Fault, Id, Message, Parsed};
use crate::wire::sse::{Event, TooLong};
use http::StatusCode;

/// How much of a body to keep in case it is not the answer.
const BEGINNING: usize = 200;

impl Exchanges {
    /// The origin of messages in the response to a call.
    fn origin(&self, id: CallId) -> Origin {
        self.calls.get(id).map_or(Origin { request: None, session: None }, Call::origin)
    }

    /// Reports the message of an event.
    pub(super) fn message_event(&mut self, id: CallId, event: Event) {
        if !event.is_message() {
            return;
        }
        match event.data {
            Ok(data) => self.said(id, data),
            Err(TooLong(answer)) => self.too_long(id, answer),
        }
    }

    fn said(&mut self, id: CallId, bytes: Vec<u8>) {
        match self.parsed(bytes) {
            Ok(parsed) => {
                if self.calls.get(id).is_some_and(|call| call.cursor.messageless > 0) {
                    self.calls.change(id, |call| call.cursor.messageless = 0);
                }
                self.report(Report::Said(self.origin(id), parsed));
            }
            Err(fault) => self.report(Report::Note(Note::BadMessage(fault))),
        }
    }

    fn parsed(&self, bytes: Vec<u8>) -> Result<Parsed, Fault> {
        if !self.quirks.pretty_json && message::is_pretty(&bytes) {
            return Err(Fault::Syntax);
        }
        message::parse(utf8(bytes)).map_err(|bad| bad.fault)
    }

    /// A report for the messages in a body, and one for the case that the answer is not
    /// among them.
    pub(super) fn answers(&self, call: &Call, status: StatusCode, body: Vec<u8>) -> (Report, Option<Report>) {
        let body = if self.quirks.byte_order_mark { unmarked(body) } else { body };
        let beginning = body.get(..BEGINNING).unwrap_or(&body).to_vec();
        let (outgoing, encoding) = (call.outgoing.clone(), call.encoding.clone());
        let over = BodyOver { outgoing, status, encoding, beginning };
        let said = match self.parsed(body) {
            Ok(parsed) => Report::Said(call.origin(), parsed),
            Err(fault) => Report::Note(Note::BadMessage(fault)),
        };
        (said, call.purpose.map(|_| Report::BodyOver(Box::new(over))))
    }

    /// A message over the limit in a request's response counts as its answer, and the
    /// proxy does not read the rest of that response. Elsewhere, the id names the
    /// request.
    pub(super) fn too_long(&mut self, id: CallId, answer: Option<Id>) {
        let failure = Failure::too_long(self.max_message);
        let call = self.calls.get(id).filter(|call| call.traits().wants_answer());
        let Some((purpose, failed)) =
            call.and_then(|call| Some((call.purpose?, call.outgoing.failure(failure.clone()))))
        else {
            return self.report(Report::TooLong(answer, failure));
        };
        self.report(Report::Failed(purpose, failed));
        self.stop(id);
    }
}

impl BodyOver {
    /// The failure for the case that the answer was not in the body.
    pub(crate) fn failure(&self) -> Failure {
        self.outgoing.failure(Failure::body(self.status, &no_answer(self.encoding.as_deref()), &self.beginning))
    }
}

/// Parses a body as a JSON-RPC error of the server.
pub(super) fn own_error(body: Vec<u8>) -> Option<Message> {
    let Ok(Parsed::One(message)) = message::parse(utf8(body)) else { return None };
    message.valid().ok().filter(|message| !message.error().is_empty())
}

/// Why a response does not contain the answer.
pub(super) fn no_answer(encoding: Option<&str>) -> String {
    let compressed =
        |encoding| format!("its body is compressed (Content-Encoding: {encoding}), which the proxy did not ask for");
    encoding.map_or_else(|| "its body is not the answer".to_owned(), compressed)
}

/// Strips the byte order mark that some servers put before a body.
pub(super) fn unmarked(mut body: Vec<u8>) -> Vec<u8> {
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
