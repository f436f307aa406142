//! The calls under way: what each response, chunk, end or failure leads to.
//! A call that is to be sent again gets a new id at once and waits under it,
//! so that no fact about the old exchange can reach it.

use super::call::{Call, Exchange, Limits, Reason, State};
use super::calls::Calls;
use super::cookies::Cookies;
use super::detect::Link;
use super::gone;
use super::meaning::{EVENT_STREAM, Meaning, Way, content_length, encoding, is_type, meaning};
use super::pulse::Pulse;
use super::request::{SESSION_ID, request};
use crate::boundary::{CallError, CallId};
use crate::config::Config;
use crate::era::legacy::Session;
use crate::failure::Failure;
use crate::flow;
use crate::note::Note;
use crate::outgoing::{Outgoing, Purpose};
use crate::rng::Rng;
use crate::route::RequestKey;
use crate::time::{Deadline, Time, earlier};
use crate::wire::message::Id;
use crate::wire::sse::{Event, Sse, TooLong};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, StatusCode};
use std::collections::VecDeque;

/// How much of a body that says why not is read.
const LONGEST_REASON: usize = 64 << 10;

/// A longer request is not kept for the case that its answer is "not known".
const LONGEST_REPEAT: usize = 1 << 20;

/// A session id goes into every later request; hosts and servers bound the size
/// of all headers together.
pub(crate) const LONGEST_SESSION_ID: usize = 8 << 10;
const LONG_SESSION_ID: &str = "its session id is longer than 8192 bytes";

/// The calls.
#[derive(Debug)]
pub(crate) struct HttpBack {
    pub(super) config: Config,
    pub(super) link: Link,
    pub(super) calls: Calls,
    next: u64,
    pub(super) rng: Rng,
    pub(super) reports: VecDeque<Report>,
    cookies: Cookies,
    pub(super) pulse: Pulse,
}

/// What the back tells the hall.
#[derive(Debug)]
pub(crate) enum Report {
    Start(CallId, Request<Bytes>),
    Stop(CallId),
    /// The server said this in the response to that call.
    Said(CallId, Vec<u8>),
    /// The server answered that call with this body.
    Body(CallId, StatusCode, Vec<u8>),
    /// The response to that call has ended, and its body has been reported.
    Over(CallId),
    /// The server said something over the limit in the response to that call,
    /// and if that can be seen: as the answer to this request.
    TooLong(CallId, Option<Id>),
    /// The server took a message that needs no answer.
    Taken(Purpose),
    /// A message cannot be delivered, or will not be answered.
    Failed(Purpose, Failure),
    /// The server refused with an error of its own.
    Refused(Purpose, Failure, Vec<u8>),
    /// Nothing was heard for too long; the server should stop working on it.
    Expired(Purpose, Failure),
    /// The server does not know the session that this was sent in; if there is
    /// no other, the failure is the answer.
    SessionGone(Outgoing, Session, Failure),
    /// The session has ended with its stream.
    SessionEnded,
    /// The server does not know the session that its listening stream was for.
    ListenLost(Session),
    Note(Note),
}

impl HttpBack {
    pub(crate) fn new(config: Config, rng: Rng, now: Time) -> Self {
        let link = Link::new(config.transport);
        let pulse = Pulse::new(config.keep_alive, now);
        let calls = Calls::new(Limits::new(&config));
        Self { config, link, calls, next: 0, rng, reports: VecDeque::new(), cookies: Cookies::default(), pulse }
    }

    pub(crate) fn report(&mut self) -> Option<Report> {
        self.reports.pop_front()
    }

    /// Sends a message to the server.
    pub(crate) fn send(&mut self, now: Time, outgoing: Outgoing, session: &Session) {
        if outgoing.purpose.traits().handshake {
            self.renew_stream(now);
        }
        let call = Call::new(now, outgoing, self.config.url.clone(), session.clone());
        let id = self.new_id();
        self.dispatch(now, id, call);
    }

