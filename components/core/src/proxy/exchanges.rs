//! The exchanges of HTTP clients: of one legacy session, or of any number of modern clients.
//! Passes facts about them to the front, and its events on. What a response contains does
//! not belong here.

use super::stage::GOODBYE;
use super::{Proxy, Stage};
use crate::boundary::{ExchangeId, Exit};
use crate::config::{ClientTransport, Transport};
use crate::flow;
use crate::front::Front;
use crate::front::http::{ClientEvent, Destination, HttpFront};
use crate::wire::message::Id;
use bytes::Bytes;
use http::request::Parts;

/// With this many calls under way, the proxy refuses new requests.
const MOST_CALLS: usize = 2048;

impl Proxy {
    pub(super) fn client_asked(&mut self, id: ExchangeId, parts: &Parts, body: Bytes) {
        let now = self.now;
        let room = flow::may_take(self.kept(), body.len(), self.config.max_message) && self.under_way() < MOST_CALLS;
        let Some(front) = self.http() else { return };
        let heard = if room { front.request(now, id, parts, body) } else { front.refuse_full(now, id) };
        self.drain_front();
        for heard in heard {
            match heard {
                ClientEvent::Message(message) => self.client_sent(message),
                ClientEvent::Listens => self.client_listens(),
                ClientEvent::Leaves => self.client_left("the client ended the session"),
            }
            self.advance();
        }
    }

    pub(super) fn client_gone(&mut self, id: ExchangeId) {
        let now = self.now;
        self.exchange_over(|front| front.gone(now, id));
    }

    pub(super) fn client_took(&mut self, id: ExchangeId, count: usize) {
        let now = self.now;
        self.exchange_over(|front| front.flushed(now, id, count));
    }

    fn exchange_over(&mut self, change: impl FnOnce(&mut HttpFront)) {
        let Some(front) = self.http() else { return };
        change(front);
        self.drain_front();
    }

    pub(super) fn client_tick(&mut self) {
        let now = self.now;
        if let Some(front) = self.http() {
            front.tick(now);
            self.drain_front();
        }
    }

    /// A client that only listens needs a session too.
    fn client_listens(&mut self) {
        self.reopen();
    }

    /// Ends the session, first for the client and then for the server.
    pub(super) fn client_left(&mut self, why: &str) {
        // Deliver finished results before failing the other requests.
        while let Some(report) = self.back.report(self.now) {
            self.reported(report);
        }
        if self.stage != Stage::Running {
            return;
        }
        self.answer_the_rest(why);
        self.end_exchanges();
        self.leave(GOODBYE, Exit::Drained);
    }

    pub(super) fn client_waits_no_longer(&mut self, id: &Id) {
        let now = self.now;
        if let Some(front) = self.http() {
            front.cancelled(now, id);
            self.drain_front();
        }
    }

    /// The session that the client asked for is open.
    pub(super) fn client_session_opened(&mut self, version: Option<&str>, transport: Transport) {
        if let Some(front) = self.http() {
            front.opened(version.map(str::to_owned), transport);
            self.drain_front();
        }
    }

    /// The client left before its session was open, and will not return.
    pub(super) fn client_missed_its_session(&self) -> bool {
        matches!(&self.front, Front::Http(front) if front.is_unknown())
    }

    /// The new session may have different lists.
    pub(super) fn announce_changes(&mut self, initialized: &str) {
        if self.http().is_none() {
            return;
        }
        for change in self.era.list_changes(initialized) {
            self.write_message(Destination::Nothing, change);
        }
    }

    /// Whether the client's session ends when the server loses its own.
    pub(super) fn ends_with_the_server(&self) -> bool {
        matches!(&self.config.client, ClientTransport::Http(client) if !client.recovers)
    }

    /// Whether the client must start a new session after a failed `initialize`.
    pub(super) fn one_session_only(&self) -> bool {
        matches!(self.front, Front::Http(_))
    }

    /// Refuses a waiting `initialize`. Returns `true` if the client speaks HTTP.
    pub(super) fn dismissed(&mut self) -> bool {
        let now = self.now;
        self.http().map(|front| front.dismiss(now)).is_some()
    }

    /// Ends all responses to the client.
    pub(super) fn end_exchanges(&mut self) {
        let now = self.now;
        if let Some(front) = self.http() {
            front.end(now);
            self.drain_front();
        }
    }

    /// Collects the outputs of the front.
    pub(super) fn drain_front(&mut self) {
        let Front::Http(front) = &mut self.front else { return };
        if self.stage == Stage::Over {
            return;
        }
        self.queue.extend(std::iter::from_fn(|| front.output()));
        let (unread, refused, abandoned) = (front.unread(), front.questions().refused(), front.abandoned());
        self.flushed(|to_client| to_client.set(unread));
        for id in refused {
            let Some(ask) = self.route.answer(&id) else { continue };
            if !ask.aside {
                self.back.touch(self.now, None);
            }
            self.question_over(&id);
            self.refuse_ask(&ask.id, "the client has no stream open");
        }
        for id in abandoned {
            self.client_abandoned(&id);
        }
    }

    /// A question from the server no longer needs an answer.
    pub(super) fn question_over(&mut self, id: &Id) {
        if let Some(front) = self.http() {
            front.questions().over(id);
        }
    }

    /// The server no longer needs an answer to any question.
    pub(super) fn questions_over(&mut self) {
        if let Some(front) = self.http() {
            front.questions().all_over();
        }
    }

    fn http(&mut self) -> Option<&mut HttpFront> {
        match &mut self.front {
            Front::Http(front) => Some(front),
            Front::Lines(_) => None,
        }
    }
}
