//! The calls under way: what each response, chunk, end or failure leads to. A call that
//! waits for a retry gets a new id at once, so that facts about the old exchange cannot
//! reach it.

use super::call::{Call, Exchange, Reason, State};
use super::calls::Held;
use super::challenge::Challenge;
use super::classify::{Class, EVENT_STREAM, SendMode, classify, content_length, encoding, is_type, target};
use super::detect::{Link, Suspicion};
use super::exchanges::Exchanges;
use super::keep_alive::Liveness;
use super::recovery::{Next, Recovery, expired, may_be_lost};
use super::request::SESSION_ID;
use super::said::{own_error, unmarked};
use super::session_lost;
use super::sse_session::{Guess, Sse, SseSession};
use crate::boundary::{CallError, CallId};
use crate::config::{Config, Transport};
use crate::failure::{Delivered, Failure, Phase};
use crate::flow;
use crate::note::Note;
use crate::outgoing::{Outgoing, Purpose, SessionContext};
use crate::rng::Rng;
use crate::route::RequestKey;
use crate::time::{Deadline, Time, Why, earlier};
use crate::wire::message::{Id, Message, Parsed};
use crate::wire::sse;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, StatusCode};
use std::sync::Arc;
use std::time::Duration;
use url::Url;

/// How much of a body that explains a refusal to read.
const LONGEST_REASON: usize = 64 << 10;

/// A longer request is not kept for the case that the answer reports a lost session.
const LONGEST_REPEAT: usize = 1 << 20;

/// Every later request carries the session id, and hosts and servers limit the total size
/// of headers.
pub(crate) const LONGEST_SESSION_ID: usize = 8 << 10;
/// Most redirects to follow in a row.
const MOST_HOPS: u32 = 5;
const LONG_SESSION_ID: &str = "its session id is longer than 8192 bytes";

#[derive(Debug)]
pub(crate) struct HttpBack {
    config: Config,
    link: Link,
    exchanges: Exchanges,
    recovery: Recovery,
    liveness: Liveness,
}

/// What the back reports to the coordinator.
#[derive(Debug)]
pub(crate) enum Report {
    Start(CallId, Request<Bytes>),
    Stop(CallId),
    /// The server sent this message or batch.
    Said(Origin, Parsed),
    /// The server sent a message over the limit. The id is that of the answered request,
    /// if it is readable.
    TooLong(Option<Id>, Failure),
    /// The server accepted a message that needs no answer.
    Accepted(Purpose),
    /// The server has admitted this request; what it answers is still to come. Only a
    /// client with credentials of its own needs to know.
    Admitted(RequestKey),
    /// The proxy cannot deliver a message, or no answer will come.
    Failed(Purpose, Failure),
    /// The body of a response is complete: either an earlier report answered the message,
    /// or nothing will.
    BodyOver(Box<BodyOver>),
    /// The server refused, possibly with its own error.
    Refused(Purpose, Failure, Option<Message>),
    /// The silence was too long; the server should stop working on the message.
    Expired(Purpose, Failure),
    /// The server does not know the session of this message. If the proxy cannot replace
    /// the session, the failure is the answer.
    SessionGone(Outgoing, Failure),
    /// The session ended with its stream.
    SessionEnded,
    /// The server does not know the session of its listening stream.
    ListenLost(Arc<SessionContext>),
    /// The server has been silent for so long that the proxy should ping it.
    Idle,
    Note(Note),
}

/// The parts of a body response that its failure needs.
#[derive(Debug)]
pub(crate) struct BodyOver {
    pub(crate) outgoing: Outgoing,
    pub(crate) status: StatusCode,
    /// The encoding of the body, if the head named one.
    pub(crate) encoding: Option<String>,
    pub(crate) beginning: Vec<u8>,
}

/// Where a message from the server came from.
#[derive(Debug, Clone)]
pub(crate) struct Origin {
    /// The request whose response carried it.
    pub(crate) request: Option<RequestKey>,
    /// The session id that the response offers.
    pub(crate) session: Option<HeaderValue>,
}

