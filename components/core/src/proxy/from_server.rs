//! The path from the server to the client: back ▶ era ▶ route ▶ front. `route` grants the
//! permission to answer each request, once. Protocol decisions belong to the modules.

use super::from_client::MOST_UNTAKEN;
use super::{Proxy, Stage};
use crate::back::http::{BodyOver, Origin, Report};
use crate::boundary::{CallId, Output};
use crate::era::legacy::{Conclusion, Legacy, Recovery};
use crate::era::{Cancellation, Discovered, FromServer};
use crate::failure::{Delivered, Failure, Phase};
use crate::front::http::Destination;
use crate::note::{Blame, Note};
use crate::outgoing::{Outgoing, Purpose, SessionContext};
use crate::route::{Asked, Refusal, RequestKey};
use crate::wire::batch::Batch;
use crate::wire::message::{self, Fault, Id, Kind, Message, Parsed};
use http::{HeaderValue, StatusCode};

/// How much of an invalid answer to quote.
const BEGINNING: usize = 200;

/// How many members of a server's batch to read. Thousands of them are an attack.
const MOST_MEMBERS: usize = 1000;

impl Proxy {
    pub(super) fn reported(&mut self, report: Report) {
        match report {
            Report::Start(id, request) => self.queue.push_back(Output::Call(id, request)),
            Report::Stop(id) => self.queue.push_back(Output::Cancel(id)),
            Report::Said(origin, parsed) => self.server_said(&origin, parsed),
            Report::TooLong(answer, failure) => self.too_long(answer, &failure),
            Report::Accepted(purpose) => self.accepted(purpose),
            Report::Admitted(key) => self.admitted(key),
            Report::Failed(purpose, failure) => self.failed(purpose, &failure),
            Report::BodyOver(over) => self.body_over(&over),
            Report::Refused(purpose, failure, error) => self.refused(purpose, &failure, error),
            Report::Expired(purpose, failure) => self.expired(purpose, &failure),
            Report::SessionGone(outgoing, failure) => self.session_gone(outgoing, &failure),
            Report::SessionEnded => self.session_ended(),
            Report::ListenLost(session) => self.listen_lost(&session),
            Report::Idle => {
                let ping = self.era.legacy.ping(&mut self.route);
                self.deliver(ping);
            }
            Report::Note(note) => self.note(note),
        }
    }

    pub(super) fn server_bytes(&mut self, id: CallId, mut chunk: &[u8]) {
        while !chunk.is_empty() {
            self.back.chunk(self.now, id, &mut chunk);
            self.advance();
        }
    }

    fn server_said(&mut self, origin: &Origin, parsed: Parsed) {
        match parsed {
            Parsed::One(message) => self.server_sent(origin, message),
            Parsed::Batch(batch) => self.server_batch(origin, batch),
        }
    }

    fn server_batch(&mut self, origin: &Origin, mut batch: Batch) {
        let mut bad = 0;
        for member in batch.by_ref().take(MOST_MEMBERS) {
            if self.stage == Stage::Over {
                return;
            }
            match member {
                Ok(message) => self.server_sent(origin, message),
                Err(_) => bad += 1,
            }
        }
        let count = batch.next().is_none().then_some(bad);
        if count != Some(0) {
            self.note(Note::BadMembers { from: Blame::Server, count });
        }
    }

    fn server_sent(&mut self, origin: &Origin, message: Message) {
        let message = match message.valid() {
            Ok(message) => message,
            Err(message) => return self.invalid_answer(origin, &message),
        };
        if let Some(key) = origin.request.filter(|key| self.is_subscription(*key, &message)) {
            let steps = self.era.heard(self.now, key, &message, &mut self.route);
            return self.carry_out(steps);
        }
        match self.era.server_message(&message, origin.request, &self.route, self.config.quirks) {
            FromServer::Answer(key) => self.server_answered(key, origin, message),
            FromServer::Ask { aside } => self.server_asked(aside, message),
            FromServer::Park { aside } => self.server_asked_modern(aside, origin, &message),
            FromServer::Progress(key) => self.server_progressed(key, message),
            FromServer::Withdraw { question, tell } => self.server_withdrew(&question, message, tell),
            FromServer::Deliver => self.write_related(origin.request, message.bytes),
            FromServer::Distribute => {
                let steps = self.era.notified(origin.request, &message);
                self.carry_out(steps);
            }
            FromServer::Drop(note) => self.note(note),
            FromServer::Late { deliver } => {
                self.note(Note::LateAnswer);
                if deliver {
                    self.write_message(Destination::Nothing, message.bytes);
                }
            }
        }
    }

