//! A client of revisions up to 2025-11-25: its session, the requests in it, the stream on
//! which it listens, and the stream that each message to it goes out on. The server's
//! session and the handling of accepted messages do not belong here.

mod posted;
mod questions;
mod resume;
mod session;

use super::event::{EventId, StreamId};
use super::refusal::{self, EVENTS, JSON, Refusal, SESSION_ID};
use super::responses::{Await, head};
use super::streams::{Due, EventIds, Streams};
use super::{ClientEvent, Destination, Exchange};
use crate::boundary::ExchangeId;
use crate::config::{HttpTransport, Transport};
use crate::era;
use crate::time::Time;
use crate::wire::message::{Id, Kind, Parsed};
use bytes::Bytes;
use http::response::Parts;
use http::{HeaderName, HeaderValue, Method, StatusCode};
use posted::Posted;
pub(super) use questions::Questions;
use resume::Resumed;
use session::{Initialize, Session};

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// Shows people the server's transport.
const UPSTREAM: HeaderName = HeaderName::from_static("mcp-proxy-upstream");

type Events = Result<Vec<ClientEvent>, Refusal>;

#[derive(Debug)]
pub(super) struct Legacy {
    client: HttpTransport,
    session: Session,
    /// The newest stream for the server's unsolicited messages. It may be over.
    listener: Option<StreamId>,
    pub(super) questions: Questions,
}

impl Legacy {
    pub(super) fn new(client: HttpTransport) -> Self {
        let (session, questions) = (Session::new(&client), Questions::new(&client));
        Self { client, session, listener: None, questions }
    }

    /// No client has asked for the session.
    pub(super) fn is_fresh(&self) -> bool {
        self.session.is_fresh()
    }

    /// The client must name this session, or none.
    pub(super) fn is_ours(&self, exchange: Exchange<'_>) -> Result<(), Refusal> {
        self.session.is_ours(exchange.headers)
    }

    /// A request without a body.
    pub(super) fn request(&mut self, exchange: Exchange<'_>, streams: &mut Streams) -> Events {
        match *exchange.method {
            Method::GET => self.get(exchange, streams),
            Method::DELETE => self.delete(exchange, streams),
            _ => Err(Refusal::not_allowed(exchange.method, "GET, POST, DELETE")),
        }
    }

    pub(super) fn post(&mut self, exchange: Exchange<'_>, parsed: Parsed, streams: &mut Streams) -> Events {
        self.is_ours(exchange)?;
        let posted = Posted::new(parsed, self.client.most_open);
        if let Posted::One(message) = &posted
            && let Kind::Request { id, method } = &message.kind
            && era::opens_session(method)
        {
            self.session.initialize(exchange.id, id).map_err(|refusal| refusal.of(Some(id)))?;
            streams.responses.add(exchange.now, exchange.id, Await::Body);
        } else {
            self.accept(exchange, &posted, streams)?;
        }
        Ok(posted.each().map(ClientEvent::Message).collect())
    }

    /// Accepts messages of an open session and begins the response.
    fn accept(&mut self, exchange: Exchange<'_>, posted: &Posted, streams: &mut Streams) -> Result<(), Refusal> {
        let one = match posted {
            Posted::One(message) => posted::request(message),
            Posted::Batch(_) => None,
        };
        let version = self.session.admit(exchange.headers).map_err(|refusal| refusal.of(one))?;
        let event_ids = self.event_ids(version);
        if let Posted::Batch(members) = posted {
            posted::is_batch(version, members, self.client.most_open)?;
        }
        let ids: Vec<Id> = posted.requests().cloned().collect();
        for (at, id) in ids.iter().enumerate() {
            refusal::is_short(id)?;
            if streams.of(id).is_some() || ids.iter().take(at).any(|earlier| earlier == id) {
                return Err(Refusal::bad_request("a request with this id is still open").of(Some(id)));
            }
        }
        if streams.open_requests() + ids.len() > self.client.most_open {
            let message = format!("more than {} requests are open", self.client.most_open);
            return Err(Refusal::new(StatusCode::TOO_MANY_REQUESTS, message).of(one));
        }
        if ids.is_empty() {
            streams.responses.respond(exchange, head(StatusCode::ACCEPTED, None), Bytes::new());
            return Ok(());
        }
        let stream = match self.may_wait(posted) {
            true => streams.hold(exchange, Due::Answers(ids), event_ids),
            false => streams.open(exchange, Due::Answers(ids), event_ids),
        };
        if self.listening(streams).is_none() {
            self.say_waiting(exchange.now, stream, streams);
        }
        Ok(())
    }

