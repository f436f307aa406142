//! Carries out the era's steps, for a modern client or a modern server: sends, answers, asks
//! the client, withdraws a question. Choosing the steps does not belong here.

use super::Proxy;
use crate::config::Transport;
use crate::era::legacy::Conclusion;
use crate::era::{Detected, Discovered, Reply, Step};
use crate::failure::Failure;
use crate::front::http::Destination;
use crate::note::Note;
use crate::outgoing::{Outgoing, Purpose};
use crate::route::{Asked, RequestKey};
use crate::wire::message::{self, Id, Kind, Message};

impl Proxy {
    pub(super) fn carry_out(&mut self, steps: Vec<Step>) {
        for step in steps {
            match step {
                Step::Send(outgoing) => self.send(outgoing),
                Step::Opened(key, reply) => self.opened_without_session(key, reply),
                Step::Answer(key, reply) => self.reply(key, reply),
                Step::Release(key) => drop(self.back.forget(self.now, key)),
                Step::Park(key, result) => self.park(key, &result),
                Step::Adopt { parked, retry } => {
                    self.route.adopt(parked, retry);
                    // The client took its time; now the server's counts.
                    self.back.touch(self.now, Some(parked));
                }
                Step::Discard(key) => {
                    self.back.forget(self.now, key);
                    self.concluded(key, Conclusion::Failed);
                    self.route.close(key);
                }
                Step::Close(key) => {
                    self.route.close(key);
                    self.back.abort(self.now, key);
                }
                Step::Ask(id, message) => self.ask(&id, message),
                Step::Withdraw(id) => self.withdraw(&id),
                Step::Notify(key, message) => self.write_related(key, message),
                Step::Note(note) => self.note(note),
            }
        }
    }

    /// Answers a request of the client, unless it has an answer already.
    fn reply(&mut self, key: RequestKey, reply: Reply) {
        let succeeded = match &reply {
            Reply::Result(_) => true,
            Reply::Message(message) => message.error().is_empty(),
            Reply::Error(_) | Reply::Failure(_) => false,
        };
        self.back.forget(self.now, key);
        if self.concluded(key, if succeeded { Conclusion::Succeeded } else { Conclusion::Failed }) {
            self.tell_snapshot();
        }
        let Some(id) = self.close(key) else { return };
        let answer = match reply {
            Reply::Result(result) => message::write_result(&id, &result),
            Reply::Error(error) => message::write_raw_error(&id, &error),
            Reply::Message(message) => message.with_id(&id),
            Reply::Failure(failure) => return self.write_failure(&id, &failure),
        };
        self.write_message(Destination::Answer(&id), answer);
    }

    /// Answers the client, and keeps the server's side of the request open.
    fn park(&mut self, key: RequestKey, result: &str) {
        let Some(id) = self.route.detach(key) else { return };
        self.ledger.closed(&id);
        self.write_message(Destination::Answer(&id), message::write_result(&id, result));
    }

    /// Answers the client's `initialize`, since the server wants none.
    fn opened_without_session(&mut self, key: RequestKey, reply: Reply) {
        if let Reply::Result(_) = &reply {
            let version = self.era.version();
            self.era.legacy.opened_without_session(version.clone());
            self.client_session_opened(version.as_deref(), Transport::StreamableHttp);
            self.tell_snapshot();
        }
        let missed = self.client_missed_its_session();
        self.reply(key, reply);
        if missed {
            self.client_left("the client left before the session was open");
        }
    }

    /// A request of the client is over, in whatever way. Returns whether the snapshot has
    /// changed.
    pub(super) fn concluded(&mut self, key: RequestKey, conclusion: Conclusion) -> bool {
        for id in self.era.forget(key) {
            self.withdraw(&id);
        }
        if self.era.listens() > 0 && !self.draining() {
            let steps = self.era.unsubscribe(self.now, key, &mut self.route);
            self.carry_out(steps);
        }
        for id in self.era.unasked(key) {
            self.route.answer(&id);
        }
        self.era.concluded(key, conclusion)
    }

    /// Asks the client on behalf of a modern server.
    fn ask(&mut self, id: &Id, message: Vec<u8>) {
        if self.draining() {
            return self.refuse_ask(id, "your client has closed its side");
        }
        match self.route.ask(id, false) {
            Ok(()) => self.write_message(Destination::Question(id), message),
            Err(_) => self.refuse_ask(id, "your client has too many open requests"),
        }
    }

    /// Tells the client that it need not answer.
    fn withdraw(&mut self, id: &Id) {
        if self.route.answer(id).is_some() {
            let params = format!("{{\"requestId\":{}}}", id.text());
            let message = format!("{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{params}}}");
            self.write_message(Destination::Withdrawn(id), message.into_bytes());
        }
    }

    /// Whether a message is a notification on the proxy's own `subscriptions/listen`.
    pub(super) fn is_subscription(&self, key: RequestKey, message: &Message) -> bool {
        let notifies = matches!(message.kind, Kind::Notification { .. });
        notifies && self.route.asked(key) == Some(Asked::Subscription)
    }

    /// The proxy's `server/discover` ended.
    pub(super) fn discovered(&mut self, discovered: &Discovered<'_>) {
        match self.era.discovered(self.now, discovered, &mut self.route) {
            Detected::Modern(steps) => {
                self.back.found_streamable();
                let version = Some(crate::era::MODERN.to_owned());
                self.note(Note::SessionOpened { transport: Transport::StreamableHttp, version });
                self.carry_out(steps);
            }
            Detected::Legacy(steps) => self.carry_out(steps),
            Detected::Again(outgoing) => self.send(outgoing),
            Detected::Failed(failure) => self.undetected(&failure),
        }
    }

    /// The messages that waited for the server's era fail.
    fn undetected(&mut self, failure: &Failure) {
        let mut held = self.era.undetected();
        held.sort_by_key(|outgoing| matches!(outgoing.purpose, Purpose::Initialize(_)));
        for outgoing in held {
            // The probe was sent in place of the handshake, and of nothing else.
            let probed = if outgoing.purpose.traits().handshake { failure.data.attempt } else { 0 };
            let outgoing = Outgoing { attempts: outgoing.attempts + probed, ..outgoing };
            let failure = outgoing.failure(failure.clone().undelivered());
            self.failed(outgoing.purpose, &failure);
        }
    }
}
