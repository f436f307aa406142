//! The Streamable HTTP client: its requests become messages, and each message to it goes
//! out on exactly one stream. The server's session and the handling of accepted requests
//! do not belong here.

mod posted;
mod questions;
mod queue;
mod refusal;
mod requests;
mod responses;
mod streams;

use crate::boundary::{ExchangeId, Output};
use crate::config::{HttpTransport, Transport};
use crate::era;
use crate::time::{Deadline, Time, Why, earlier};
use crate::wire::message::{self, Id};
use bytes::Bytes;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderName, HeaderValue, StatusCode, response};
use questions::Questions;
use queue::Queue;
use refusal::{EVENTS, JSON, Refusal};
pub(crate) use requests::ClientEvent;
use responses::Responses;
use streams::Streams;

const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// Shows people the server's transport.
const UPSTREAM: HeaderName = HeaderName::from_static("mcp-proxy-upstream");
/// Tells reverse proxies not to buffer a stream.
const NO_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// A sign of life on an idle stream.
const COMMENT: &[u8] = b": keepalive\n\n";

#[derive(Debug)]
pub(crate) struct HttpFront {
    client: HttpTransport,
    max: usize,
    session: Session,
    /// The `initialize` that the proxy is answering.
    opening: Option<(ExchangeId, Id)>,
    responses: Responses,
    streams: Streams,
    queue: Queue,
    questions: Questions,
    /// Questions that the proxy cannot ask the client.
    unasked: Vec<Id>,
}

/// The client's session with the proxy.
#[derive(Debug, PartialEq, Eq)]
enum Session {
    None,
    /// Open with this protocol version.
    Open(String),
    Over,
}

