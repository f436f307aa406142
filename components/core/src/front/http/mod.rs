//! The Streamable HTTP client: its requests become messages, and each message to it goes
//! out on exactly one stream. `responses`, `streams`, `event` and `kept` are common to
//! all revisions; `legacy` is a client's session, `modern` are requests without one. The
//! server's session and the handling of accepted requests do not belong here.

mod event;
mod kept;
mod legacy;
mod modern;
mod refusal;
mod responses;
mod streams;

use crate::boundary::{ExchangeId, Output};
use crate::config::{HttpTransport, Transport};
use crate::failure::Denial;
use crate::time::{Deadline, Time, earlier};
use crate::wire::message::{Id, Message, Parsed};
use bytes::Bytes;
use event::StreamId;
use http::request::Parts;
use http::{HeaderMap, Method, StatusCode};
use legacy::{Legacy, Questions};
use modern::Modern;
pub use modern::ModernRequest;
use refusal::Refusal;
use streams::Streams;

#[derive(Debug)]
pub(crate) struct HttpFront {
    streams: Streams,
    legacy: Legacy,
    modern: Modern,
    /// The longest body.
    max: usize,
    /// The client gets the server's refusal of its credentials.
    challenges: bool,
}

/// The head of a client's request.
#[derive(Debug, Clone, Copy)]
struct Exchange<'a> {
    now: Time,
    id: ExchangeId,
    method: &'a Method,
    headers: &'a HeaderMap,
}

/// The effect of a client's request.
#[derive(Debug)]
pub(crate) enum ClientEvent {
    /// The client sent this.
    Message(Message),
    /// The client opened a stream for the server's unsolicited messages.
    Listens,
    /// The client ends the session.
    Leaves,
}

/// What a message to the client relates to.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Destination<'a> {
    /// It answers this request.
    Answer(&'a Id),
    /// It answers this request, whose credentials the server refused.
    Denied(&'a Id, Denial<'a>),
    /// It reports on this request.
    Request(&'a Id),
    /// The server sent it in its response to this request.
    Related(&'a Id),
    /// It is a question from the server.
    Question(&'a Id),
    /// It withdraws this question.
    Withdrawn(&'a Id),
    /// None of these.
    Nothing,
}

impl HttpFront {
    /// The epoch distinguishes this machine from others of the same session.
    pub(crate) fn new(client: HttpTransport, max: usize, epoch: u32) -> Self {
        let (streams, modern, challenges) = (Streams::new(&client, epoch), Modern::new(&client), client.challenges);
        Self { streams, modern, legacy: Legacy::new(client), max, challenges }
    }

    /// Whether the client gets the server's refusal of its credentials as such.
    pub(crate) fn challenges(&self) -> bool {
        self.challenges
    }

    /// The server has admitted this request.
    pub(crate) fn admitted(&mut self, id: &Id) {
        self.streams.admitted(id);
    }

    /// The next output, in order.
    pub(crate) fn output(&mut self) -> Option<Output> {
        self.streams.responses.output()
    }

    /// Bytes that clients have not read.
    pub(crate) fn unread(&self) -> usize {
        self.streams.responses.unread()
    }

    pub(crate) fn request(&mut self, now: Time, id: ExchangeId, parts: &Parts, body: Bytes) -> Vec<ClientEvent> {
        // If the shell reuses an id, drop the first exchange.
        self.gone(now, id);
        let exchange = Exchange { now, id, method: &parts.method, headers: &parts.headers };
        self.accept(exchange, body).unwrap_or_else(|refusal| {
            self.streams.responses.refuse(now, id, &refusal);
            Vec::new()
        })
    }

    /// A client that has a session is legacy, whatever its requests look like.
    fn accept(&mut self, exchange: Exchange<'_>, body: Bytes) -> Result<Vec<ClientEvent>, Refusal> {
        if *exchange.method != Method::POST {
            return self.legacy.request(exchange, &mut self.streams);
        }
        let fresh = self.legacy.is_fresh();
        if !fresh {
            self.legacy.is_ours(exchange)?;
        }
        match refusal::read(exchange.headers, body, self.max)? {
            Parsed::One(message) if fresh && modern::is_modern(exchange.headers, &message) => {
                self.modern.accept(exchange, message, &mut self.streams)
            }
            Parsed::One(_) | Parsed::Batch(_) if self.modern.is_used() => {
                Err(Refusal::bad_request("only requests of 2026-07-28 are served here"))
            }
            parsed @ (Parsed::One(_) | Parsed::Batch(_)) => self.legacy.post(exchange, parsed, &mut self.streams),
        }
    }

    /// Refuses a request because too much of the client's data is still on its way to the
    /// server.
    pub(crate) fn refuse_full(&mut self, now: Time, exchange: ExchangeId) -> Vec<ClientEvent> {
        let message = "too much of what this session has sent is still on its way to the server";
        self.gone(now, exchange);
        self.streams.responses.refuse(now, exchange, &Refusal::new(StatusCode::TOO_MANY_REQUESTS, message));
        Vec::new()
    }

    /// The client read `count` bytes of a response.
    pub(crate) fn flushed(&mut self, now: Time, exchange: ExchangeId, count: usize) {
        self.streams.responses.flushed(now, exchange, count);
    }

    /// The client stopped reading a response. In a session, that cancels nothing.
    pub(crate) fn gone(&mut self, now: Time, exchange: ExchangeId) {
        let left = self.streams.gone(exchange);
        self.left(now, left);
    }

    /// These streams lost their response.
    fn left(&mut self, now: Time, left: impl IntoIterator<Item = StreamId> + Clone) {
        self.modern.left(now, left.clone(), &mut self.streams);
        self.legacy.left(now, left);
    }

    /// The requests that are cancelled because their clients have left.
    pub(crate) fn abandoned(&mut self) -> Vec<Id> {
        self.modern.abandoned()
    }

    /// Sends a message to the client.
    pub(crate) fn write(&mut self, now: Time, destination: Destination<'_>, message: Vec<u8>) {
        match self.modern.is_used() {
            true => self.modern.write(now, destination, message, &mut self.streams),
            false => self.legacy.write(now, destination, message, &mut self.streams),
        }
    }

    /// The client no longer waits for the answer to this request.
    pub(crate) fn cancelled(&mut self, now: Time, id: &Id) {
        let left = self.streams.cancel(now, id);
        self.legacy.left(now, left);
    }

    /// The server answered `initialize` with a result.
    pub(crate) fn opened(&mut self, version: Option<String>, transport: Transport) {
        self.legacy.opened(version, transport, &mut self.streams);
    }

    /// The client left before its session was open, so nobody knows the session id.
    pub(crate) fn is_unknown(&self) -> bool {
        self.legacy.is_unknown(&self.streams)
    }

    /// The questions from the server.
    pub(crate) fn questions(&mut self) -> &mut Questions {
        &mut self.legacy.questions
    }

    /// Refuses the `initialize` that still waits for a session.
    pub(crate) fn dismiss(&mut self, now: Time) {
        self.legacy.dismiss(now, &mut self.streams);
    }

    /// The session is over; ends every stream.
    pub(crate) fn end(&mut self, now: Time) {
        self.legacy.end(now, &mut self.streams);
        for exchange in self.streams.responses.all() {
            self.streams.finish(now, exchange);
        }
    }

    pub(crate) fn deadline(&self) -> Option<Deadline> {
        earlier(self.legacy.questions.deadline(), self.streams.responses.deadline())
    }

    pub(crate) fn tick(&mut self, now: Time) {
        self.legacy.questions.tick(now);
        let left = self.streams.tick(now);
        self.left(now, left);
    }
}