    /// Whether the response may wait for the answer. A client that asks for progress
    /// needs a stream, but not before the server has admitted its credentials.
    fn may_wait(&self, posted: &Posted) -> bool {
        let Posted::One(message) = posted else { return false };
        let streams_at_once = self.client.hold.is_zero() || era::progress_token(message.params()).is_some();
        self.client.challenges || !streams_at_once
    }

    fn event_ids(&self, version: &str) -> EventIds {
        match self.client.replay_events {
            0 => EventIds::None,
            _ if era::primes(version) => EventIds::Primed,
            _ => EventIds::Sent,
        }
    }

    fn get(&mut self, exchange: Exchange<'_>, streams: &mut Streams) -> Events {
        let event_ids = self.event_ids(self.session.admit(exchange.headers)?);
        refusal::accepts(exchange.headers, &[EVENTS])?;
        let last = EventId::parse(refusal::text(exchange.headers, &LAST_EVENT_ID));
        let resumed = Resumed::new(last.as_ref(), streams);
        if let Some(last) = last.map(|last| last.place).filter(|last| streams.is_ours(*last)) {
            self.questions.joined(last.stream, |place| place <= last.number || resumed.holds(place));
        }
        match resumed {
            Resumed::Stream(stream, missed) => self.resume(exchange, stream, missed, streams),
            // For any event stream, this status means: do not reconnect. Some clients
            // treat an error as no answer and would reconnect forever.
            Resumed::Over => streams.responses.respond(exchange, head(StatusCode::NO_CONTENT, None), Bytes::new()),
            Resumed::Lost(events) => streams.responses.respond(exchange, head(StatusCode::OK, Some(EVENTS)), events),
            Resumed::Unknown => self.listen(exchange, event_ids, streams),
        }
        Ok(vec![ClientEvent::Listens])
    }

    /// Opens a listening stream in place of the old one.
    fn listen(&mut self, exchange: Exchange<'_>, event_ids: EventIds, streams: &mut Streams) {
        let old = self.listening(streams);
        self.left(exchange.now, old.and_then(|old| streams.finish(exchange.now, old)));
        let stream = streams.open(exchange, Due::Anything, event_ids);
        self.listener = Some(stream);
        self.say_waiting(exchange.now, stream, streams);
    }

    /// A client returned for the rest of a stream.
    fn resume(&mut self, exchange: Exchange<'_>, stream: StreamId, missed: Vec<(u64, Bytes)>, streams: &mut Streams) {
        let Exchange { now, id, .. } = exchange;
        // The newest connection wins; the old one may be dead without notice.
        let listening = self.listening(streams);
        let mut old = streams.attach(stream, id);
        if streams.is_endless(stream) {
            old = old.or(listening);
            self.listener = Some(stream);
        }
        self.left(now, old.and_then(|old| streams.abort(now, old)));
        streams.resume(exchange, stream, missed);
        if streams.is_complete(stream) {
            let left = streams.finish(now, id);
            return self.left(now, left);
        }
        if self.listening(streams).is_none_or(|listening| listening == id) {
            self.say_waiting(now, stream, streams);
        }
        streams.greet(now, id);
    }

    fn delete(&mut self, exchange: Exchange<'_>, streams: &mut Streams) -> Events {
        self.session.admit(exchange.headers)?;
        streams.responses.respond(exchange, head(StatusCode::NO_CONTENT, None), Bytes::new());
        Ok(vec![ClientEvent::Leaves])
    }