/// What a message to the client relates to.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Destination<'a> {
    /// It answers this request.
    Answer(&'a Id),
    /// It reports on this request.
    Request(&'a Id),
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
        let session = client.resumed.as_ref().map_or(Session::None, |known| Session::Open(known.version.clone()));
        Self {
            max,
            session,
            opening: None,
            responses: Responses::new(&client),
            streams: Streams::new(&client, epoch),
            queue: Queue::new(client.queue_bytes, client.patience),
            questions: Questions::new(client.patience),
            unasked: Vec::new(),
            client,
        }
    }

    /// The next output, in order.
    pub(crate) fn output(&mut self) -> Option<Output> {
        self.responses.output()
    }

    /// Bytes that clients have not read.
    pub(crate) fn unread(&self) -> usize {
        self.responses.unread()
    }

    /// Whether the proxy replaces a session that the server has lost.
    pub(crate) fn recovers(&self) -> bool {
        self.client.recovers
    }

    /// The server answered `initialize` with a result.
    pub(crate) fn opened(&mut self, version: Option<String>, transport: Transport) {
        if let Some((exchange, _)) = &self.opening {
            self.session = Session::Open(version.unwrap_or_default());
            let mut parts = head(StatusCode::OK, Some(JSON));
            parts.headers.insert(SESSION_ID, self.client.session.clone());
            let spoken = match transport {
                Transport::Sse => "http+sse",
                Transport::StreamableHttp | Transport::Auto => "streamable-http",
            };
            parts.headers.insert(UPSTREAM, HeaderValue::from_static(spoken));
            self.responses.begin(*exchange, parts);
        }
    }

    /// The client left before its session was open, so nobody knows the session id.
    pub(crate) fn unknown(&self) -> bool {
        self.opening.as_ref().is_some_and(|(exchange, _)| !self.responses.is_live(*exchange))
    }

    /// Sends a message to the client.
    pub(crate) fn write(&mut self, now: Time, destination: Destination<'_>, message: Vec<u8>) {
        if let Destination::Answer(id) = destination
            && self.opening.as_ref().is_some_and(|(_, opening)| opening == id)
        {
            return self.answer_initialize(now, message);
        }
        let (stream, question) = match destination {
            Destination::Answer(id) => (self.streams.settle(id), None),
            Destination::Request(id) => (self.streams.of(id).or_else(|| self.streams.for_all()), None),
            Destination::Withdrawn(id) => match self.withdrawn(id) {
                Some(stream) => (stream.or_else(|| self.streams.for_all()), None),
                None => return,
            },
            Destination::Question(id) => (self.streams.for_all(), Some(id.clone())),
            Destination::Nothing => (self.streams.for_all(), None),
        };
        match stream {
            Some(stream) => {
                let answers = if let Destination::Answer(id) = destination { Some(id) } else { None };
                self.say(now, stream, message, answers);
                self.asked(question, stream);
                self.finish_complete(now, stream);
            }
            None if self.session == Session::Over || matches!(destination, Destination::Answer(_)) => {}
            None => self.unasked.extend(self.queue.push(now, question, message)),
        }
    }

    fn answer_initialize(&mut self, now: Time, message: Vec<u8>) {
        let Some((exchange, _)) = self.opening.take() else { return };
        if self.session == Session::None {
            return self.answer(now, exchange, message);
        }
        self.send(now, exchange, Bytes::from(message));
        self.finish(now, exchange);
    }

    /// Answers a request with a single body.
    fn answer(&mut self, now: Time, exchange: ExchangeId, message: Vec<u8>) {
        self.responses.release(exchange);
        self.responses.begin(exchange, head(StatusCode::OK, Some(JSON)));
        self.send(now, exchange, Bytes::from(message));
        self.finish(now, exchange);
    }

    /// A request no longer needs an answer. The client sees that its stream is complete
    /// without one.
    pub(crate) fn settle(&mut self, now: Time, id: &Id) {
        let Some(stream) = self.streams.withdraw(id) else { return };
        if self.streams.complete(stream)
            && let Some(exchange) = self.streams.exchange(stream)
        {
            if !self.release(now, exchange) && self.primes() {
                let last = self.streams.prime(stream);
                self.send(now, exchange, last);
            }
            self.finish(now, exchange);
        }
    }

    /// A question from the server no longer needs an answer.
    pub(crate) fn answered(&mut self, question: &Id) {
        self.questions.settle(question);
        self.queue.withdraw(question);
    }

    /// The server no longer needs an answer to any question.
    pub(crate) fn all_answered(&mut self) {
        self.questions.clear();
        self.queue.withdraw_all();
    }

    /// The stream of a question that the server withdraws; `None` if the client has not
    /// received it.
    fn withdrawn(&mut self, question: &Id) -> Option<Option<u64>> {
        if self.queue.withdraw(question) {
            return None;
        }
        Some(self.questions.settle(question))
    }

    fn finish_complete(&mut self, now: Time, stream: u64) {
        if self.streams.complete(stream)
            && let Some(exchange) = self.streams.exchange(stream)
        {
            self.finish(now, exchange);
        }
    }

    /// The client read `count` bytes of a response.
    pub(crate) fn taken(&mut self, now: Time, id: ExchangeId, count: usize) {
        self.responses.taken(now, id, count);
    }

    /// The client stopped reading a response. That cancels nothing.
    pub(crate) fn gone(&mut self, now: Time, id: ExchangeId) {
        let stream = self.responses.forget(id);
        self.detach(now, stream, id);
    }

    /// A stream lost its connection, or no longer needs it.
    fn detach(&mut self, now: Time, stream: Option<u64>, exchange: ExchangeId) {
        let Some(stream) = stream else { return };
        self.streams.detach(stream, exchange);
        if self.streams.exchange(stream).is_none() {
            self.questions.leave(now, stream);
        }
    }

    /// Refuses the `initialize` that still waits for a session.
    pub(crate) fn dismiss(&mut self, now: Time) {
        if let Some((exchange, id)) = self.opening.take()
            && self.responses.is_live(exchange)
        {
            self.refuse(now, exchange, &Refusal::leaving().of(Some(&id)));
        }
    }

    /// The session is over; ends every stream.
    pub(crate) fn end(&mut self, now: Time) {
        self.session = Session::Over;
        self.queue.clear();
        self.questions.clear();
        self.dismiss(now);
        self.responses.all().into_iter().for_each(|exchange| self.finish(now, exchange));
    }

    pub(crate) fn deadline(&self) -> Option<Deadline> {
        let waiting = [self.queue.due(), self.questions.due()].into_iter().flatten().min();
        let waiting = waiting.map(|at| Deadline { at, why: Why::Unread });
        earlier(waiting, self.responses.deadline())
    }

    pub(crate) fn tick(&mut self, now: Time) {
        self.unasked.extend(self.queue.tick(now));
        self.unasked.extend(self.questions.tick(now));
        for (id, why) in self.responses.overdue(now) {
            if why != Why::Heartbeat {
                self.abort(now, id);
            } else if !self.release(now, id) {
                self.send(now, id, Bytes::from_static(COMMENT));
            }
        }
    }

    /// Questions from the server that the proxy cannot ask the client.
    pub(crate) fn unasked(&mut self) -> Vec<Id> {
        std::mem::take(&mut self.unasked)
    }

    fn say_waiting(&mut self, now: Time, stream: u64) {
        while let Some((message, question)) = self.queue.pop() {
            self.say(now, stream, message, None);
            self.asked(question, stream);
        }
    }

    /// Records a question that was just sent on a stream.
    fn asked(&mut self, question: Option<Id>, stream: u64) {
        if let Some(id) = question {
            self.questions.ask(id, stream, self.streams.place(stream));
        }
    }

    fn say(&mut self, now: Time, stream: u64, message: Vec<u8>, answers: Option<&Id>) {
        if let Some(exchange) = self.streams.exchange(stream) {
            if answers.is_some() && self.responses.is_held(exchange) {
                return self.answer(now, exchange, message);
            }
            self.release(now, exchange);
        }
        let event = self.streams.say(stream, message, answers);
        if let Some(exchange) = self.streams.exchange(stream) {
            self.send(now, exchange, event);
        }
    }

    /// Turns a held response into a stream.
    fn release(&mut self, now: Time, exchange: ExchangeId) -> bool {
        let stream = self.responses.release(exchange);
        if let Some(stream) = stream {
            self.begin(now, exchange, stream);
        }
        stream.is_some()
    }

    /// Begins the response of a new stream with its first bytes.
    fn begin(&mut self, now: Time, exchange: ExchangeId, stream: u64) {
        self.start(exchange);
        let first = match self.primes() {
            true => self.streams.prime(stream),
            false => Bytes::from_static(COMMENT),
        };
        self.send(now, exchange, first);
    }

    /// Whether the client understands an event without a message.
    fn primes(&self) -> bool {
        let reads = matches!(&self.session, Session::Open(version) if era::primes(version));
        reads && self.client.replay_events > 0
    }

    fn start(&mut self, exchange: ExchangeId) {
        let mut parts = head(StatusCode::OK, Some(EVENTS));
        parts.headers.insert(NO_BUFFERING, HeaderValue::from_static("no"));
        self.responses.begin(exchange, parts);
    }

    fn insert(&mut self, now: Time, exchange: ExchangeId, stream: Option<u64>) {
        // If the shell reuses an id, drop the first exchange.
        self.gone(now, exchange);
        self.responses.owe(now, exchange, stream);
    }

    fn send(&mut self, now: Time, id: ExchangeId, bytes: Bytes) {
        self.responses.send(now, id, bytes);
    }

    fn finish(&mut self, now: Time, id: ExchangeId) {
        self.release(now, id);
        let stream = self.responses.finish(id);
        self.detach(now, stream, id);
    }

    fn abort(&mut self, now: Time, id: ExchangeId) {
        self.release(now, id);
        let stream = self.responses.abort(id);
        self.detach(now, stream, id);
    }

    fn respond_once(&mut self, now: Time, exchange: ExchangeId, parts: response::Parts, body: Bytes) {
        self.insert(now, exchange, None);
        self.responses.begin(exchange, parts);
        if !body.is_empty() {
            self.send(now, exchange, body);
        }
        self.finish(now, exchange);
    }

    fn refuse(&mut self, now: Time, exchange: ExchangeId, refusal: &Refusal) {
        let mut parts = head(refusal.status, Some(JSON));
        if refusal.status == StatusCode::METHOD_NOT_ALLOWED {
            parts.headers.insert(ALLOW, HeaderValue::from_static("GET, POST, DELETE"));
        }
        let body = message::write_refusal(refusal.id.as_ref(), refusal.code, &refusal.message, refusal.data.as_ref());
        self.respond_once(now, exchange, parts, Bytes::from(body));
    }
}

fn head(status: StatusCode, kind: Option<&'static str>) -> response::Parts {
    let mut parts = http::Response::new(()).into_parts().0;
    parts.status = status;
    if let Some(kind) = kind {
        parts.headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        parts.headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    }
    parts
}