    fn server_asked_modern(&mut self, aside: bool, origin: &Origin, message: &Message) {
        let Kind::Request { id, .. } = &message.kind else { return };
        if self.back.held().untaken >= MOST_UNTAKEN {
            return self.note(Note::AskDropped);
        }
        if self.draining() && !aside {
            return self.refuse_ask(id, "the client has closed its side");
        }
        let steps = self.era.ask(self.now, origin.request, message, &mut self.route);
        self.carry_out(steps);
    }

    fn server_asked(&mut self, aside: bool, message: Message) {
        let Kind::Request { id, .. } = &message.kind else { return };
        if self.draining() {
            return self.refuse_ask(&id.clone(), "the client has closed its side");
        }
        match self.route.ask(id, aside) {
            Ok(()) => self.write_message(Destination::Question(&id.clone()), message.bytes),
            Err(Refusal::Duplicate) => self.note(Note::RepeatedAsk),
            Err(Refusal::Full) => self.refuse_ask(&id.clone(), "the client has too many open requests"),
            // A refusal would have to send the id back.
            Err(Refusal::LongId) => self.note(Note::AskDropped),
        }
    }

    /// The answer is not valid JSON-RPC: the waiting request fails.
    fn invalid_answer(&mut self, origin: &Origin, message: &Message) {
        self.note(Note::BadMessage(Fault::Shape));
        let named =
            if let Kind::Response { id: Some(id) } = &message.kind { self.route.by_wire(id) } else { origin.request };
        let Some(key) = named else { return };
        let Some(outgoing) = self.back.forget(self.now, key) else { return };
        if let Purpose::Discover(key) = outgoing.purpose {
            self.route.close(key);
            return self.discovered(&Discovered::Answer(message));
        }
        let beginning = message.bytes.get(..BEGINNING).unwrap_or(&message.bytes);
        let failure = outgoing.failure(Failure::no_error(beginning));
        self.failed(outgoing.purpose, &failure);
    }

    /// The purpose of an open request, if it is the client's.
    fn client_purpose(&self, key: RequestKey) -> Option<Purpose> {
        self.route.client_id(key)?;
        let opens = self.route.asked(key) == Some(Asked::Session);
        Some(if opens { Purpose::Initialize(key) } else { Purpose::Request { key, repeatable: false } })
    }

    fn server_progressed(&mut self, key: RequestKey, message: Message) {
        self.back.touch(self.now, Some(key));
        let Some(message) = self.era.progressed(key, message) else { return };
        let id = self.route.client_id(key).cloned();
        self.write_message(id.as_ref().map_or(Destination::Nothing, Destination::Request), message.bytes);
    }

    fn server_withdrew(&mut self, question: &Id, message: Message, tell: bool) {
        let Some(ask) = self.route.answer(question) else { return };
        if !ask.aside {
            self.back.touch(self.now, None);
        }
        if tell {
            self.write_message(Destination::Withdrawn(&ask.id), message.bytes);
        }
    }

    fn server_answered(&mut self, key: RequestKey, origin: &Origin, message: Message) {
        let session = origin.session.clone();
        let asked = self.route.asked(key);
        if self.era.translates(key) && (self.route.client_id(key).is_some() || self.era.is_parked(key)) {
            let steps = self.era.answered(self.now, key, message, &mut self.route);
            return self.carry_out(steps);
        }
        if self.route.client_id(key).is_some() {
            return self.answered(key, session, message);
        }
        self.route.close(key);
        self.back.forget(self.now, key);
        match asked {
            Some(Asked::NewSession) => self.reinitialized(session, &message),
            Some(Asked::Discovery) => self.discovered(&Discovered::Answer(&message)),
            Some(Asked::Tools) => {
                let result = Some(message.result()).filter(|result| !result.is_empty());
                let steps = self.era.looked_up(key, result, &mut self.route);
                self.carry_out(steps);
            }
            Some(Asked::Subscription) => {
                let steps = self.era.unsubscribed(self.now, key, !message.error().is_empty());
                self.carry_out(steps);
            }
            Some(Asked::Plain | Asked::Session | Asked::Upkeep) | None => {}
        }
    }

    fn answered(&mut self, key: RequestKey, session: Option<HeaderValue>, message: Message) {
        let opens = self.route.asked(key) == Some(Asked::Session);
        if opens && message.error().is_empty() {
            let version = self.era.legacy.opened(message.result(), session);
            self.client_session_opened(version.as_deref(), self.back.transport());
            self.note(Note::SessionOpened { transport: self.back.transport(), version });
        }
        let missed = opens && self.client_missed_its_session();
        let refused = opens && !message.error().is_empty();
        let conclusion = if message.error().is_empty() { Conclusion::Succeeded } else { Conclusion::Failed };
        let learned = self.concluded(key, conclusion);
        if learned || (opens && !refused) {
            self.tell_snapshot();
        }
        self.back.forget(self.now, key);
        if let Some(id) = self.close(key) {
            self.write_message(Destination::Answer(&id), message.with_id(&id));
        }
        if missed {
            return self.client_left("the client left before the session was open");
        }
        if refused {
            self.not_opened("the server refused initialize");
        }
    }

