//! The path from the server to the client: back ▶ era ▶ route ▶ front.

use super::{Proxy, Stage};
use crate::back::http::{BodyOver, Origin, Report};
use crate::boundary::{CallId, Output};
use crate::era::legacy::{Conclusion, Legacy, Recovery};
use crate::era::{self, FromServer};
use crate::failure::{Delivered, Failure, Phase};
use crate::front::http::Destination;
use crate::note::{Blame, Note};
use crate::outgoing::{Outgoing, Purpose, SessionContext};
use crate::route::{Asked, Refusal, RequestKey};
use crate::wire::batch::Batch;
use crate::wire::message::{Fault, Id, Kind, Message, Parsed};
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
            Report::Taken(purpose) => self.taken(purpose),
            Report::Failed(purpose, failure) => self.failed(purpose, &failure),
            Report::BodyOver(over) => self.body_over(&over),
            Report::Refused(purpose, failure, error) => self.refused(purpose, &failure, error),
            Report::Expired(purpose, failure) => self.expired(purpose, &failure),
            Report::SessionGone(outgoing, failure) => self.session_gone(outgoing, &failure),
            Report::SessionEnded => self.session_ended(),
            Report::ListenLost(session) => self.listen_lost(&session),
            Report::Idle => {
                let ping = self.era.ping(&mut self.route);
                self.deliver(ping);
            }
            Report::Note(note) => self.note(note),
        }
    }

    pub(super) fn server_bytes(&mut self, id: CallId, mut chunk: &[u8]) {
        while !chunk.is_empty() {
            self.back.chunk(self.now, id, &mut chunk);
            self.settle();
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
        match era::from_server(&message, origin.request, &self.route, self.config.quirks) {
            FromServer::Answer(key) => self.server_answered(key, origin, message),
            FromServer::Ask { aside } => self.server_asked(aside, message),
            FromServer::Progress(key) => self.server_progressed(key, message),
            FromServer::Withdraw(question) => self.server_withdrew(&question, message),
            FromServer::Deliver => self.write_message(Destination::Nothing, message.bytes),
            FromServer::Late { deliver } => {
                self.note(Note::LateAnswer);
                if deliver {
                    self.write_message(Destination::Nothing, message.bytes);
                }
            }
        }
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

    /// The answer is not valid JSON-RPC: the waiting request gets the proxy's error.
    fn invalid_answer(&mut self, origin: &Origin, message: &Message) {
        self.note(Note::BadMessage(Fault::Shape));
        let named =
            if let Kind::Response { id: Some(id) } = &message.kind { self.route.by_wire(id) } else { origin.request };
        let Some(purpose) = named.and_then(|key| self.client_purpose(key)) else { return };
        let beginning = message.bytes.get(..BEGINNING).unwrap_or(&message.bytes);
        let failure = Failure::body(StatusCode::OK, "its error is not one of JSON-RPC", beginning);
        self.failed(purpose, &failure);
    }

    /// The purpose of an open request, if it is the client's.
    fn client_purpose(&self, key: RequestKey) -> Option<Purpose> {
        self.route.client_id(key)?;
        let opens = self.route.asked(key) == Some(Asked::Session);
        Some(if opens { Purpose::Initialize(key) } else { Purpose::Request { key, repeatable: false } })
    }

    fn server_progressed(&mut self, key: RequestKey, message: Message) {
        self.back.touch(self.now, Some(key));
        let id = self.route.client_id(key).cloned();
        self.write_message(id.as_ref().map_or(Destination::Nothing, Destination::Request), message.bytes);
    }

    fn server_withdrew(&mut self, question: &Id, message: Message) {
        let Some(ask) = self.route.answer(question) else { return };
        if !ask.aside {
            self.back.touch(self.now, None);
        }
        self.write_message(Destination::Withdrawn(&ask.id), message.bytes);
    }

    fn server_answered(&mut self, key: RequestKey, origin: &Origin, message: Message) {
        let session = origin.session.clone();
        if self.route.client_id(key).is_some() {
            return self.answered(key, session, message);
        }
        let reopens = self.route.asked(key) == Some(Asked::NewSession);
        self.route.close(key);
        self.back.forget(key);
        if reopens {
            self.reinitialized(session, &message);
        }
    }

    fn answered(&mut self, key: RequestKey, session: Option<HeaderValue>, message: Message) {
        let opens = self.route.asked(key) == Some(Asked::Session);
        if opens && message.error().is_empty() {
            let version = self.era.opened(message.result(), session);
            self.client_session_opened(version.as_deref(), self.back.transport());
            self.note(Note::SessionOpened { transport: self.back.transport(), version });
        }
        let missed = opens && self.client_missed_its_session();
        let refused = opens && !message.error().is_empty();
        let conclusion = if message.error().is_empty() { Conclusion::Succeeded } else { Conclusion::Failed };
        let learned = self.era.concluded(key, conclusion);
        if learned || (opens && !refused) {
            self.tell_snapshot();
        }
        self.back.forget(key);
        if let Some(id) = self.close(key) {
            self.write_message(Destination::Answer(&id), message.with_id(&id));
        }
        if missed {
            return self.client_left("the client left before the session stood");
        }
        if refused {
            self.not_opened("the server refused initialize");
        }
    }

    fn reinitialized(&mut self, session: Option<HeaderValue>, message: &Message) {
        if !message.error().is_empty() {
            return self.not_reopened(Failure::new(Phase::Session, Delivered::No, "the server refused initialize"));
        }
        self.era.reopened(message.result(), session, &mut self.route);
        self.note(Note::SessionRestored);
        self.announce_changes(message.result());
    }

    fn taken(&mut self, purpose: Purpose) {
        if purpose == Purpose::Initialized {
            self.greeted();
        } else if purpose == Purpose::Goodbye {
            self.said_goodbye();
        }
    }

    fn greeted(&mut self) {
        if self.era.greeted() {
            self.listen();
        }
    }

    /// An answer was over the limit.
    fn too_long(&mut self, answer: Option<Id>, failure: &Failure) {
        let named = answer.and_then(|id| self.route.by_wire(&id));
        let Some((key, purpose)) = named.and_then(|key| Some((key, self.client_purpose(key)?))) else {
            return self.note(Note::BadMessage(Fault::TooLong));
        };
        let known = self.back.forget(key);
        self.failed(purpose, &known.map_or(failure.clone(), |outgoing| outgoing.failure(failure.clone())));
    }

    /// Answers with the server's error if there is one, else with the proxy's.
    fn refused(&mut self, purpose: Purpose, failure: &Failure, error: Option<Message>) {
        let nameless = self.config.quirks.null_id;
        let answers = |error: &Message| matches!(&error.kind, Kind::Response { id } if id.is_some() || nameless);
        let key = purpose.traits().key.filter(|key| self.route.client_id(*key).is_some());
        let (Some(key), Some(error)) = (key, error.filter(answers)) else { return self.failed(purpose, failure) };
        if let Some(id) = self.close(key) {
            self.write_message(Destination::Answer(&id), error.with_id(&id));
        }
        self.failed(purpose, failure);
    }

    fn expired(&mut self, purpose: Purpose, failure: &Failure) {
        let seen = failure.data.delivered != Delivered::No;
        if let Purpose::Request { key, .. } = purpose
            && seen
            && let Some(id) = self.route.wire_id(key)
        {
            self.deliver(Legacy::cancel(id));
        }
        self.failed(purpose, failure);
    }

    fn body_over(&mut self, over: &BodyOver) {
        let purpose = over.outgoing.purpose;
        if purpose.traits().key.is_some_and(|key| self.route.asked(key).is_some()) {
            self.failed(purpose, &over.failure());
        }
    }

    fn failed(&mut self, purpose: Purpose, failure: &Failure) {
        match purpose {
            Purpose::Request { key, .. } => self.answer_with(key, failure),
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
        self.back.forget(key);
        self.era.concluded(key, Conclusion::Failed);
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
        match self.era.lost(self.now, outgoing, &mut self.route) {
            Recovery::Resend(outgoing) => self.send(outgoing),
            Recovery::Waits => {}
            Recovery::Reinitialize(outgoing) => {
                self.note(Note::SessionLost);
                self.drop_asks();
                self.send(outgoing);
            }
            Recovery::Impossible(outgoing) => {
                let failure = outgoing.failure(failure.clone());
                self.failed(outgoing.purpose, &failure);
            }
        }
    }

    fn session_ended(&mut self) {
        if self.ends_with_the_server() {
            return self.client_left("the server ended the session");
        }
        let wait = self.back.reopening();
        self.era.ended(self.now, wait);
        self.drop_asks();
    }

    /// Replaces the session, since an idle client without a listening stream receives
    /// nothing.
    fn listen_lost(&mut self, session: &SessionContext) {
        if self.era.is_current(session) {
            self.note(Note::SessionLost);
            self.session_ended();
        }
    }

    fn not_opened(&mut self, why: &str) {
        let held = self.era.not_opened();
        let failure = Failure::new(Phase::Session, Delivered::No, format!("initialize failed: {why}"));
        self.fail_held(held, &failure);
        if self.one_session_only() {
            self.client_left("initialize failed");
        }
    }

    fn not_reopened(&mut self, cause: Failure) {
        self.note(Note::SessionNotRestored);
        let wait = self.back.reopening();
        let held = self.era.not_reopened(self.now, wait);
        let mut failure = cause.undelivered();
        failure.message = format!("the session was lost and no new one could be opened: {}", failure.message);
        failure.data.phase = Phase::Session;
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
