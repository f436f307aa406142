//! The path from the client to the server: front ▶ route ▶ era ▶ back. Every request either
//! gets a `RequestKey` here or a refusal. Protocol decisions belong to the modules.

use super::{Proxy, Stage};
use crate::boundary::{Output, Side};
use crate::era::{self, Cancellation, Era, FromClient, legacy::Conclusion};
use crate::failure::{Delivered, Failure, INVALID_REQUEST, NO_ANSWER};
use crate::flow;
use crate::front::Front;
use crate::front::http::Destination;
use crate::front::lines::Read;
use crate::note::{Blame, Note};
use crate::outgoing::{Outgoing, Purpose};
use crate::route::{Asked, LONG_ID, Refusal, RequestKey};
use crate::wire::message::{self, Id, Kind, Message, Parsed};
use bytes::Bytes;

/// With this many notifications and answers that the server has not accepted, the proxy
/// stops reading from the client: each may hold a connection.
pub(super) const MOST_UNTAKEN: usize = 1000;

impl Proxy {
    pub(super) fn client_bytes(&mut self, mut bytes: &[u8]) {
        if self.stage != Stage::Running {
            return;
        }
        while let Front::Lines(front) = &mut self.front {
            let Some(read) = front.next(&mut bytes) else { return };
            self.client_said(read);
            self.advance();
        }
    }

    pub(super) fn client_eof(&mut self) {
        if self.stage != Stage::Running {
            return;
        }
        while let Front::Lines(front) = &mut self.front {
            let Some(read) = front.last() else { break };
            self.client_said(read);
            self.advance();
        }
        self.start_draining();
        let steps = self.era.abandoned(self.now, &mut self.route);
        self.carry_out(steps);
        for id in self.drop_asks() {
            self.refuse_ask(&id, "the client has closed its side");
        }
    }

    fn client_said(&mut self, read: Read) {
        match read {
            Read::Message(message) => self.client_sent(message),
            Read::Refused(id, failure) => self.write_failure(&id, &failure),
            Read::Refusals(lines) => self.write_lines(Bytes::from(lines)),
            Read::Noise(fault) => self.note(Note::BadLine(fault)),
            Read::BadMembers(count) => self.note(Note::BadMembers { from: Blame::Client, count: Some(count) }),
        }
    }

    pub(super) fn client_sent(&mut self, message: Message) {
        match self.era.client_message(&message, &self.route) {
            FromClient::Request { asked, token, repeatable, modern } => {
                self.client_requested(asked, token, repeatable, modern, message);
            }
            FromClient::Cancel(key) => self.client_cancelled(key, message),
            FromClient::Answer(question) => self.client_answered(&question, message),
            FromClient::Send(purpose) => self.pass_on(purpose, message),
            FromClient::Drop(note) => note.into_iter().for_each(|note| self.note(note)),
        }
    }

    fn client_requested(&mut self, asked: Asked, token: Option<Id>, repeatable: bool, modern: bool, message: Message) {
        let Kind::Request { id, method } = &message.kind else { return };
        let fits = flow::may_keep(self.kept(), message.bytes.len(), self.config.max_message);
        let opened = if fits { self.route.open(id, token, asked) } else { Err(Refusal::Full) };
        match opened {
            Err(refusal) => self.write_failure(&id.clone(), &refused(refusal)),
            Ok(key) => {
                self.ledger.opened(id);
                let purpose = match asked {
                    Asked::Session => Purpose::Initialize(key),
                    Asked::Plain if modern && era::lasts(method) => Purpose::Watch(key),
                    Asked::Plain
                    | Asked::NewSession
                    | Asked::Upkeep
                    | Asked::Discovery
                    | Asked::Tools
                    | Asked::Subscription => Purpose::Request { key, repeatable },
                };
                let steps = self.era.requested(purpose, &message);
                self.carry_out(steps);
                let outgoing = Outgoing::new(purpose, message.bytes);
                self.deliver(Outgoing { since: Some(self.now), modern, ..outgoing });
            }
        }
    }

    fn pass_on(&mut self, purpose: Purpose, message: Message) {
        self.deliver(Outgoing { since: Some(self.now), ..Outgoing::new(purpose, message.bytes) });
    }

    fn client_answered(&mut self, question: &Id, message: Message) {
        let Some(ask) = self.route.answer(question) else { return };
        if !ask.aside {
            self.back.touch(self.now, None);
        }
        self.question_over(&ask.id);
        if self.era.is_question(&ask.id) {
            let steps = self.era.replied(&ask.id, &message, &mut self.route);
            return self.carry_out(steps);
        }
        self.deliver(Outgoing::new(Purpose::Answer, message.with_id(&ask.id)));
    }