impl HttpBack {
    pub(crate) fn new(config: Config, rng: Rng, now: Time) -> Self {
        Self {
            link: Link::new(&config),
            exchanges: Exchanges::new(&config),
            recovery: Recovery::new(&config, rng),
            liveness: Liveness::new(config.keep_alive, now),
            config,
        }
    }

    pub(crate) fn report(&mut self, now: Time) -> Option<Report> {
        self.exchanges.next_report(now, self.link.transport())
    }

    /// The transport, as far as the proxy knows it.
    pub(crate) fn transport(&self) -> Transport {
        self.link.transport()
    }

    pub(crate) fn held(&self) -> Held {
        self.exchanges.calls.held()
    }

    /// How long to wait before reopening a session that has ended or could not be
    /// reopened; `None`: until a message needs it.
    pub(crate) fn reopening(&mut self) -> Option<Duration> {
        self.link.reopenings()?.next(self.recovery.rng())
    }

    pub(crate) fn send(&mut self, now: Time, outgoing: Outgoing) {
        let call = Call::new(now, outgoing, self.config.url.clone());
        if call.purpose == Some(Purpose::Listen) {
            return self.listen(now, call);
        }
        if call.traits().handshake {
            self.sse(|sse| sse.renew(now));
        }
        let id = self.exchanges.new_id();
        self.dispatch(now, id, call);
    }

    /// Opens the listening stream and drops the previous one. HTTP+SSE has a single
    /// stream for everything.
    fn listen(&mut self, now: Time, call: Call) {
        if self.link.sse().is_none() {
            self.exchanges.stop_where(|call| call.purpose == Some(Purpose::Listen));
            self.exchanges.start(now, call, SendMode::Stream, &self.config);
        }
    }

    /// Sends a message over the server's transport.
    fn dispatch(&mut self, now: Time, id: CallId, call: Call) {
        let Self { link, exchanges, config, .. } = self;
        match link {
            Link::Sse(session) => Sse { session, exchanges, config }.send(now, id, call),
            Link::Unknown | Link::Streamable(_) => exchanges.start_as(now, id, call, SendMode::Message, config),
        }
    }

