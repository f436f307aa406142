//! The requests of an HTTP client: it posts its messages, listens, returns for events that
//! it missed, sends requests that must be refused, and leaves. This module decides which
//! statuses are allowed, from the client's messages alone.

use crate::caller::{Fate, Reading};
use crate::client::{Claim, Line};
use crate::exchange::{Asked, Purpose};
use crate::story::Story;
use crate::weather::LONGEST;
use crate::world::{Happening, World};
use bytes::Bytes;
use http::{Method, Request};
use mcp_proxy_core::{ExchangeId, Input};
use serde_json::Value;

/// A valid body, for a request whose only fault is elsewhere.
const INNOCENT: &str = r#"{"jsonrpc":"2.0","id":"f","method":"tools/call","params":{}}"#;
const BOTH: &str = "application/json, text/event-stream";
const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";

type Headers = Vec<(&'static str, String)>;

impl World {
    /// Posts a line of the client.
    pub(crate) fn post(&mut self, line: Line) {
        let Some(caller) = &self.caller else { return };
        let ids: Vec<String> = line.claims.iter().filter_map(requested).cloned().collect();
        // A client does not reuse an id while it waits for the answer.
        let waits = |id: &String| self.stories.wanting(id).is_some_and(|(story, _)| !self.exchanges.carries(story));
        if ids.iter().any(|id| caller.orphans.contains(id) || waits(id)) {
            return;
        }
        let (purpose, allowed) = self.expected(&line.text, &ids);
        let mut headers = vec![("accept", BOTH.to_owned()), ("content-type", JSON.to_owned())];
        headers.extend(self.session_headers());
        self.visit(Method::POST, headers, line.text, Asked { purpose, claims: line.claims, allowed });
    }

    /// The purpose of a message and its allowed statuses, if its headers are valid.
    fn expected(&self, text: &str, ids: &[String]) -> (Purpose, Vec<u16>) {
        let value = serde_json::from_str::<Value>(text).unwrap_or_default();
        let (session, version) = self.caller.as_ref().map_or((None, ""), |one| (one.session.as_ref(), &one.version));
        let members = value.as_array().map_or(std::slice::from_ref(&value), Vec::as_slice);
        let message = |value: &Value| ["method", "result", "error"].iter().any(|name| value.get(name).is_some());
        let batch = value.is_array() && (version != "2025-03-26" || members.is_empty());
        let initializes = value.get("method").is_some_and(|method| method == "initialize");
        if text.len() > LONGEST {
            return (Purpose::Tell, vec![413]);
        }
        if batch || !members.iter().all(message) || (initializes && session.is_some()) {
            return (Purpose::Tell, vec![400]);
        }
        if initializes {
            return (Purpose::Initialize, vec![200]);
        }
        if ids.is_empty() {
            return (Purpose::Tell, vec![202]);
        }
        (Purpose::Ask(self.may_wait(&value)), self.expected_of_requests(ids))
    }

    fn expected_of_requests(&self, ids: &[String]) -> Vec<u16> {
        let most = self.caller.as_ref().map_or(0, |caller| caller.manners.keeps.open);
        if ids.iter().any(|id| self.model.open_ids().any(|open| open == id)) {
            vec![400]
        } else if self.surely_open() + ids.len() > most {
            vec![429]
        } else if self.model.most_open() + ids.len() > most {
            vec![200, 429]
        } else {
            vec![200]
        }
    }

    /// How many requests are certainly open. If nobody reads a story, the machine may have
    /// sent its end.
    pub(crate) fn surely_open(&self) -> usize {
        let surely = |id: &&String| self.stories.wanting(id).is_some_and(|(key, _)| self.exchanges.carries(key));
        self.model.open_ids().filter(surely).count()
    }

    /// Opens a stream for the server's unsolicited messages.
    pub(crate) fn listen(&mut self) {
        if self.left.is_some() || self.caller.as_ref().is_none_or(|caller| caller.session.is_none()) {
            return;
        }
        let mut headers = vec![("accept", EVENTS.to_owned())];
        headers.extend(self.session_headers());
        let asked = Asked { purpose: Purpose::Listen, claims: Vec::new(), allowed: vec![200] };
        self.visit(Method::GET, headers, String::new(), asked);
    }

    /// Opens another such stream, unless the client is about to return to one.
    pub(crate) fn listen_anew(&mut self) {
        let returns = self.caller.as_ref().is_some_and(|caller| caller.listener.is_some_and(|key| !caller.reads(key)));
        if !returns {
            self.listen();
        }
    }

    /// Returns for the rest of a story.
    pub(crate) fn come_back(&mut self, key: u64) {
        let (Some(caller), Some(story)) = (&mut self.caller, self.stories.stories.get_mut(&key)) else { return };
        let wanted = if story.listens { caller.listener == Some(key) } else { story.matters() };
        if self.left.is_some() || !wanted || caller.reads(key) {
            return;
        }
        // Sometimes it requests more than it has missed, unless that is an answer.
        let back = if caller.dice.chance(15) && !story.concluded { caller.dice.pick(&[1, 2, 5], 1) } else { 0 };
        let Some(last) = story.seen.iter().rev().nth(back).or(story.seen.last()).cloned() else {
            if story.listens {
                return self.listen();
            }
            for id in story.orphan() {
                self.model.orphaned(&id);
                caller.orphans.insert(id);
            }
            return;
        };
        caller.resumptions += 1;
        let wants = story.listens || !story.wants.is_empty();
        let Some((_, at)) = self.stories.place(&last) else { return };
        let mut headers = vec![("accept", EVENTS.to_owned()), ("last-event-id", last)];
        headers.extend(self.session_headers());
        // If nothing is left to send, the machine may tell the client not to return.
        let allowed = if wants { vec![200] } else { vec![200, 204] };
        let asked = Asked { purpose: Purpose::Resume(key, at), claims: Vec::new(), allowed };
        self.visit(Method::GET, headers, String::new(), asked);
    }

    /// Sends a request that the machine must refuse.
    pub(crate) fn go_wrong(&mut self) {
        let Some(caller) = &mut self.caller else { return };
        let (fault, method) = (caller.dice.between(0, 6), caller.dice.between(0, 2));
        let any = [Method::POST, Method::GET, Method::DELETE].into_iter().nth(usize::try_from(method).unwrap_or(0));
        let (any, known) = (any.unwrap_or_default(), caller.session.is_some());
        let (own, other) = (self.session_headers(), vec![("mcp-session-id", "another".to_owned())]);
        let (method, accept, kind, session, status) = match fault {
            0 | 1 => (any, BOTH, JSON, other, 404),
            2 => (any, BOTH, JSON, Vec::new(), 400),
            3 => (Method::POST, BOTH, "text/plain", own, 415),
            4 => (Method::POST, JSON, JSON, own, 406),
            5 => (Method::GET, JSON, JSON, own, if known { 406 } else { 400 }),
            _ => (Method::PUT, BOTH, JSON, own, 405),
        };
        let headers = [("accept", accept.to_owned()), ("content-type", kind.to_owned())].into_iter().chain(session);
        let asked = Asked { purpose: Purpose::Tell, claims: Vec::new(), allowed: vec![status] };
        self.visit(method, headers.collect(), INNOCENT.to_owned(), asked);
    }

    /// Ends the session.
    pub(crate) fn end_session(&mut self) {
        let headers = self.session_headers();
        let asked = Asked { purpose: Purpose::Leave, claims: Vec::new(), allowed: vec![204] };
        self.visit(Method::DELETE, headers, String::new(), asked);
    }

    fn session_headers(&mut self) -> Headers {
        let Some(caller) = &mut self.caller else { return Vec::new() };
        let says = caller.dice.chance(80);
        let version = Some(caller.version.clone()).filter(|version| says && !version.is_empty());
        let version = version.map(|version| ("mcp-protocol-version", version));
        caller.session.iter().map(|id| ("mcp-session-id", id.clone())).chain(version).collect()
    }

    /// Sends an HTTP request.
    fn visit(&mut self, method: Method, headers: Headers, body: String, mut asked: Asked) {
        let Some(caller) = &mut self.caller else { return };
        if self.left.is_some_and(|left| left < self.now) || !caller.manners.recovers {
            asked.allowed.push(404);
        }
        let mut request = Request::builder().method(method).uri("/mcp");
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let Ok(request) = request.body(()) else { return };
        self.quiet_since = self.now;
        let (purpose, initializes) = (asked.purpose, asked.purpose == Purpose::Initialize);
        if initializes {
            // The head of its response comes with the server's answer.
            asked.claims.iter().for_each(|claim| self.model.claimed(self.now, claim));
        }
        let id = self.exchanges.begin(self.now + self.slept, asked);
        match caller.connect(id, purpose) {
            Fate::Fine | Fate::Stalls => {}
            Fate::Lost(after, reading, report) => self.plan(after, Happening::Lose(id, reading, report)),
        }
        self.tell(Input::Request(id, request.into_parts().0, Bytes::from(body)));
        if self.exchanges.live.get(&id).is_some_and(|exchange| !exchange.headed() && !initializes) {
            self.wait(id);
        }
    }

    /// The client loses a connection.
    pub(crate) fn lose(&mut self, id: ExchangeId, reading: Reading, report: Option<u64>) {
        let Some(caller) = &mut self.caller else { return };
        let Some(connection) = caller.connections.get_mut(&id) else { return };
        // A client that cannot return does not wait for events that have left. It waits for
        // those that have not.
        let told = connection.story.and_then(|story| self.stories.stories.get(&story));
        let listens = |story: &Story| !story.listens || connection.story == caller.listener;
        let comes_back = told.is_some_and(|story| !story.seen.is_empty() && listens(story));
        connection.reading = if comes_back { reading } else { Reading::Dead };
        let (story, initializes) = (connection.story, connection.initializes);
        if let Some(wait) = report {
            self.plan(wait, Happening::Report(id));
        }
        self.missed(story, initializes);
    }

    /// The client must return for the events of a lost connection. A client that does not
    /// know its session gives up.
    pub(crate) fn missed(&mut self, story: Option<u64>, initializes: bool) {
        let Some(caller) = &mut self.caller else { return };
        let pause = caller.dice.between(0, 3000);
        if initializes && caller.session.is_none() {
            self.plan(pause * 10, Happening::Gone);
        }
        if let Some(story) = story {
            self.plan(pause, Happening::Return(story));
        }
    }

    /// The machine learns that a client is gone.
    pub(crate) fn report(&mut self, id: ExchangeId) {
        if let Some(exchange) = self.exchanges.live.remove(&id) {
            if exchange.asked.purpose == Purpose::Initialize {
                exchange.asked.claims.iter().filter_map(requested).for_each(|id| self.model.orphaned(id));
            }
            self.caller.as_mut().map(|caller| caller.connections.remove(&id));
            self.tell(Input::Gone(id));
        }
    }
}

/// The id of a request.
pub(crate) fn requested(claim: &Claim) -> Option<&String> {
    match claim {
        Claim::Request { id, .. } => Some(id),
        Claim::Broken { .. }
        | Claim::Cancel { .. }
        | Claim::Answer { .. }
        | Claim::Again { .. }
        | Claim::Listen { .. } => None,
    }
}