    /// The server answered `initialize` with a result.
    pub(super) fn opened(&mut self, version: Option<String>, transport: Transport, streams: &mut Streams) {
        let Some((exchange, name)) = self.session.opened(version.unwrap_or_default()) else { return };
        let mut parts = head(StatusCode::OK, Some(JSON));
        parts.headers.insert(SESSION_ID, name);
        let spoken = match transport {
            Transport::Sse => "http+sse",
            Transport::StreamableHttp | Transport::Auto => "streamable-http",
        };
        parts.headers.insert(UPSTREAM, HeaderValue::from_static(spoken));
        streams.responses.begin(exchange, parts);
    }

    /// The client left before its session was open, so nobody knows the session id.
    pub(super) fn is_unknown(&self, streams: &Streams) -> bool {
        self.session.waiting().is_some_and(|initialize| !streams.responses.is_live(initialize.exchange))
    }

    /// Sends a message to the client, or lets it wait for a stream.
    pub(super) fn write(&mut self, now: Time, destination: Destination<'_>, message: Vec<u8>, streams: &mut Streams) {
        let (stream, question) = match destination {
            Destination::Answer(id) => return self.answer(now, id, head(StatusCode::OK, Some(JSON)), message, streams),
            Destination::Denied(id, denial) => {
                return self.answer(now, id, refusal::denied(denial), message, streams);
            }
            Destination::Request(id) => (streams.of(id), None),
            Destination::Withdrawn(id) if self.questions.unask(id) => return,
            Destination::Withdrawn(id) => (self.questions.over(id).filter(|stream| streams.is_known(*stream)), None),
            Destination::Question(id) => (None, Some(id.clone())),
            Destination::Related(_) | Destination::Nothing => (None, None),
        };
        match stream.or_else(|| self.stream_for_all(streams)) {
            Some(stream) => self.say(now, stream, message, question, streams),
            None if self.session.is_over() => {}
            None => self.questions.wait(now, question, message),
        }
    }

    /// Answers a request, with this head if the response has not begun.
    fn answer(&mut self, now: Time, id: &Id, parts: Parts, message: Vec<u8>, streams: &mut Streams) {
        if self.session.waiting().is_none_or(|initialize| initialize.id != *id) {
            let left = streams.answer(now, id, parts, message);
            return self.left(now, left);
        }
        let Some(Initialize { exchange, .. }) = self.session.conclude() else { return };
        if !self.session.is_open() {
            streams.responses.begin(exchange, parts);
        }
        streams.responses.complete(now, exchange, Bytes::from(message));
    }

    /// The stream for a message that belongs to no request: the stream of the only
    /// running call, since the message probably belongs to it; else the listening stream;
    /// else the newest connected stream.
    fn stream_for_all(&self, streams: &Streams) -> Option<StreamId> {
        let (answering, newest) = (streams.answering(), streams.answering().last().copied());
        if answering.len() == 1 {
            return newest;
        }
        self.listener.filter(|_| self.listening(streams).is_some()).or(newest)
    }

    /// The response that carries the listening stream.
    fn listening(&self, streams: &Streams) -> Option<ExchangeId> {
        self.listener.and_then(|stream| streams.exchange(stream))
    }

    fn say_waiting(&mut self, now: Time, stream: StreamId, streams: &mut Streams) {
        while let Some((message, question)) = self.questions.next() {
            self.say(now, stream, message, question, streams);
        }
    }

    fn say(&mut self, now: Time, stream: StreamId, message: Vec<u8>, question: Option<Id>, streams: &mut Streams) {
        let place = streams.say(now, stream, message);
        if let Some(id) = question {
            self.questions.asked(id, stream, place);
        }
    }

    /// These streams lost their connection.
    pub(super) fn left(&mut self, now: Time, streams: impl IntoIterator<Item = StreamId>) {
        streams.into_iter().for_each(|stream| self.questions.left(now, stream));
    }

    /// Refuses the `initialize` that still waits for a session.
    pub(super) fn dismiss(&mut self, now: Time, streams: &mut Streams) {
        let Some(Initialize { exchange, id }) = self.session.conclude() else { return };
        if streams.responses.is_live(exchange) {
            streams.responses.refuse(now, exchange, &Refusal::leaving().of(Some(&id)));
        }
    }

    /// The session is over.
    pub(super) fn end(&mut self, now: Time, streams: &mut Streams) {
        self.dismiss(now, streams);
        self.session.end();
        self.questions.clear();
    }
}
