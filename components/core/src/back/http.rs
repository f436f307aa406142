//! The calls under way: what each response, chunk, end or failure leads to. A call that
//! waits for a retry gets a new id at once, so that facts about the old exchange cannot
//! reach it.

use super::call::{Call, Exchange, Limits, Reason, State};
use super::calls::{Calls, Held};
use super::classify::{Class, EVENT_STREAM, SendMode, classify, content_length, encoding, is_type};
use super::cookies::Cookies;
use super::detect::Link;
use super::keep_alive::Liveness;
use super::request::{SESSION_ID, request};
use super::session_lost;
use super::trace::Trace;
use crate::boundary::{CallError, CallId};
use crate::config::Config;
use crate::failure::{Delivered, Failure};
use crate::flow;
use crate::note::Note;
use crate::outgoing::{Outgoing, Purpose, SessionContext};
use crate::rng::Rng;
use crate::route::RequestKey;
use crate::time::{Deadline, Time, earlier};
use crate::wire::message::{Id, Message, Parsed};
use crate::wire::sse::{Event, Sse, TooLong};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, StatusCode};
use std::collections::VecDeque;
use std::sync::Arc;

/// How much of a body that explains a refusal to read.
const LONGEST_REASON: usize = 64 << 10;

/// A longer request is not kept for the case that the answer reports a lost session.
const LONGEST_REPEAT: usize = 1 << 20;

/// Every later request carries the session id, and hosts and servers limit the total size
/// of headers.
pub(crate) const LONGEST_SESSION_ID: usize = 8 << 10;
const LONG_SESSION_ID: &str = "its session id is longer than 8192 bytes";