    /// The client cancelled a request. The server gets the notification unless it never
    /// saw the request. The proxy drops a late answer.
    fn client_cancelled(&mut self, key: RequestKey, message: Message) {
        self.concluded(key, Conclusion::Failed);
        let wire = self.route.wire_id(key).cloned();
        if let Some(id) = self.close(key) {
            self.client_waits_no_longer(&id);
        }
        let held = self.era.legacy.withdraw(key);
        let seen = |outgoing: Outgoing| outgoing.delivered != Delivered::No;
        match self.era.cancellation() {
            Cancellation::Close => drop(held.or_else(|| self.back.abort(self.now, key))),
            Cancellation::Relay => {
                if held.or_else(|| self.back.forget(self.now, key)).is_none_or(seen) {
                    self.pass_on(Purpose::Notification, message);
                }
            }
            Cancellation::Notify => {
                let seen = held.or_else(|| self.back.forget(self.now, key)).is_some_and(seen);
                if let Some(wire) = wire.filter(|_| seen) {
                    self.deliver(Outgoing::new(Purpose::Notification, Era::cancelled(&wire)));
                }
            }
        }
    }

    /// The client closed the response to a request, which cancels it.
    pub(super) fn client_abandoned(&mut self, id: &Id) {
        let Some(key) = self.route.by_client(id) else { return };
        if let Ok(Parsed::One(message)) = message::parse(Era::cancelled(id)) {
            self.client_cancelled(key, message);
        }
    }

    /// The client will not answer these questions, so the server's silence counts again.
    pub(super) fn drop_asks(&mut self) -> Vec<Id> {
        if self.route.client_owes() {
            self.back.touch(self.now, None);
        }
        self.questions_over();
        self.route.drop_asks()
    }

    /// Refuses a question that the proxy cannot ask the client. A server that keeps
    /// asking without accepting answers gets no refusal.
    pub(super) fn refuse_ask(&mut self, id: &Id, why: &str) {
        if self.era.is_question(id) {
            let steps = self.era.unanswerable(id, why);
            return self.carry_out(steps);
        }
        if self.back.held().untaken >= MOST_UNTAKEN {
            return self.note(Note::AskDropped);
        }
        let body = message::write_error::<()>(id, NO_ANSWER, why, None);
        self.deliver(Outgoing::new(Purpose::Answer, body));
    }

    pub(super) fn write_failure(&mut self, id: &Id, failure: &Failure) {
        let answer = match self.front {
            Front::Lines(_) => failure.answer_with_hint(id),
            Front::Http(_) => failure.answer(id),
        };
        let denial = failure.denial().filter(|_| self.challenges());
        let destination = denial.map_or(Destination::Answer(id), |denial| Destination::Denied(id, denial));
        self.write_message(destination, answer);
    }

    /// Whether the client gets the server's refusal of its credentials as such.
    pub(super) fn challenges(&self) -> bool {
        matches!(&self.front, Front::Http(front) if front.challenges())
    }

    /// The server has admitted a request: it did not refuse the credentials.
    pub(super) fn admitted(&mut self, key: RequestKey) {
        if let (Front::Http(front), Some(id)) = (&mut self.front, self.route.client_id(key)) {
            front.admitted(id);
        }
    }

    /// The shell waits for a person: the server is not to blame for its silence, and a
    /// client that asked for progress learns the reason.
    pub(super) fn shell_waits(&mut self, why: &str) {
        self.back.touch(self.now, None);
        if why.is_empty() {
            return;
        }
        for (id, token) in self.route.reporting() {
            self.write_message(Destination::Request(&id), message::write_waiting(&token, why));
        }
    }

    pub(super) fn write_message(&mut self, destination: Destination<'_>, message: Vec<u8>) {
        match &mut self.front {
            Front::Lines(front) => {
                let line = front.line(message);
                self.write_lines(line);
            }
            Front::Http(front) => {
                front.write(self.now, destination, message);
                self.drain_front();
            }
        }
    }

    /// Writes a notification that the server sent in its response to a request, if any.
    pub(super) fn write_related(&mut self, key: Option<RequestKey>, message: Vec<u8>) {
        let id = key.and_then(|key| self.route.client_id(key)).cloned();
        self.write_message(id.as_ref().map_or(Destination::Nothing, Destination::Related), message);
    }

    fn write_lines(&mut self, lines: Bytes) {
        self.to_client.wrote(lines.len());
        self.ledger.wrote(lines.len());
        self.queue.push_back(Output::Write(Side::Client, lines));
    }
}

fn refused(refusal: Refusal) -> Failure {
    match refusal {
        Refusal::Duplicate => Failure::refused(INVALID_REQUEST, "a request with this id is still open"),
        Refusal::Full => Failure::refused(INVALID_REQUEST, "too many requests are open, or too big ones"),
        Refusal::LongId => Failure::refused(INVALID_REQUEST, LONG_ID),
    }
}