    fn reinitialized(&mut self, session: Option<HeaderValue>, message: &Message) {
        if !message.error().is_empty() {
            return self.not_reopened(Failure::new(Phase::Session, Delivered::No, "the server refused initialize"));
        }
        let first = !self.era.legacy.had_session();
        self.era.legacy.reopened(message.result(), session, &mut self.route);
        let steps = self.era.lent(self.now, message.result(), &mut self.route);
        self.carry_out(steps);
        if first {
            let version = message::text_member(message.result(), "protocolVersion");
            return self.note(Note::SessionOpened { transport: self.back.transport(), version });
        }
        self.note(Note::SessionRestored);
        self.announce_changes(message.result());
    }

    fn accepted(&mut self, purpose: Purpose) {
        if purpose == Purpose::Initialized {
            self.greeted();
        } else if purpose == Purpose::Goodbye {
            self.said_goodbye();
        }
    }

    fn greeted(&mut self) {
        if self.era.legacy.greeted() {
            self.back.rested(self.now);
            self.listen();
        }
    }

    /// An answer was over the limit.
    fn too_long(&mut self, answer: Option<Id>, failure: &Failure) {
        let named = answer.and_then(|id| self.route.by_wire(&id));
        let Some((key, purpose)) = named.and_then(|key| Some((key, self.client_purpose(key)?))) else {
            return self.note(Note::BadMessage(Fault::TooLong));
        };
        let known = self.back.forget(self.now, key);
        self.failed(purpose, &known.map_or(failure.clone(), |outgoing| outgoing.failure(failure.clone())));
    }

    /// Answers with the server's error if there is one, else with the proxy's.
    fn refused(&mut self, purpose: Purpose, failure: &Failure, error: Option<Message>) {
        let nameless = self.config.quirks.null_id;
        // The client learns of refused credentials from the status, whatever the body says.
        let error = error.filter(|_| failure.denial().is_none() || !self.challenges());
        let answers = |error: &Message| matches!(&error.kind, Kind::Response { id } if id.is_some() || nameless);
        let key = purpose.traits().key.filter(|key| self.route.client_id(*key).is_some());
        if let Purpose::Discover(key) = purpose {
            self.route.close(key);
            return self.discovered(&Discovered::Refused(failure, error.as_ref()));
        }
        let (Some(key), Some(error)) = (key, error.filter(answers)) else { return self.failed(purpose, failure) };
        if self.era.translates(key) {
            let steps = self.era.refused(self.now, key, error, &mut self.route);
            return self.carry_out(steps);
        }
        if let Some(id) = self.close(key) {
            self.write_message(Destination::Answer(&id), error.with_id(&id));
        }
        self.failed(purpose, failure);
    }

    fn expired(&mut self, purpose: Purpose, failure: &Failure) {
        let seen = failure.data.delivered != Delivered::No;
        if let Purpose::Discover(key) = purpose {
            self.route.close(key);
            return self.discovered(&Discovered::Expired);
        }
        if let Purpose::Request { key, .. } = purpose
            && seen
            && self.era.cancellation() != Cancellation::Close
            && let Some(id) = self.route.wire_id(key)
        {
            self.deliver(Legacy::cancel(id));
        }
        self.failed(purpose, failure);
    }

    fn body_over(&mut self, over: &BodyOver) {
        let purpose = over.outgoing.purpose;
        let waits = |key| self.route.asked(key).is_some() && self.era.awaits(key, over.outgoing.round);
        if purpose.traits().key.is_some_and(waits) {
            self.failed(purpose, &over.failure());
        }
    }