    /// Applies `change` if the server speaks HTTP+SSE.
    fn sse<R>(&mut self, change: impl FnOnce(&mut Sse<'_>) -> R) -> Option<R> {
        let Self { link, exchanges, config, .. } = self;
        let session = link.sse_mut()?;
        Some(change(&mut Sse { session, exchanges, config }))
    }

    /// The same, and gives up HTTP+SSE if it was a wrong guess.
    fn try_with_sse(&mut self, change: impl FnOnce(&mut Sse<'_>) -> Guess) {
        if self.sse(change) == Some(Guess::Wrong) {
            self.link = Link::Unknown;
        }
    }

    pub(crate) fn head(&mut self, now: Time, id: CallId, status: StatusCode, headers: &HeaderMap) {
        let at = self.exchanges.reported();
        self.response(now, id, status, headers);
        let note = self.exchanges.trace.head(now, id, status, self.link.transport());
        self.exchanges.traced(at, note);
    }

    fn response(&mut self, now: Time, id: CallId, status: StatusCode, headers: &HeaderMap) {
        let Some(mut call) = self.exchanges.calls.take(id) else { return };
        if !matches!(call.state, State::AwaitHead) {
            return self.exchanges.unexpected(id, call);
        }
        if call.purpose.is_none() && !status.is_success() {
            return self.exchanges.report(Report::Stop(id));
        }
        self.begun(now, &mut call, status, headers);
        if let Some(failure) = useless(&call, status, headers) {
            return self.over(now, id, call, Next::Fail(failure));
        }
        if status == StatusCode::NOT_FOUND
            && let Some(url) = self.second_endpoint(&call)
        {
            return self.redirect(now, id, call, url, status);
        }
        let in_session = call.outgoing.session.named || (call.mode == SendMode::Post && !call.traits().handshake);
        match classify(call.purpose, call.mode, in_session, &call.url, status, headers) {
            Class::Posted => self.exchanges.keep(id, call.accepted(), State::AwaitAnswer(Exchange::Running)),
            Class::Events => {
                self.listening(now, &call);
                call.cursor.opened = true;
                let sse = sse::Sse::new(self.config.max_message);
                self.exchanges.keep(id, call.accepted(), State::AwaitEvents(sse));
            }
            // The body may say that the server did not execute the request.
            Class::Body if call.outgoing.body.len() <= LONGEST_REPEAT => {
                self.exchanges.keep(id, call, State::AwaitBody(status, Vec::new()));
            }
            Class::Body => self.exchanges.keep(id, call.accepted(), State::AwaitBody(status, Vec::new())),
            Class::Accepted if !self.config.quirks.any_success && status != StatusCode::ACCEPTED => {
                self.refusal(now, id, call, status, headers);
            }
            Class::Accepted => {
                call.purpose.take().into_iter().for_each(|purpose| self.exchanges.report(Report::Accepted(purpose)));
                self.exchanges.keep(id, call.accepted(), State::AwaitEnd);
            }
            Class::Redirect(url) if self.config.redirects => self.redirect(now, id, call, url, status),
            Class::Later(wait) => {
                let next = self.recovery.later(now, &call, wait, status, self.exchanges.calls.limits());
                self.over(now, id, call, next);
            }
            Class::SessionGone => self.over(now, id, call, Next::SessionGone(Failure::status(status, &[]))),
            Class::Refusal | Class::Redirect(_) => self.refusal(now, id, call, status, headers),
        }
    }

    /// Learns from the head of a response, whatever it leads to.
    fn begun(&mut self, now: Time, call: &mut Call, status: StatusCode, headers: &HeaderMap) {
        if call.mode != SendMode::Stream {
            call.heard = now;
        }
        if self.link.sse().is_none() {
            self.liveness.beat(now);
        }
        (call.length, call.encoding) = (content_length(headers), encoding(headers));
        self.exchanges.learn_cookies(&call.url, headers);
        if call.mode != SendMode::Post {
            call.offered = headers.get(SESSION_ID).cloned().or(call.offered.take());
        }
        if !status.is_success() {
            return;
        }
        call.cursor.unreached = 0;
        if self.config.challenges() {
            let key = call.purpose.and_then(|purpose| purpose.traits().key);
            key.into_iter().for_each(|key| self.exchanges.report(Report::Admitted(key)));
        }
        // After a redirect that worked, send later messages to the new URL directly.
        if call.hops > 0 && (call.mode == SendMode::Message || call.purpose == Some(Purpose::Stream)) {
            self.config.url.clone_from(&call.url);
        }
        let answers = call.mode == SendMode::Message && call.traits().wants_answer() && !call.probes();
        if call.mode == SendMode::Post {
            self.sse(|sse| sse.session.proven(&sse.config.url, &call.url));
        } else if answers && (!call.traits().handshake || is_type(headers, EVENT_STREAM)) {
            self.link.found_streamable();
        }
    }

    /// The first success of a listening stream.
    fn listening(&mut self, now: Time, call: &Call) {
        if let (Some(Purpose::Listen), false, Link::Streamable(reopenings)) =
            (call.purpose, call.cursor.opened, &mut self.link)
        {
            reopenings.opened(now);
        }
    }

    fn second_endpoint(&self, call: &Call) -> Option<Url> {
        let session = self.link.sse().filter(|_| self.config.quirks.stripped_prefix)?;
        session.second_endpoint(&self.config.url, call)
    }

    /// Follows a redirect to another URL of the server.
    fn redirect(&mut self, now: Time, id: CallId, mut call: Call, url: Url, status: StatusCode) {
        call.hops += 1;
        if call.hops > MOST_HOPS {
            let failure = Failure::body(status, "it redirects in a circle", &[]).undelivered();
            return self.over(now, id, call, Next::Fail(failure));
        }
        self.exchanges.report(Report::Stop(id));
        call.url = url;
        call.outgoing.attempts -= u32::from(call.mode != SendMode::Stream);
        let mode = call.mode;
        self.exchanges.start(now, call, mode, &self.config);
    }

    /// The server refused; its body may say why.
    fn refusal(&mut self, now: Time, id: CallId, mut call: Call, status: StatusCode, headers: &HeaderMap) {
        let reason = Reason { status, challenge: Challenge::of(headers), body: Vec::new() };
        let redirect = Some(status).filter(StatusCode::is_redirection).and(target(&call.url, headers));
        if call.fetches() && !may_be_lost(&call, status) {
            let next = self.recovery.no_stream(now, &mut call, &reason);
            self.over(now, id, call, next);
        } else if let Some(target) = redirect {
            self.over(now, id, call, Next::Fail(Failure::redirected(status, &target)));
        } else {
            self.exchanges.keep(id, call, State::AwaitReason(reason));
        }
    }

    /// Reads a piece of a response up to the end of the next event. The machine must
    /// handle that event before it reads the next one.
    pub(crate) fn chunk(&mut self, now: Time, id: CallId, chunk: &mut &[u8]) {
        let piece = std::mem::take(chunk);
        let mut whole = Body::Unfinished;
        let Self { exchanges, config, liveness, .. } = self;
        let event = exchanges.calls.change(id, |call| {
            call.heard = now;
            let of_session = call.purpose == Some(Purpose::Stream);
            if of_session {
                liveness.beat(now);
            }
            let State::AwaitEvents(sse) = &mut call.state else {
                whole = read(call, piece, config.max_message);
                return None;
            };
            *chunk = piece;
            let event = sse.next(chunk);
            call.note_cursor();
            let event = event?;
            call.cursor.eventless = 0;
            Some((event, of_session))
        });
        exchanges.trace.bytes(id, piece.len() - chunk.len());
        match whole {
            Body::Whole(status, body) => self.body_whole(now, id, status, body),
            Body::TooLong => self.exchanges.too_long(id, None),
            Body::Unexpected => self.exchanges.note(Note::Unexpected(id)),
            Body::Unfinished => {}
        }
        match event.flatten() {
            Some((event, true)) => self.try_with_sse(|sse| sse.event(now, id, event)),
            Some((event, false)) => self.exchanges.message_event(id, event),
            None => {}
        }
    }

    /// A body of known length is complete before its response has ended.
    fn body_whole(&mut self, now: Time, id: CallId, status: StatusCode, body: Vec<u8>) {
        let Some(call) = self.exchanges.calls.get(id) else { return };
        if !call.probes() {
            self.link.found_streamable();
        }
        let (said, over) = self.exchanges.answers(call, status, body);
        self.exchanges.abandon(now, id);
        self.exchanges.report(said);
        over.into_iter().for_each(|over| self.exchanges.report(over));
    }

    /// The shell has sent `count` more bytes of a request body.
    pub(crate) fn uploaded(&mut self, id: CallId, count: usize) {
        self.exchanges.calls.change(id, |call| call.uploaded = call.uploaded.saturating_add(count));
    }

    pub(crate) fn end(&mut self, now: Time, id: CallId) {
        let at = self.exchanges.reported();
        self.ended(now, id, None);
        let note = self.exchanges.trace.ended(now, id, self.link.transport());
        self.exchanges.traced(at, note);
    }

    pub(crate) fn failed(&mut self, now: Time, id: CallId, error: CallError, words: &str) {
        let at = self.exchanges.reported();
        self.ended(now, id, Some((error, words)));
        let note = self.exchanges.trace.failed(now, id, self.link.transport(), error);
        self.exchanges.traced(at, note);
    }

    /// The exchange of a call is over, with or without an error.
    fn ended(&mut self, now: Time, id: CallId, error: Option<(CallError, &str)>) {
        let Some(mut call) = self.exchanges.calls.take(id) else { return };
        let cause = error.map(|(error, _)| error);
        let next = match std::mem::replace(&mut call.state, State::AwaitEnd) {
            State::AwaitBody(status, body) if error.is_none() => return self.body_over(now, call, status, body),
            State::AwaitEvents(_) | State::AwaitBody(..) => self.recovery.interrupted(now, &mut call, cause),
            State::AwaitReason(reason) => return self.reason_over(now, call, reason),
            State::AwaitAnswer(Exchange::Running) => {
                return self.exchanges.keep(id, call, State::AwaitAnswer(Exchange::Over));
            }
            State::AwaitEnd => return,
            State::AwaitHead => {
                let (error, words) = error.unwrap_or((CallError::Protocol, ""));
                self.recovery.unreached(now, &mut call, error, words)
            }
            state @ (State::AwaitRetry(_)
            | State::AwaitReconnect(_)
            | State::AwaitEndpoint
            | State::AwaitAnswer(Exchange::Over)) => {
                call.state = state;
                return self.exchanges.unexpected(id, call);
            }
        };
        self.follow(now, call, next);
    }

    /// The body that should be the answer is complete.
    fn body_over(&mut self, now: Time, mut call: Call, status: StatusCode, body: Vec<u8>) {
        if self.recovery.says_lost(&call, status, &body) {
            let failure = Failure::body(status, "the session is gone", &body);
            return self.follow(now, call, Next::SessionGone(failure));
        }
        if body.trim_ascii().is_empty() {
            let failure = Failure::body(status, "there is no answer in it", &[]);
            // The server may still have acted on the message.
            call.outgoing.delivered = Delivered::Maybe;
            let Some(call) = self.try_sse(now, call, &failure, &body) else { return };
            return self.follow(now, call, Next::Fail(failure));
        }
        if !call.probes() {
            self.link.found_streamable();
        }
        let (said, over) = self.exchanges.answers(&call, status, body);
        self.exchanges.report(said);
        over.into_iter().for_each(|over| self.exchanges.report(over));
    }

    /// The body of a refusal is complete.
    fn reason_over(&mut self, now: Time, mut call: Call, mut reason: Reason) {
        if self.exchanges.quirks.byte_order_mark {
            reason.body = unmarked(reason.body);
        }
        if call.fetches() {
            let next = self.recovery.no_stream(now, &mut call, &reason);
            return self.follow(now, call, next);
        }
        let Reason { status, body, challenge, .. } = reason;
        let failure = Failure::status(status, &body).challenged(challenge);
        if call.purpose == Some(Purpose::Stream) {
            let no_events = || Failure::body(status, "it is no event stream", &body);
            let failure = if status.is_success() { no_events() } else { failure };
            let next = self.recovery.stream_refused(now, &mut call, status, failure);
            return self.follow(now, call, next);
        }
        let Some(call) = self.try_sse(now, call, &failure, &body) else { return };
        if self.recovery.says_lost(&call, status, &body) {
            return self.follow(now, call, Next::SessionGone(failure));
        }
        let failure = call.outgoing.failure(failure);
        // What a server wants of its user is in the challenge, not in its error.
        let error = if failure.data.challenge.is_none() { own_error(body) } else { None };
        if let Some(purpose) = call.purpose {
            self.exchanges.report(Report::Refused(purpose, failure, error));
        }
    }

    /// Tries HTTP+SSE if the refusal of a message may mean that. Otherwise returns the
    /// call.
    fn try_sse(&mut self, now: Time, call: Call, failure: &Failure, body: &[u8]) -> Option<Call> {
        let Suspicion::Sse(note) = self.link.suspect(&call, failure, body) else { return Some(call) };
        note.into_iter().for_each(|note| self.exchanges.note(note));
        let id = self.exchanges.new_id();
        self.dispatch(now, id, call);
        None
    }

    /// Drops the exchange of a call, and does what is next for the call.
    fn over(&mut self, now: Time, id: CallId, call: Call, next: Next) {
        self.exchanges.report(Report::Stop(id));
        self.follow(now, call, next);
    }

    fn follow(&mut self, now: Time, call: Call, next: Next) {
        match next {
            Next::Wait(state, note) => {
                note.into_iter().for_each(|note| self.exchanges.note(note));
                self.exchanges.wait(call, state);
            }
            Next::Fail(failure) if call.purpose == Some(Purpose::Stream) => {
                self.try_with_sse(|sse| sse.not_opened(failure));
            }
            Next::Fail(failure) => self.exchanges.fail(&call, failure),
            Next::SessionGone(mut failure) => {
                failure.data.phase = Phase::Session;
                let failure = call.outgoing.failure(failure.undelivered());
                self.exchanges.report(Report::SessionGone(call.outgoing, failure));
            }
            Next::ListenLost => {
                if let Link::Streamable(reopenings) = &mut self.link {
                    reopenings.lost(now, call.cursor.hint);
                }
                self.exchanges.report(Report::ListenLost(call.outgoing.session));
            }
            Next::ListenRefused(status) => self.exchanges.note(Note::ListenRefused(status)),
            Next::StreamLost(error) => self.stream_lost(now, &call, error),
            Next::Drop => {}
        }
    }

    /// The stream of an HTTP+SSE session ended.
    fn stream_lost(&mut self, now: Time, stream: &Call, error: Option<CallError>) {
        if self.link.sse().is_some_and(|session| !session.opening()) {
            self.liveness.cut(now, stream.heard.max(self.exchanges.calls.touched()));
        }
        self.try_with_sse(|sse| sse.lost(now, stream.cursor.hint, error));
    }

    /// The server did not answer a keep-alive ping. If the stream of an HTTP+SSE session
    /// has been silent since then, it is dead, even without a reported error.
    fn ping_lost(&mut self, now: Time, asked: Time) {
        let touched = self.exchanges.calls.touched();
        let dead = |call: &Call| call.purpose == Some(Purpose::Stream) && call.heard.max(touched) < asked;
        for (id, stream) in self.exchanges.take_where(dead) {
            self.exchanges.cancel(id, &stream);
            self.stream_lost(now, &stream, Some(CallError::Reset));
        }
    }

    /// Sends the calls that are due and gives up those that hit a limit. The server is not
    /// to blame for the silence of an `excused` request: the client owes it an answer, or
    /// does not read its messages.
    pub(crate) fn tick(&mut self, now: Time, excused: impl Fn(RequestKey) -> bool, pings: bool) {
        self.try_with_sse(|sse| sse.tick(now));
        let due = |deadline: Option<Deadline>| deadline.filter(|deadline| deadline.at <= now);
        for id in self.exchanges.calls.due(now) {
            let Some(mut call) = self.exchanges.calls.take(id) else { continue };
            let excused = call.traits().key.is_some_and(&excused);
            call.touch(if excused { now } else { self.exchanges.calls.touched() });
            match (due(call.limit(self.exchanges.calls.limits())), due(call.turn()), &call.state) {
                (Some(limit), ..) => self.expire(now, id, call, limit.why),
                (None, Some(_), State::AwaitReconnect(_)) => {
                    self.exchanges.start_as(now, id, call, SendMode::Stream, &self.config);
                }
                (None, Some(_), _) => self.dispatch(now, id, call),
                (None, None, _) => self.exchanges.calls.put(id, call),
            }
        }
        if pings && due(self.liveness.deadline()).is_some() {
            self.liveness.beat(now);
            self.exchanges.report(Report::Idle);
        }
    }

    fn expire(&mut self, now: Time, id: CallId, mut call: Call, why: Why) {
        self.exchanges.cancel(id, &call);
        if call.purpose == Some(Purpose::Listen)
            && let State::AwaitReason(reason) = std::mem::replace(&mut call.state, State::AwaitEnd)
        {
            let next = self.recovery.no_stream(now, &mut call, &reason);
            return self.follow(now, call, next);
        }
        if matches!(call.purpose, Some(Purpose::KeepAlive(_))) {
            self.ping_lost(now, call.sent);
        }
        let failure = expired(&call, why, self.exchanges.calls.limits());
        if let Some(purpose) = call.purpose {
            self.exchanges.report(Report::Expired(purpose, failure));
        }
    }

    /// With `pings`, includes the keep-alive.
    pub(crate) fn deadline(&self, pings: bool) -> Option<Deadline> {
        let session = self.link.sse().and_then(SseSession::deadline);
        let liveness = self.liveness.deadline().filter(|_| pings);
        earlier(earlier(session, self.exchanges.calls.deadline()), liveness)
    }

    /// May the shell read the response of this call? Above the budget for unfinished
    /// messages, only the oldest of them continues, so that it finishes.
    pub(crate) fn wants(&self, id: CallId) -> bool {
        let calls = &self.exchanges.calls;
        let first = || calls.iter().find(|(_, call)| call.partial() > 0).map(|(id, _)| id);
        let few = calls.held().partial < flow::slack(self.config.max_message);
        calls.get(id).is_some() && (few || first() == Some(id))
    }

    /// Nobody waits for the answer to this request any longer. Returns the message with its
    /// delivery status.
    pub(crate) fn forget(&mut self, now: Time, request: RequestKey) -> Option<Outgoing> {
        let id = self.exchanges.calls.of(request)?;
        let call = self.exchanges.calls.get(id)?;
        let delivered = if call.unseen() { Delivered::No } else { Delivered::Maybe };
        let outgoing = Outgoing { delivered, ..call.outgoing.clone() };
        self.exchanges.abandon(now, id);
        Some(outgoing)
    }

    /// Closes the stream of a request, which cancels it at a modern server. Returns the
    /// message with its delivery status.
    pub(crate) fn abort(&mut self, now: Time, request: RequestKey) -> Option<Outgoing> {
        let id = self.exchanges.calls.of(request)?;
        let outgoing = self.forget(now, request);
        self.exchanges.stop(id);
        outgoing
    }

    /// The server speaks the modern era, so it answers a message in its own response.
    pub(crate) fn found_streamable(&mut self) {
        self.link.found_streamable();
    }

    /// The server could not be pinged so far: its silence counts from now.
    pub(crate) fn rested(&mut self, now: Time) {
        self.liveness.beat(now);
    }

    pub(crate) fn stop_all(&mut self) {
        self.exchanges.stop_where(|_| true);
    }

    /// Restarts the count of silence: for one request, because a sign of life came by
    /// another way, or for all, because the server was not to blame.
    pub(crate) fn touch(&mut self, now: Time, request: Option<RequestKey>) {
        let calls = &mut self.exchanges.calls;
        match request.map(|request| calls.of(request)) {
            None => calls.touch_all(now),
            Some(None) => {}
            Some(Some(id)) => drop(calls.change(id, |call| call.touch(now))),
        }
    }

    /// The machine was suspended: nobody is to blame for the silence, and streams may be
    /// dead without notice.
    pub(crate) fn woke(&mut self, now: Time) {
        self.touch(now, None);
        self.liveness.doubt(now);
        let listening = |call: &Call| call.purpose == Some(Purpose::Listen) && !call.waiting();
        for (id, call) in self.exchanges.take_where(listening) {
            self.exchanges.cancel(id, &call);
            self.exchanges.start(now, call, SendMode::Stream, &self.config);
        }
    }
}

/// Why the whole response is unusable, if it is.
fn useless(call: &Call, status: StatusCode, headers: &HeaderMap) -> Option<Failure> {
    if headers.get(SESSION_ID).is_some_and(|offered| offered.len() > LONGEST_SESSION_ID) {
        return Some(Failure::body(status, LONG_SESSION_ID, &[]));
    }
    let stranded = status.is_success() && call.stranded.is_some();
    stranded.then(|| Failure::stream(None, &call.url))
}

/// The effect of a piece on a response that is not an event stream.
enum Body {
    Unfinished,
    Whole(StatusCode, Vec<u8>),
    TooLong,
    /// The response should have had no body.
    Unexpected,
}

/// Reads a piece of a response that is not an event stream.
fn read(call: &mut Call, piece: &[u8], most: usize) -> Body {
    let piece = call.belonging(piece);
    match &mut call.state {
        State::AwaitBody(status, body) if body.len() + piece.len() <= most => {
            body.extend_from_slice(piece);
            // A body of known length is complete without its end being reported.
            if call.length != Some(body.len()) || session_lost::says_lost(*status, body) {
                return Body::Unfinished;
            }
            let whole = Body::Whole(*status, std::mem::take(body));
            call.state = State::AwaitEnd;
            whole
        }
        State::AwaitBody(..) => {
            call.state = State::AwaitEnd;
            Body::TooLong
        }
        State::AwaitReason(Reason { body, .. }) => {
            let room = LONGEST_REASON.saturating_sub(body.len()).min(piece.len());
            body.extend_from_slice(piece.get(..room).unwrap_or_default());
            Body::Unfinished
        }
        State::AwaitEvents(_) | State::AwaitAnswer(Exchange::Running) | State::AwaitEnd => Body::Unfinished,
        State::AwaitRetry(_)
        | State::AwaitReconnect(_)
        | State::AwaitEndpoint
        | State::AwaitAnswer(Exchange::Over)
        | State::AwaitHead => Body::Unexpected,
    }
}