#[derive(Debug)]
pub(crate) struct HttpBack {
    pub(super) config: Config,
    pub(super) link: Link,
    pub(super) calls: Calls,
    next: u64,
    pub(super) rng: Rng,
    pub(super) reports: VecDeque<Report>,
    cookies: Cookies,
    pub(super) liveness: Liveness,
    pub(super) trace: Trace,
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
    Taken(Purpose),
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
        let link = Link::new(config.transport);
        let liveness = Liveness::new(config.keep_alive, now);
        let calls = Calls::new(Limits::new(&config));
        let trace = Trace::new(config.trace);
        Self {
            config,
            link,
            calls,
            next: 0,
            rng,
            reports: VecDeque::new(),
            cookies: Cookies::default(),
            liveness,
            trace,
        }
    }

    /// The next report. The note about a dropped call comes before its `Stop`.
    pub(crate) fn report(&mut self, now: Time) -> Option<Report> {
        if let Some(Report::Stop(id)) = self.reports.front()
            && let Some(note) = self.trace.dropped(now, *id, self.transport())
        {
            return Some(Report::Note(note));
        }
        self.reports.pop_front()
    }

    pub(crate) fn send(&mut self, now: Time, outgoing: Outgoing) {
        if outgoing.purpose == Purpose::Listen {
            return self.listen(now, outgoing);
        }
        if outgoing.purpose.traits().handshake {
            self.renew_stream(now);
        }
        let call = Call::new(now, outgoing, self.config.url.clone());
        let id = self.new_id();
        self.dispatch(now, id, call);
    }

    /// Opens the listening stream and drops the previous one. HTTP+SSE has a single
    /// stream for everything.
    fn listen(&mut self, now: Time, outgoing: Outgoing) {
        if matches!(self.link, Link::Sse(_)) {
            return;
        }
        let old: Vec<CallId> = self.ids(|call| call.purpose == Some(Purpose::Listen));
        old.into_iter().for_each(|id| self.stop(id));
        let call = Call::new(now, outgoing, self.config.url.clone());
        self.start(now, call, SendMode::Stream);
    }

    pub(crate) fn head(&mut self, now: Time, id: CallId, status: StatusCode, headers: &HeaderMap) {
        let at = self.reports.len();
        self.response(now, id, status, headers);
        let note = self.trace.head(now, id, status, self.transport());
        self.traced(at, note);
    }

    /// Inserts the note about an exchange before the reports that the exchange caused.
    fn traced(&mut self, at: usize, note: Option<Note>) {
        note.into_iter().for_each(|note| self.reports.insert(at, Report::Note(note)));
    }

    fn response(&mut self, now: Time, id: CallId, status: StatusCode, headers: &HeaderMap) {
        let Some(mut call) = self.take(id) else { return };
        if !matches!(call.state, State::AwaitHead) {
            return self.unexpected(id, call);
        }
        let mode = call.mode;
        if call.purpose.is_none() && !status.is_success() {
            return self.reports.push_back(Report::Stop(id));
        }
        self.begun(now, &mut call, status, headers);
        if let Some(failure) = useless(&call, status, headers) {
            self.reports.push_back(Report::Stop(id));
            return self.fail(&call, failure);
        }
        if status == StatusCode::NOT_FOUND
            && let Some(url) = self.second_endpoint(&call)
        {
            return self.redirect(now, id, call, url, status);
        }
        let in_session = call.outgoing.session.named || (mode == SendMode::Post && !call.traits().handshake);
        match classify(call.purpose, mode, in_session, &call.url, status, headers) {
            Class::Posted => self.keep(id, call.taken(), State::AwaitAnswer(Exchange::Running)),
            Class::Events => {
                if call.purpose == Some(Purpose::Listen) {
                    self.listening(now, &call);
                }
                call.cursor.opened = true;
                self.keep(id, call.taken(), State::AwaitEvents(Sse::new(self.config.max_message)));
            }
            // The body may say that the server did not execute the request.
            Class::Body if call.outgoing.body.len() <= LONGEST_REPEAT => {
                self.keep(id, call, State::AwaitBody(status, Vec::new()));
            }
            Class::Body => self.keep(id, call.taken(), State::AwaitBody(status, Vec::new())),
            Class::Accepted if !self.config.quirks.any_success && status != StatusCode::ACCEPTED => {
                self.refusal(now, id, call, status, headers);
            }
            Class::Accepted => {
                self.reports.extend(call.purpose.take().map(Report::Taken));
                self.keep(id, call.taken(), State::AwaitEnd);
            }
            Class::Redirect(url) if self.config.redirects => self.redirect(now, id, call, url, status),
            Class::Later(wait) => self.later(now, id, call, wait, status),
            Class::SessionGone => {
                self.reports.push_back(Report::Stop(id));
                self.session_gone(call, Failure::status(status, &[]));
            }
            Class::Refusal | Class::Redirect(_) => self.refusal(now, id, call, status, headers),
        }
    }

    /// Learns from the head of a response, whatever it leads to.
    fn begun(&mut self, now: Time, call: &mut Call, status: StatusCode, headers: &HeaderMap) {
        if call.mode != SendMode::Stream {
            call.heard = now;
        }
        if !matches!(self.link, Link::Sse(_)) {
            self.liveness.beat(now);
        }
        (call.length, call.encoding) = (content_length(headers), encoding(headers));
        if self.config.quirks.cookies {
            self.cookies.take(&call.url, headers);
        }
        if call.mode != SendMode::Post {
            call.offered = headers.get(SESSION_ID).cloned().or(call.offered.take());
        }
        if !status.is_success() {
            return;
        }
        call.cursor.unreached = 0;
        // After a redirect that worked, send later messages to the new URL directly.
        if call.hops > 0 && (call.mode == SendMode::Message || call.purpose == Some(Purpose::Stream)) {
            self.config.url.clone_from(&call.url);
        }
        let answers = call.mode == SendMode::Message && call.traits().wants_answer();
        if call.mode == SendMode::Post {
            self.endpoint_proven(&call.url);
        } else if answers && (!call.traits().handshake || is_type(headers, EVENT_STREAM)) {
            self.found_streamable();
        }
    }

    /// Reads a piece of a response up to the end of the next event. The machine must
    /// handle that event before it reads the next one.
    pub(crate) fn chunk(&mut self, now: Time, id: CallId, chunk: &mut &[u8]) {
        let piece = std::mem::take(chunk);
        let mut whole = Body::Unfinished;
        let Self { calls, config, liveness, .. } = self;
        let event = calls.change(id, |call| {
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
            if event.is_message() {
                call.cursor.messageless = 0;
            }
            Some((event, of_session))
        });
        self.trace.bytes(id, piece.len() - chunk.len());
        match whole {
            Body::Whole(status, body) => self.body_whole(id, status, body),
            Body::TooLong => self.too_long(id, None),
            Body::Unexpected => self.reports.push_back(Report::Note(Note::Unexpected(id))),
            Body::Unfinished => {}
        }
        match event.flatten() {
            Some((event, true)) => self.stream_event(now, id, event),
            Some((event, false)) => self.message_event(id, event),
            None => {}
        }
    }

    pub(super) fn message_event(&mut self, id: CallId, event: Event) {
        if !event.is_message() {
            return;
        }
        match event.data {
            Ok(data) => {
                let origin = self.origin(id);
                self.said(origin, data);
            }
            Err(TooLong(answer)) => self.too_long(id, answer),
        }
    }

    /// The shell has sent `count` more bytes of a request body.
    pub(crate) fn uploaded(&mut self, id: CallId, count: usize) {
        self.calls.change(id, |call| call.uploaded = call.uploaded.saturating_add(count));
    }

    pub(crate) fn end(&mut self, now: Time, id: CallId) {
        let at = self.reports.len();
        self.ended(now, id);
        let note = self.trace.ended(now, id, self.transport());
        self.traced(at, note);
    }

    fn ended(&mut self, now: Time, id: CallId) {
        let Some(mut call) = self.take(id) else { return };
        match std::mem::replace(&mut call.state, State::AwaitEnd) {
            State::AwaitEvents(_) => self.stream_over(now, call, None),
            State::AwaitBody(status, body) => self.body_over(now, call, status, body),
            State::AwaitReason(reason) => self.reason_over(now, call, reason),
            State::AwaitAnswer(Exchange::Running) => self.keep(id, call, State::AwaitAnswer(Exchange::Over)),
            State::AwaitEnd => {}
            State::AwaitHead => self.unreached(now, call, CallError::Protocol, ""),
            state @ (State::AwaitRetry(_)
            | State::AwaitReconnect(_)
            | State::AwaitEndpoint
            | State::AwaitAnswer(Exchange::Over)) => {
                call.state = state;
                self.unexpected(id, call);
            }
        }
    }

    pub(crate) fn failed(&mut self, now: Time, id: CallId, error: CallError, words: &str) {
        let at = self.reports.len();
        self.broken(now, id, error, words);
        let note = self.trace.failed(now, id, self.transport(), error);
        self.traced(at, note);
    }

    fn broken(&mut self, now: Time, id: CallId, error: CallError, words: &str) {
        let Some(mut call) = self.take(id) else { return };
        match std::mem::replace(&mut call.state, State::AwaitEnd) {
            State::AwaitEvents(_) | State::AwaitBody(..) => self.stream_over(now, call, Some(error)),
            State::AwaitReason(reason) => self.reason_over(now, call, reason),
            State::AwaitAnswer(Exchange::Running) => self.keep(id, call, State::AwaitAnswer(Exchange::Over)),
            State::AwaitEnd => {}
            State::AwaitHead => self.unreached(now, call, error, words),
            state @ (State::AwaitRetry(_)
            | State::AwaitReconnect(_)
            | State::AwaitEndpoint
            | State::AwaitAnswer(Exchange::Over)) => {
                call.state = state;
                self.unexpected(id, call);
            }
        }
    }

    /// Sends the calls that are due and gives up those that hit a limit. While `paused`,
    /// the server is not to blame for a request's silence: the client owes it an answer,
    /// or does not read its messages.
    pub(crate) fn tick(&mut self, now: Time, paused: bool, pings: bool) {
        self.sse_session_tick(now);
        let due = |deadline: Option<Deadline>| deadline.filter(|deadline| deadline.at <= now);
        for id in self.calls.due(now) {
            let Some(mut call) = self.take(id) else { continue };
            let excused = paused && call.traits().wants_answer();
            call.touch(if excused { now } else { self.calls.touched() });
            match (due(call.limit(self.calls.limits())), due(call.turn()), &call.state) {
                (Some(limit), ..) => self.expire(now, id, call, limit.why),
                (None, Some(_), State::AwaitReconnect(_)) => self.start_as(now, id, call, SendMode::Stream),
                (None, Some(_), _) => self.dispatch(now, id, call),
                (None, None, _) => self.put(id, call),
            }
        }
        if pings && due(self.liveness.deadline()).is_some() {
            self.liveness.beat(now);
            self.reports.push_back(Report::Idle);
        }
    }

    /// With `pings`, includes the keep-alive.
    pub(crate) fn deadline(&self, pings: bool) -> Option<Deadline> {
        let session = if let Link::Sse(session) = &self.link { session.deadline() } else { None };
        let liveness = self.liveness.deadline().filter(|_| pings);
        earlier(earlier(session, self.calls.deadline()), liveness)
    }

    /// May the shell read the response of this call? Above the budget for unfinished
    /// messages, only the oldest of them continues, so that it finishes.
    pub(crate) fn wants(&self, id: CallId) -> bool {
        let first = || self.calls.iter().find(|(_, call)| call.partial() > 0).map(|(id, _)| id);
        let few = self.calls.held().partial < flow::slack(self.config.max_message);
        self.calls.get(id).is_some() && (few || first() == Some(id))
    }

    pub(crate) fn held(&self) -> Held {
        self.calls.held()
    }

    /// Nobody waits for this call any longer.
    pub(crate) fn settle(&mut self, id: CallId) {
        let waits = self.calls.change(id, |call| {
            let waits = call.waiting();
            call.settle();
            waits
        });
        if waits == Some(true) {
            self.take(id);
        }
    }

    /// Nobody waits for the answer to this request any longer. Returns the message with its
    /// delivery status.
    pub(crate) fn forget(&mut self, request: RequestKey) -> Option<Outgoing> {
        let id = self.calls.of(request)?;
        let call = self.calls.get(id)?;
        let delivered = if call.unseen() { Delivered::No } else { Delivered::Maybe };
        let outgoing = Outgoing { delivered, ..call.outgoing.clone() };
        self.settle(id);
        Some(outgoing)
    }

    pub(crate) fn stop_all(&mut self) {
        self.ids(|_| true).into_iter().for_each(|id| self.stop(id));
    }

    pub(crate) fn stop(&mut self, id: CallId) {
        if let Some(call) = self.take(id) {
            self.drop_exchange(id, &call);
        }
    }

    pub(super) fn drop_exchange(&mut self, id: CallId, call: &Call) {
        if !call.waiting() {
            self.reports.push_back(Report::Stop(id));
        }
    }

    pub(super) fn ids(&self, wanted: impl Fn(&Call) -> bool) -> Vec<CallId> {
        self.calls.ids(wanted)
    }

    pub(super) fn keep(&mut self, id: CallId, mut call: Call, state: State) {
        call.state = state;
        self.put(id, call);
    }

    pub(super) fn put(&mut self, id: CallId, call: Call) {
        self.calls.put(id, call);
    }

    pub(super) fn take(&mut self, id: CallId) -> Option<Call> {
        self.calls.take(id)
    }

    fn unexpected(&mut self, id: CallId, call: Call) {
        self.put(id, call);
        self.reports.push_back(Report::Note(Note::Unexpected(id)));
    }

    pub(super) fn new_id(&mut self) -> CallId {
        self.next += 1;
        CallId(self.next)
    }

    pub(super) fn start(&mut self, now: Time, call: Call, mode: SendMode) {
        let id = self.new_id();
        self.start_as(now, id, call, mode);
    }

    pub(super) fn start_as(&mut self, now: Time, id: CallId, mut call: Call, mode: SendMode) {
        call.outgoing.attempts += u32::from(mode != SendMode::Stream);
        (call.state, call.mode, call.sent, call.uploaded) = (State::AwaitHead, mode, now, 0);
        let request = request(&self.config, &self.cookies, &call);
        self.trace.started(now, id, &request);
        self.reports.push_back(Report::Start(id, request));
        self.put(id, call);
    }
}

/// Why the whole response is unusable, if it is.
fn useless(call: &Call, status: StatusCode, headers: &HeaderMap) -> Option<Failure> {
    if headers.get(SESSION_ID).is_some_and(|offered| offered.len() > LONGEST_SESSION_ID) {
        return Some(Failure::body(status, LONG_SESSION_ID, &[]));
    }
    let stranded = status.is_success() && call.stranded.is_some();
    stranded.then(|| Failure::stream(None))
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