    /// Opens the stream for what the server says unasked, instead of the one
    /// that may still be open. In HTTP+SSE all is said on one stream.
    pub(crate) fn listen(&mut self, now: Time, session: &Session) {
        if matches!(self.link, Link::Sse(_)) {
            return;
        }
        let old: Vec<CallId> = self.ids(|call| call.purpose == Some(Purpose::Listen));
        old.into_iter().for_each(|id| self.stop(id));
        let outgoing = Outgoing::new(Purpose::Listen, Bytes::new());
        let call = Call::new(now, outgoing, self.config.url.clone(), session.clone());
        self.start(now, call, Way::Stream);
    }

    pub(crate) fn head(&mut self, now: Time, id: CallId, status: StatusCode, headers: &HeaderMap) {
        let Some(mut call) = self.take(id) else { return };
        if !matches!(call.state, State::AwaitHead) {
            return self.unexpected(id, call);
        }
        let way = call.way;
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
        let in_session = call.session.id.is_some() || (way == Way::Post && !call.traits().handshake);
        match meaning(call.purpose, way, in_session, &call.url, status, headers) {
            Meaning::Posted => self.keep(id, call.taken(), State::AwaitAnswer(Exchange::Running)),
            Meaning::Events => {
                if call.purpose == Some(Purpose::Listen) {
                    self.listening(now, &call);
                }
                call.cursor.opened = true;
                self.keep(id, call.taken(), State::AwaitEvents(Sse::new(self.config.max_message)));
            }
            // The body may say that the request was not carried out.
            Meaning::Body if call.outgoing.body.len() <= LONGEST_REPEAT => {
                self.keep(id, call, State::AwaitBody(status, Vec::new()));
            }
            Meaning::Body => self.keep(id, call.taken(), State::AwaitBody(status, Vec::new())),
            Meaning::Accepted if !self.config.quirks.any_success && status != StatusCode::ACCEPTED => {
                self.refusal(now, id, call, status, headers);
            }
            Meaning::Accepted => {
                self.reports.extend(call.purpose.take().map(Report::Taken));
                self.keep(id, call.taken(), State::AwaitEnd);
            }
            Meaning::Redirect(url) if self.config.redirects => self.redirect(now, id, call, url, status),
            Meaning::Later(wait) => self.later(now, id, call, wait, status),
            Meaning::SessionGone => {
                self.reports.push_back(Report::Stop(id));
                self.session_gone(call, Failure::status(status, &[]));
            }
            Meaning::Refusal | Meaning::Redirect(_) => self.refusal(now, id, call, status, headers),
        }
    }

    /// Learns from the head of a response, whatever it leads to.
    fn begun(&mut self, now: Time, call: &mut Call, status: StatusCode, headers: &HeaderMap) {
        if call.way != Way::Stream {
            call.heard = now;
        }
        if !matches!(self.link, Link::Sse(_)) {
            self.pulse.beat(now);
        }
        (call.length, call.encoding) = (content_length(headers), encoding(headers));
        if self.config.quirks.cookies {
            self.cookies.take(&call.url, headers);
        }
        if call.way != Way::Post {
            call.offered = headers.get(SESSION_ID).cloned().or(call.offered.take());
        }
        if !status.is_success() {
            return;
        }
        call.cursor.unreached = 0;
        // A server that sent us there, and is there, is asked there from now on.
        if call.hops > 0 && (call.way == Way::Message || call.purpose == Some(Purpose::Stream)) {
            self.config.url.clone_from(&call.url);
        }
        let answers = call.way == Way::Message && call.traits().wants_answer();
        if call.way == Way::Post {
            self.endpoint_proven(&call.url);
        } else if answers && (!call.traits().handshake || is_type(headers, EVENT_STREAM)) {
            self.found_streamable();
        }
    }

