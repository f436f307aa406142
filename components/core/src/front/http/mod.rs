//! The client of Streamable HTTP: its requests become messages, and each
//! message to it goes out on exactly one stream. The server's session, and what
//! becomes of a request once it was taken, are not known here.

mod posted;
mod questions;
mod queue;
mod refusal;
mod responses;
mod streams;

use crate::boundary::{ExchangeId, Output};
use crate::config::{HttpFace, Transport};
use crate::era::{self, Role};
use crate::failure::{Delivered, Failure, Phase};
use crate::time::{Deadline, Time, Why, earlier};
use crate::wire::message::{self, Id, Kind, Message, Parsed};
use bytes::Bytes;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, request, response};
use questions::Questions;
use queue::Queue;
use refusal::{EVENTS, JSON, Refusal};
use responses::Responses;
use streams::{Lost, Rest, Resumed, Streams};
use subtle::ConstantTimeEq;

const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// How the server is spoken to, for people who look.
const UPSTREAM: HeaderName = HeaderName::from_static("mcp-proxy-upstream");
/// Some reverse proxies hold a stream back unless they are told.
const NO_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// A sign of life on a stream that has nothing to say.
const COMMENT: &[u8] = b": keepalive\n\n";

/// The front for a client of Streamable HTTP.
#[derive(Debug)]
pub(crate) struct HttpFront {
    face: HttpFace,
    max: usize,
    session: Session,
    /// The `initialize` that is being answered.
    opening: Option<(ExchangeId, Id)>,
    responses: Responses,
    streams: Streams,
    queue: Queue,
    questions: Questions,
    /// Questions that the client cannot be asked.
    unasked: Vec<Id>,
}

/// The client's session with us.
#[derive(Debug, PartialEq, Eq)]
enum Session {
    /// Not initialized.
    None,
    /// With this version of the protocol.
    Open(String),
    Over,
}

/// What a request of the client comes to.
#[derive(Debug)]
pub(crate) enum Heard {
    /// The client says this.
    Message(Message),
    /// The client listens to what the server says unasked.
    Listens,
    /// The client ends the session.
    Leaves,
}