    pub(super) fn failed(&mut self, purpose: Purpose, failure: &Failure) {
        match purpose {
            Purpose::Request { key, .. } | Purpose::Watch(key) => self.answer_with(key, failure),
            Purpose::Discover(key) => {
                self.route.close(key);
                self.discovered(&Discovered::Failed(failure));
            }
            Purpose::Lookup(key) => {
                self.route.close(key);
                let steps = self.era.looked_up(key, None, &mut self.route);
                self.carry_out(steps);
            }
            Purpose::Subscribe(key) => {
                self.route.close(key);
                let status = failure.data.http_status;
                let refused = status.is_some_and(|status| matches!(status, 400..=499) && !matches!(status, 408 | 429));
                let steps = self.era.unsubscribed(self.now, key, refused);
                self.carry_out(steps);
            }
            Purpose::Initialize(key) => {
                self.answer_with(key, failure);
                self.not_opened(&failure.message);
            }
            Purpose::Reinitialize(key) => {
                self.route.close(key);
                self.not_reopened(failure.clone());
            }
            Purpose::Restore(key) | Purpose::KeepAlive(key) => drop(self.route.close(key)),
            Purpose::Initialized => {
                self.greeted();
                self.undelivered(failure);
            }
            Purpose::Notification | Purpose::Answer => self.undelivered(failure),
            Purpose::Goodbye => self.said_goodbye(),
            Purpose::Listen | Purpose::Stream => {}
        }
    }

    /// Answers with the proxy's error, unless the request has an answer already.
    fn answer_with(&mut self, key: RequestKey, failure: &Failure) {
        self.back.forget(self.now, key);
        self.concluded(key, Conclusion::Failed);
        if let Some(id) = self.close(key) {
            self.write_failure(&id, failure);
        }
    }

    fn undelivered(&mut self, failure: &Failure) {
        let status = failure.data.http_status.and_then(|status| StatusCode::from_u16(status).ok());
        self.note(Note::Undelivered { status });
    }

    fn session_gone(&mut self, outgoing: Outgoing, failure: &Failure) {
        if self.ends_with_the_server() {
            let failure = outgoing.failure(failure.clone());
            self.failed(outgoing.purpose, &failure);
            return self.client_left("the server ended the session");
        }
        // No session can be opened before the proxy knows the server's era.
        if let Purpose::Discover(_) = outgoing.purpose {
            return self.failed(outgoing.purpose, failure);
        }
        // Its session may have taken the request with it.
        if outgoing.purpose.traits().key.is_some_and(|key| self.route.asked(key).is_none()) {
            return;
        }
        match self.era.legacy.lost(self.now, outgoing, &mut self.route) {
            Recovery::Resend(outgoing) => self.send(outgoing),
            Recovery::Waits => {}
            Recovery::Reinitialize(outgoing) => {
                self.note(Note::SessionLost);
                self.questions_lost();
                self.send(outgoing);
            }
            Recovery::Impossible(outgoing) => {
                let failure = outgoing.failure(failure.clone());
                self.failed(outgoing.purpose, &failure);
            }
        }
    }

    /// What the server asked in a lost session needs no answer.
    fn questions_lost(&mut self) {
        self.drop_asks();
        let steps = self.era.session_lost();
        self.carry_out(steps);
    }

    fn session_ended(&mut self) {
        if self.ends_with_the_server() {
            return self.client_left("the server ended the session");
        }
        let wait = self.back.reopening();
        self.era.legacy.ended(self.now, wait);
        self.questions_lost();
    }

    /// Replaces the session, since an idle client without a listening stream receives
    /// nothing.
    fn listen_lost(&mut self, session: &SessionContext) {
        if self.era.legacy.is_current(session) {
            self.note(Note::SessionLost);
            self.session_ended();
        }
    }

    fn not_opened(&mut self, why: &str) {
        self.era.doubt(self.back.transport());
        let held = self.era.legacy.not_opened();
        let failure = Failure::new(Phase::Session, Delivered::No, format!("initialize failed: {why}"));
        self.fail_held(held, &failure);
        if self.one_session_only() {
            self.client_left("initialize failed");
        }
    }

    fn not_reopened(&mut self, cause: Failure) {
        self.note(Note::SessionNotRestored);
        let what = match self.era.legacy.had_session() {
            true => "the session was lost and no new one could be opened",
            false => "no session could be opened",
        };
        let wait = self.back.reopening();
        let held = self.era.legacy.not_reopened(self.now, wait);
        let mut failure = cause.undelivered();
        failure.message = format!("{what}: {}", failure.message);
        failure.data.phase = Phase::Session;
        self.era.doubt(self.back.transport());
        let steps = self.era.not_lent(&failure);
        self.carry_out(steps);
        self.fail_held(held, &failure);
    }

    /// Fails the held requests that exceed the total timeout.
    pub(super) fn fail_overdue(&mut self) {
        let Some(limit) = self.config.total_timeout else { return };
        let what = "the request was not answered within";
        let failure = Failure::late(Phase::Session, Delivered::No, what, limit, "--total-timeout");
        let overdue = self.era.overdue(self.now);
        self.fail_held(overdue, &failure);
    }

    fn fail_held(&mut self, held: Vec<Outgoing>, failure: &Failure) {
        for outgoing in held {
            let failure = outgoing.failure(failure.clone());
            self.failed(outgoing.purpose, &failure);
        }
    }
}