    /// Takes a piece of a response, up to the end of the next event in it:
    /// what that event leads to must happen before the one after it is read.
    pub(crate) fn chunk(&mut self, now: Time, id: CallId, chunk: &mut &[u8]) {
        let piece = std::mem::take(chunk);
        let mut whole = None;
        let Self { calls, config, pulse, .. } = self;
        let event = calls.change(id, |call| {
            call.heard = now;
            let of_session = call.purpose == Some(Purpose::Stream);
            if of_session {
                pulse.beat(now);
            }
            let State::AwaitEvents(sse) = &mut call.state else {
                whole = read(id, call, piece, config.max_message);
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
        if matches!(whole, Some(Report::Body(..))) {
            self.found_streamable();
        }
        self.reports.extend(whole);
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
        self.reports.push_back(match event.data {
            Ok(data) => Report::Said(id, data),
            Err(TooLong(answer)) => Report::TooLong(id, answer),
        });
    }

    /// That many more bytes of a call's request have left.
    pub(crate) fn uploaded(&mut self, id: CallId, count: usize) {
        self.calls.change(id, |call| call.uploaded = call.uploaded.saturating_add(count));
    }

    pub(crate) fn end(&mut self, now: Time, id: CallId) {
        let Some(mut call) = self.take(id) else { return };
        match std::mem::replace(&mut call.state, State::AwaitEnd) {
            State::AwaitEvents(_) => self.stream_over(now, call, None),
            State::AwaitBody(status, body) => self.body_over(now, id, call, status, body),
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

    /// Sends what waits for its turn and gives up what has hit a limit.
    /// While `paused`, a request's silence is not the server's fault: the client
    /// owes it an answer, or does not read what it says.
    pub(crate) fn tick(&mut self, now: Time, paused: bool) {
        self.channel_tick(now);
        let due = |deadline: Option<Deadline>| deadline.filter(|deadline| deadline.at <= now);
        for id in self.calls.due(now) {
            let Some(mut call) = self.take(id) else { continue };
            let excused = paused && call.traits().wants_answer();
            call.touch(if excused { now } else { self.calls.touched() });
            match (due(call.limit(self.calls.limits())), due(call.turn()), &call.state) {
                (Some(limit), ..) => self.expire(now, id, call, limit.why),
                (None, Some(_), State::AwaitReconnect(_)) => self.start_as(now, id, call, Way::Stream),
                (None, Some(_), _) => self.dispatch(now, id, call),
                (None, None, _) => self.put(id, call),
            }
        }
    }

    pub(crate) fn deadline(&self) -> Option<Deadline> {
        let channel = if let Link::Sse(channel) = &self.link { channel.deadline() } else { None };
        earlier(channel, self.calls.deadline())
    }

    /// May the response of that call be read? Above the budget for unfinished
    /// messages only the oldest of them goes on, so that it gets finished.
    pub(crate) fn wants(&self, id: CallId) -> bool {
        let first = || self.calls.iter().find(|(_, call)| call.partial() > 0).map(|(id, _)| id);
        let few = self.calls.held().partial < flow::slack(self.config.max_message);
        self.calls.get(id).is_some() && (few || first() == Some(id))
    }

    /// How many calls there are.
    pub(crate) fn under_way(&self) -> usize {
        self.calls.len()
    }

    /// Bytes of messages that have not left.
    pub(crate) fn unsent(&self) -> usize {
        self.calls.held().unsent
    }

    /// Bytes of messages that may have to be sent, or sent again.
    pub(crate) fn kept(&self) -> usize {
        self.calls.held().kept
    }

    /// How many notifications and answers the server has not taken.
    pub(crate) fn untaken(&self) -> usize {
        self.calls.held().untaken
    }

    /// What the response to a call is for.
    pub(crate) fn purpose(&self, id: CallId) -> Option<Purpose> {
        self.calls.get(id)?.purpose
    }

    /// What a request is for that has not been answered.
    pub(crate) fn purpose_of(&self, request: RequestKey) -> Option<Purpose> {
        self.carrier(request)?.purpose
    }

    /// The session id that the response to a request offered.
    pub(crate) fn offered(&self, request: RequestKey) -> Option<HeaderValue> {
        self.carrier(request)?.offered.clone()
    }

    /// The call that carries a request.
    fn carrier(&self, request: RequestKey) -> Option<&Call> {
        self.calls.get(self.calls.of(request)?)
    }

    /// There is something the server has not taken, or not answered.
    pub(crate) fn busy(&self) -> bool {
        self.calls.iter().any(|(_, call)| call.traits().busy)
    }

    /// Nothing more is expected of that call.
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

    /// Nobody waits for the answer to this request any more. `true` if the
    /// server cannot have seen it.
    pub(crate) fn forget(&mut self, request: RequestKey) -> bool {
        let Some(id) = self.calls.of(request) else { return false };
        let unseen = self.unseen(request);
        self.settle(id);
        unseen
    }

    /// The server cannot have seen this request.
    pub(crate) fn unseen(&self, request: RequestKey) -> bool {
        self.carrier(request).is_some_and(Call::unseen)
    }

    /// Drops every call.
    pub(crate) fn stop_all(&mut self) {
        self.ids(|_| true).into_iter().for_each(|id| self.stop(id));
    }

    /// The exchange of a call is over.
    pub(crate) fn over(&mut self, id: CallId) {
        self.take(id);
    }

    /// Drops a call.
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

    pub(super) fn start(&mut self, now: Time, call: Call, way: Way) {
        let id = self.new_id();
        self.start_as(now, id, call, way);
    }

    pub(super) fn start_as(&mut self, now: Time, id: CallId, mut call: Call, way: Way) {
        call.outgoing.attempts += u32::from(way != Way::Stream);
        (call.state, call.way, call.sent, call.uploaded) = (State::AwaitHead, way, now, 0);
        let request = request(&self.config, &self.cookies, &call);
        self.reports.push_back(Report::Start(id, request));
        self.put(id, call);
    }

    /// The failure of a message over the limit in the response to a call.
    pub(crate) fn too_long(&self, id: CallId) -> Failure {
        let failure = Failure::too_long(self.config.max_message);
        self.calls.get(id).map_or(failure.clone(), |call| call.outgoing.failure(failure))
    }

    /// A failure of a request from outside, with what its call knows.
    pub(crate) fn failure(&self, request: RequestKey, failure: Failure) -> Failure {
        self.carrier(request).map_or(failure.clone(), |call| call.outgoing.failure(failure))
    }
}

/// Why nothing of a response can be used, whatever it brings.
fn useless(call: &Call, status: StatusCode, headers: &HeaderMap) -> Option<Failure> {
    if headers.get(SESSION_ID).is_some_and(|offered| offered.len() > LONGEST_SESSION_ID) {
        return Some(Failure::body(status, LONG_SESSION_ID, &[]));
    }
    let stranded = status.is_success() && call.stranded.is_some();
    stranded.then(|| Failure::stream(None))
}

/// Takes a piece of a response that is no event stream.
fn read(id: CallId, call: &mut Call, piece: &[u8], most: usize) -> Option<Report> {
    let piece = call.belonging(piece);
    match &mut call.state {
        State::AwaitBody(status, body) if body.len() + piece.len() <= most => {
            body.extend_from_slice(piece);
            // A body of known length need not wait for its end to be told.
            let whole = call.length == Some(body.len()) && !gone::says_gone(*status, body);
            let body = whole.then(|| Report::Body(id, *status, std::mem::take(body)))?;
            call.state = State::AwaitEnd;
            Some(body)
        }
        State::AwaitBody(..) => {
            call.state = State::AwaitEnd;
            Some(Report::TooLong(id, None))
        }
        State::AwaitReason(Reason { body, .. }) => {
            let room = LONGEST_REASON.saturating_sub(body.len()).min(piece.len());
            body.extend_from_slice(piece.get(..room).unwrap_or_default());
            None
        }
        State::AwaitEvents(_) | State::AwaitAnswer(Exchange::Running) | State::AwaitEnd => None,
        State::AwaitRetry(_)
        | State::AwaitReconnect(_)
        | State::AwaitEndpoint
        | State::AwaitAnswer(Exchange::Over)
        | State::AwaitHead => Some(Report::Note(Note::Unexpected(id))),
    }
}