/// What a message to the client is about.
#[derive(Debug, Clone, Copy)]
pub(crate) enum About<'a> {
    /// It is the answer to this request.
    Answer(&'a Id),
    /// It tells of this request.
    Request(&'a Id),
    /// It is a question of the server.
    Question(&'a Id),
    /// It takes this question back.
    Withdrawn(&'a Id),
    /// None of these.
    Nothing,
}

impl HttpFront {
    /// The epoch tells this machine from others of the same session.
    pub(crate) fn new(face: HttpFace, max: usize, epoch: u32) -> Self {
        let session = face.resumed.as_ref().map_or(Session::None, |known| Session::Open(known.version.clone()));
        Self {
            max,
            session,
            opening: None,
            responses: Responses::new(&face),
            streams: Streams::new(&face, epoch),
            queue: Queue::new(face.queue_bytes, face.patience),
            questions: Questions::new(face.patience),
            unasked: Vec::new(),
            face,
        }
    }

    /// The next thing to do, in order.
    pub(crate) fn output(&mut self) -> Option<Output> {
        self.responses.output()
    }

    /// Bytes that clients have not taken.
    pub(crate) fn unread(&self) -> usize {
        self.responses.unread()
    }

    /// Whether a session that the server has lost is replaced.
    pub(crate) fn recovers(&self) -> bool {
        self.face.recovers
    }

    /// Refuses a request of the client: what it has sent is still on its way.
    pub(crate) fn refuse_full(&mut self, now: Time, exchange: ExchangeId) -> Vec<Heard> {
        let message = "too much of what this session has sent is still on its way to the server";
        self.refuse(now, exchange, &Refusal::new(StatusCode::TOO_MANY_REQUESTS, message));
        Vec::new()
    }

    /// Takes a request of the client.
    pub(crate) fn request(
        &mut self,
        now: Time,
        exchange: ExchangeId,
        parts: &request::Parts,
        body: Bytes,
    ) -> Vec<Heard> {
        let heard = match parts.method {
            Method::POST => self.post(now, exchange, &parts.headers, body),
            Method::GET => self.get(now, exchange, &parts.headers),
            Method::DELETE => self.delete(now, exchange, &parts.headers),
            _ => {
                let message = format!("{} is not for an MCP endpoint", parts.method);
                Err(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, message))
            }
        };
        heard.unwrap_or_else(|refusal| {
            self.refuse(now, exchange, &refusal);
            Vec::new()
        })
    }

    fn post(
        &mut self,
        now: Time,
        exchange: ExchangeId,
        headers: &HeaderMap,
        body: Bytes,
    ) -> Result<Vec<Heard>, Refusal> {
        self.is_ours(headers)?;
        refusal::is_json(headers)?;
        refusal::accepts(headers, &[JSON, EVENTS])?;
        if body.len() > self.max {
            let message = format!("the body is over the limit of {} bytes", self.max);
            return Err(Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, message));
        }
        let parsed = message::parse(body.into()).map_err(Refusal::malformed)?;
        if let Parsed::One(message) = &parsed
            && let Kind::Request { id, method } = &message.kind
            && era::role(method) == Role::Initialize
        {
            self.initialize(now, exchange, id).map_err(|refusal| refusal.of(Some(id)))?;
        } else {
            self.messages(now, exchange, headers, &parsed)?;
        }
        Ok(posted::each(parsed).map(Heard::Message).collect())
    }

    /// The session that the client names, if it names one, is this.
    fn is_ours(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let named = headers.get(SESSION_ID);
        let ours = |named: &HeaderValue| bool::from(named.as_bytes().ct_eq(self.face.session.as_bytes()));
        match self.session {
            Session::Open(_) if named.is_none_or(ours) => Ok(()),
            Session::None if named.is_none() => Ok(()),
            Session::None | Session::Open(_) | Session::Over => Err(Refusal::no_such_session()),
        }
    }

    /// The session stands, and the client names it. Returns its version.
    fn in_session(&self, headers: &HeaderMap) -> Result<&str, Refusal> {
        self.is_ours(headers)?;
        let Session::Open(version) = &self.session else {
            // A client of a later era looks for a server of its own era like this.
            refusal::is_known_version(headers, None)?;
            return Err(Refusal::bad_request("the first request of a session must be initialize"));
        };
        if !headers.contains_key(SESSION_ID) {
            return Err(Refusal::bad_request("the Mcp-Session-Id header is missing"));
        }
        refusal::is_known_version(headers, Some(version))?;
        Ok(version)
    }

    fn initialize(&mut self, now: Time, exchange: ExchangeId, id: &Id) -> Result<(), Refusal> {
        posted::is_short(id)?;
        if self.session != Session::None || self.opening.is_some() {
            return Err(Refusal::bad_request("the session is initialized already"));
        }
        self.opening = Some((exchange, id.clone()));
        self.insert(now, exchange, None);
        Ok(())
    }

    /// Takes messages of an open session, and begins the response to them.
    fn messages(
        &mut self,
        now: Time,
        exchange: ExchangeId,
        headers: &HeaderMap,
        parsed: &Parsed,
    ) -> Result<(), Refusal> {
        let one = match parsed {
            Parsed::One(message) => posted::request(message),
            Parsed::Batch(_) => None,
        };
        let version = self.in_session(headers).map_err(|refusal| refusal.of(one))?;
        if let Parsed::Batch(members) = parsed {
            posted::is_batch(version, members, self.face.most_open)?;
        }
        let ids: Vec<&Id> = posted::requests(parsed).collect();
        for (at, id) in ids.iter().enumerate() {
            posted::is_short(id)?;
            if self.streams.of(id).is_some() || ids.iter().take(at).any(|earlier| earlier == id) {
                return Err(Refusal::bad_request("a request with this id is still open").of(Some(id)));
            }
        }
        if self.streams.open_requests() + ids.len() > self.face.most_open {
            let message = format!("more than {} requests are open", self.face.most_open);
            return Err(Refusal::new(StatusCode::TOO_MANY_REQUESTS, message).of(one));
        }
        if ids.is_empty() {
            self.respond_once(now, exchange, head(StatusCode::ACCEPTED, None), Bytes::new());
            return Ok(());
        }
        let stream = self.streams.open(exchange, ids.into_iter().cloned().collect());
        self.insert(now, exchange, Some(stream));
        if self.may_wait(parsed) {
            self.responses.hold(exchange);
        } else {
            self.begin(now, exchange, stream);
        }
        if self.streams.listening().is_none() {
            self.say_waiting(now, stream);
        }
        Ok(())
    }

    fn get(&mut self, now: Time, exchange: ExchangeId, headers: &HeaderMap) -> Result<Vec<Heard>, Refusal> {
        self.in_session(headers)?;
        refusal::accepts(headers, &[EVENTS])?;
        let last = refusal::text(headers, &LAST_EVENT_ID);
        let resumed = self.streams.resume(last);
        if let Some((stream, seen)) = self.streams.seen(last) {
            let gets = |at: u64| matches!(&resumed, Resumed::Stream(rest) if rest.holds(at));
            self.unasked.extend(self.questions.join(stream, |at| at <= seen || gets(at)));
        }
        match resumed {
            Resumed::Stream(rest) => self.resume(now, exchange, rest),
            // As for any event stream, this status says: do not come back. Some clients
            // take an error for no answer, and would come back for ever.
            Resumed::Over => self.respond_once(now, exchange, head(StatusCode::NO_CONTENT, None), Bytes::new()),
            // A client is back for answers that nobody has any more.
            Resumed::Lost(lost) => {
                let events = lost.iter().flat_map(tell_lost).collect();
                self.respond_once(now, exchange, head(StatusCode::OK, Some(EVENTS)), events);
            }
            Resumed::Unknown => {
                if let Some(old) = self.streams.listening() {
                    self.finish(now, old);
                }
                let stream = self.streams.listen(exchange);
                self.insert(now, exchange, Some(stream));
                self.begin(now, exchange, stream);
                self.say_waiting(now, stream);
            }
        }
        Ok(vec![Heard::Listens])
    }

    /// A client is back for the rest of a stream.
    fn resume(&mut self, now: Time, exchange: ExchangeId, rest: Rest) {
        let Rest { stream, lost, events } = rest;
        // The newest connection wins; the old one may be dead without our knowing.
        let listened = self.streams.listening();
        let old = self.streams.attach(stream, exchange);
        if let Some(old) = old.or(listened.filter(|_| self.streams.listening() == Some(exchange))) {
            self.abort(now, old);
        }
        self.insert(now, exchange, Some(stream));
        self.start(exchange);
        let lost = lost.iter().map(tell_lost).map(Bytes::from);
        for event in lost.chain(events.into_iter().map(|(_, event)| event)) {
            self.send(now, exchange, event);
        }
        if self.streams.complete(stream) {
            return self.finish(now, exchange);
        }
        if self.streams.listening().is_none_or(|listening| listening == exchange) {
            self.say_waiting(now, stream);
        }
        if self.responses.is_read(exchange) {
            self.send(now, exchange, Bytes::from_static(COMMENT));
        }
    }

    fn delete(&mut self, now: Time, exchange: ExchangeId, headers: &HeaderMap) -> Result<Vec<Heard>, Refusal> {
        self.in_session(headers)?;
        self.respond_once(now, exchange, head(StatusCode::NO_CONTENT, None), Bytes::new());
        Ok(vec![Heard::Leaves])
    }

    /// The server has answered `initialize`, and not with an error.
    pub(crate) fn opened(&mut self, version: Option<String>, transport: Transport) {
        if let Some((exchange, _)) = &self.opening {
            self.session = Session::Open(version.unwrap_or_default());
            let mut parts = head(StatusCode::OK, Some(JSON));
            parts.headers.insert(SESSION_ID, self.face.session.clone());
            let spoken = match transport {
                Transport::Sse => "http+sse",
                Transport::StreamableHttp | Transport::Auto => "streamable-http",
            };
            parts.headers.insert(UPSTREAM, HeaderValue::from_static(spoken));
            self.responses.begin(*exchange, parts);
        }
    }

    /// Nobody knows the session: its client left before it was opened.
    pub(crate) fn unknown(&self) -> bool {
        self.opening.as_ref().is_some_and(|(exchange, _)| !self.responses.is_live(*exchange))
    }

    /// Says something to the client.
    pub(crate) fn write(&mut self, now: Time, about: About<'_>, message: Vec<u8>) {
        if let About::Answer(id) = about
            && self.opening.as_ref().is_some_and(|(_, opening)| opening == id)
        {
            return self.answer_initialize(now, message);
        }
        let (stream, question) = match about {
            About::Answer(id) => (self.streams.settle(id), None),
            About::Request(id) => (self.streams.of(id).or_else(|| self.streams.for_all()), None),
            About::Withdrawn(id) => match self.withdrawn(id) {
                Some(stream) => (stream.or_else(|| self.streams.for_all()), None),
                None => return,
            },
            About::Question(id) => (self.streams.for_all(), Some(id.clone())),
            About::Nothing => (self.streams.for_all(), None),
        };
        match stream {
            Some(stream) => {
                let answers = if let About::Answer(id) = about { Some(id) } else { None };
                self.say(now, stream, message, answers);
                self.asked(question, stream);
                self.finish_complete(now, stream);
            }
            None if self.session == Session::Over || matches!(about, About::Answer(_)) => {}
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

    /// Answers a request in one go.
    fn answer(&mut self, now: Time, exchange: ExchangeId, message: Vec<u8>) {
        self.responses.release(exchange);
        self.responses.begin(exchange, head(StatusCode::OK, Some(JSON)));
        self.send(now, exchange, Bytes::from(message));
        self.finish(now, exchange);
    }

    /// A request needs no answer any more. Its client sees that the stream is
    /// complete without one.
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

    /// A question of the server needs no answer any more.
    pub(crate) fn answered(&mut self, question: &Id) {
        self.questions.settle(question);
        self.queue.withdraw(question);
    }

    /// No question of the server needs an answer any more.
    pub(crate) fn all_answered(&mut self) {
        self.questions.clear();
        self.queue.withdraw_all();
    }

    /// Where a question stands that its asker takes back; nothing, if the client
    /// has not been asked it.
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

    /// The client took that much of a response.
    pub(crate) fn taken(&mut self, now: Time, id: ExchangeId, count: usize) {
        self.responses.taken(now, id, count);
    }

    /// The client no longer reads a response. It has not cancelled anything.
    pub(crate) fn gone(&mut self, now: Time, id: ExchangeId) {
        let stream = self.responses.forget(id);
        self.detach(now, stream, id);
    }

    /// A stream has lost its connection, or needs none any more.
    fn detach(&mut self, now: Time, stream: Option<u64>, exchange: ExchangeId) {
        let Some(stream) = stream else { return };
        self.streams.detach(stream, exchange);
        if self.streams.exchange(stream).is_none() {
            self.questions.leave(now, stream);
        }
    }

    /// Whoever waits for a session is told that there is none.
    pub(crate) fn dismiss(&mut self, now: Time) {
        if let Some((exchange, id)) = self.opening.take()
            && self.responses.is_live(exchange)
        {
            self.refuse(now, exchange, &Refusal::leaving().of(Some(&id)));
        }
    }

    /// The session is over, and every stream ends.
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

    /// Questions of the server that the client cannot be asked.
    pub(crate) fn unasked(&mut self) -> Vec<Id> {
        std::mem::take(&mut self.unasked)
    }

    fn say_waiting(&mut self, now: Time, stream: u64) {
        while let Some((message, question)) = self.queue.pop() {
            self.say(now, stream, message, None);
            self.asked(question, stream);
        }
    }

    /// A question of the server has just been said on a stream.
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

    /// Whether the response to this may wait for the answer. Who asks to be told of
    /// the progress wants a stream.
    fn may_wait(&self, parsed: &Parsed) -> bool {
        let Parsed::One(message) = parsed else { return false };
        !self.face.hold.is_zero() && era::progress_token(message.params()).is_none()
    }

    /// A response that waits becomes a stream.
    fn release(&mut self, now: Time, exchange: ExchangeId) -> bool {
        let stream = self.responses.release(exchange);
        if let Some(stream) = stream {
            self.begin(now, exchange, stream);
        }
        stream.is_some()
    }

    /// Begins the response of a new stream, with its first bytes.
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
        reads && self.face.replay_events > 0
    }

    fn start(&mut self, exchange: ExchangeId) {
        let mut parts = head(StatusCode::OK, Some(EVENTS));
        parts.headers.insert(NO_BUFFERING, HeaderValue::from_static("no"));
        self.responses.begin(exchange, parts);
    }

    fn insert(&mut self, now: Time, exchange: ExchangeId, stream: Option<u64>) {
        // A shell that uses an id twice has no use for the first.
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

/// The event for an answer that nobody has any more.
fn tell_lost(lost: &Lost) -> Vec<u8> {
    let text = "the connection was lost, and the answer with it; the request may have been carried out";
    streams::event(Some(&lost.event), Failure::new(Phase::Stream, Delivered::Maybe, text).answer(&lost.id))
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
