//! The path from the client to the server: front ▶ route ▶ era ▶ back.

use super::{Proxy, Stage};
use crate::boundary::{Output, Side};
use crate::era::{self, FromClient, legacy::Conclusion};
use crate::failure::{Delivered, Failure, INVALID_REQUEST, NO_ANSWER};
use crate::flow;
use crate::front::Front;
use crate::front::http::Destination;
use crate::front::lines::Read;
use crate::note::{Blame, Note};
use crate::outgoing::{Outgoing, Purpose};
use crate::route::{Asked, LONG_ID, Refusal, RequestKey};
use crate::wire::message::{self, Id, Kind, Message};
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
            self.settle();
        }
    }

    pub(super) fn client_eof(&mut self) {
        if self.stage != Stage::Running {
            return;
        }
        while let Front::Lines(front) = &mut self.front {
            let Some(read) = front.last() else { break };
            self.client_said(read);
            self.settle();
        }
        self.start_draining();
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
        match era::from_client(&message, &self.route) {
            FromClient::Request { asked, token, repeatable } => {
                self.client_requested(asked, token, repeatable, message)
            }
            FromClient::Cancel(key) => self.client_cancelled(key, message),
            FromClient::Answer(question) => self.client_answered(&question, message),
            FromClient::Send(purpose) => self.pass_on(purpose, message),
            FromClient::Drop(note) => self.note(note),
        }
    }

    fn client_requested(&mut self, asked: Asked, token: Option<Id>, repeatable: bool, message: Message) {
        let Kind::Request { id, .. } = &message.kind else { return };
        let fits = flow::may_keep(self.kept(), message.bytes.len(), self.config.max_message);
        let opened = if fits { self.route.open(id, token, asked) } else { Err(Refusal::Full) };
        match opened {
            Err(refusal) => self.write_failure(&id.clone(), &refused(refusal)),
            Ok(key) => {
                self.ledger.opened(id);
                let opens = asked == Asked::Session;
                let purpose = if opens { Purpose::Initialize(key) } else { Purpose::Request { key, repeatable } };
                self.era.requested(purpose, &message);
                self.pass_on(purpose, message);
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
        self.deliver(Outgoing::new(Purpose::Answer, message.with_id(&ask.id)));
    }

    /// The client cancelled a request. The server gets the notification unless it never
    /// saw the request. The proxy drops a late answer.
    fn client_cancelled(&mut self, key: RequestKey, message: Message) {
        self.era.concluded(key, Conclusion::Failed);
        if let Some(id) = self.close(key) {
            self.client_waits_no_longer(&id);
        }
        let known = self.era.withdraw(key).or_else(|| self.back.forget(key));
        if known.is_none_or(|outgoing| outgoing.delivered != Delivered::No) {
            self.pass_on(Purpose::Notification, message);
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
        self.write_message(Destination::Answer(id), answer);
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
