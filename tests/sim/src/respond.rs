//! The machine's responses to an HTTP client: this module compares them with the requests,
//! passes their messages to the model, and sends them to the client, which reads them at its
//! own pace. The requests are in `visit`.

use crate::caller::{Connection, Heard, Reading, Sent};
use crate::client::Claim;
use crate::event::{Event, events};
use crate::exchange::{Form, Purpose};
use crate::story::{Told, answered};
use crate::visit::requested;
use crate::world::{Happening, World};
use http::response::Parts;
use mcp_proxy_core::{ExchangeId, Input, Sink};
use serde_json::Value;

impl World {
    pub(crate) fn responded(&mut self, id: ExchangeId, parts: &Parts) {
        let exchange = match self.exchanges.responded(id, parts) {
            Ok(exchange) => exchange,
            Err(wrong) => return self.model.reproach(wrong),
        };
        match exchange.granted() {
            true if exchange.story.is_some() => {}
            true => self.grant(id),
            false => exchange.asked.claims.clear(),
        }
        if let Some(connection) = self.caller.as_mut().and_then(|caller| caller.connections.get_mut(&id)) {
            let named = parts.headers.get("mcp-session-id").and_then(|name| name.to_str().ok());
            connection.session = named.map(str::to_owned);
        }
    }

    /// The machine granted a request: the model gets its claims, and its story begins.
    pub(crate) fn grant(&mut self, id: ExchangeId) {
        let Some(exchange) = self.exchanges.live.get_mut(&id) else { return };
        let claims = std::mem::take(&mut exchange.asked.claims);
        let ids: Vec<String> = claims.iter().filter_map(requested).cloned().collect();
        let purpose = exchange.asked.purpose;
        match purpose {
            Purpose::Ask(_) => self.stories.open(id.0, self.machine, &ids, false),
            Purpose::Listen => self.stories.open(id.0, self.machine, &[], true),
            Purpose::Initialize | Purpose::Tell | Purpose::Resume(..) | Purpose::Leave => {}
        }
        (exchange.story, exchange.at) = match purpose {
            Purpose::Ask(_) | Purpose::Listen => (Some(id.0), 0),
            Purpose::Resume(story, at) if exchange.form() == Form::Events => (Some(story), at),
            Purpose::Initialize | Purpose::Tell | Purpose::Resume(..) | Purpose::Leave => (None, 0),
        };
        let story = exchange.story;
        if purpose != Purpose::Initialize {
            claims.iter().for_each(|claim| self.granted(claim));
        }
        let Some(caller) = &mut self.caller else { return };
        if purpose == Purpose::Listen {
            caller.listener = story;
        }
        if let Some(connection) = caller.connections.get_mut(&id) {
            connection.story = story;
        }
    }

    fn granted(&mut self, claim: &Claim) {
        self.model.claimed(self.now, claim);
        if let Claim::Cancel { id } = claim {
            self.stories.cancel(id);
        }
    }

    pub(crate) fn sent(&mut self, id: ExchangeId, bytes: &[u8]) {
        let form = match self.exchanges.sent(self.now + self.slept, id, bytes.len()) {
            Ok(exchange) => exchange.form(),
            Err(wrong) => return self.model.reproach(wrong),
        };
        let heard = match form {
            Form::Nothing => Vec::new(),
            Form::Body => self.body(id, bytes),
            Form::Answer => self.answer(id, bytes),
            Form::Events => self.events(id, bytes),
        };
        let Some(caller) = &mut self.caller else { return };
        let pace = caller.pace();
        if let Some(connection) = caller.connections.get_mut(&id) {
            connection.pipe.push_back(Sent { bytes: bytes.len(), heard });
            self.plan(pace, Happening::Taken(id));
        }
    }

    /// Reads a body that is one message: the answer to `initialize`, or a refusal.
    fn body(&mut self, id: ExchangeId, bytes: &[u8]) -> Vec<Heard> {
        let text = String::from_utf8_lossy(bytes).into_owned();
        let Some(exchange) = self.exchanges.live.get_mut(&id) else { return Vec::new() };
        exchange.at += 1;
        let (granted, once) = (exchange.granted(), exchange.at == 1);
        let value = serde_json::from_str::<Value>(&text).unwrap_or_default();
        let named = self.caller.as_ref().and_then(|caller| caller.connections.get(&id)?.session.as_ref()).is_some();
        let refused = value.pointer("/error/message").is_some_and(Value::is_string);
        let nobody = value.get("id").is_some_and(Value::is_null);
        if !once || nobody || (granted && named != value.get("result").is_some()) || (!granted && !refused) {
            self.model.reproach(format!("the body of exchange {}: {text}", id.0));
        }
        if granted {
            self.model.message(Some(self.now), &text, &self.server.ledger);
        }
        vec![Heard { id: None, value: if granted { value } else { Value::Null } }]
    }

    fn events(&mut self, id: ExchangeId, bytes: &[u8]) -> Vec<Heard> {
        let Some(events) = events(bytes) else {
            let text = String::from_utf8_lossy(bytes).into_owned();
            self.model.reproach(format!("not whole events: {text}"));
            return Vec::new();
        };
        events.into_iter().filter_map(|event| self.event(id, event)).collect()
    }

    pub(crate) fn event(&mut self, id: ExchangeId, event: Event) -> Option<Heard> {
        let heard = |event: &Event| {
            let value = serde_json::from_str(event.data.as_deref()?).unwrap_or_default();
            Some(Heard { id: event.id.clone(), value })
        };
        let heard = heard(&event);
        let whole = self.remembers_all(id);
        let exchange = self.exchanges.live.get_mut(&id)?;
        let late = matches!(exchange.asked.purpose, Purpose::Resume(..)) && exchange.began == self.now + self.slept;
        let might_be_all = exchange.hurries(self.now + self.slept) && exchange.at == 0;
        if might_be_all && heard.as_ref().is_some_and(|heard| answered(&heard.value).is_some()) {
            self.model.reproach(format!("exchange {} might have been nothing but the answer", id.0));
        }
        match self.stories.tell(exchange, event, whole) {
            Ok(Told::New(text)) => {
                self.model.message((!late).then_some(self.now), &text, &self.server.ledger);
            }
            Ok(Told::Lost(request)) => self.model.orphaned(&request),
            Ok(Told::Nothing | Told::TooLate | Told::Again) => {}
            Err(wrong) => self.model.reproach(format!("exchange {}: {wrong}", id.0)),
        }
        heard
    }

    /// Whether the machine must still have every event of an exchange's story.
    fn remembers_all(&self, id: ExchangeId) -> bool {
        let story = self.exchanges.live.get(&id).and_then(|exchange| self.stories.stories.get(&exchange.story?));
        let Some(caller) = &self.caller else { return false };
        let events = self.server.ledger.told() + 2 * self.model.asked;
        let bytes = 2 * self.read_bytes + 300 * events;
        let fits = |most: usize, count: u64| u64::try_from(most).is_ok_and(|most| count < most);
        story.is_some_and(|story| story.machine == self.machine)
            && fits(caller.manners.keeps.events, events)
            && fits(caller.manners.keeps.bytes, bytes)
    }

    pub(crate) fn finished(&mut self, id: ExchangeId) {
        let replaced = self.exchanges.replacing();
        let story = match self.exchanges.finished(id) {
            Ok(story) => story.and_then(|story| self.stories.stories.get(&story)),
            Err(wrong) => return self.model.reproach(wrong),
        };
        let early = story.is_some_and(|story| if story.listens { !replaced } else { story.unfinished() });
        if early && !self.ending() {
            self.model.reproach(format!("exchange {} ends too early", id.0));
        }
        if let Some(connection) = self.caller.as_mut().and_then(|caller| caller.connections.get_mut(&id)) {
            connection.finished = true;
        }
        self.close_read(id);
    }

    /// Whether the session may be over.
    pub(crate) fn ending(&self) -> bool {
        self.left.is_some() || self.caller.as_ref().is_some_and(|caller| !caller.manners.recovers)
    }

    pub(crate) fn aborted(&mut self, id: ExchangeId) {
        if let Err(wrong) = self.exchanges.aborted(self.now + self.slept, id) {
            self.model.reproach(wrong);
        }
        let connection = self.caller.as_mut().and_then(|caller| caller.connections.remove(&id));
        if let Some(Connection { story, initializes, reading: Reading::Reads | Reading::Stalls, .. }) = connection {
            self.missed(story, initializes);
        }
    }

    // ----- the client reads --------------------------------------------------------

    /// A piece leaves for the client.
    pub(crate) fn taken(&mut self, id: ExchangeId) {
        let Some(caller) = &mut self.caller else { return };
        let Some(sent) = caller.connections.get_mut(&id).and_then(Connection::take) else { return };
        let first = if caller.dice.chance(20) { sent.bytes / 2 } else { 0 };
        for bytes in [first, sent.bytes - first].into_iter().filter(|bytes| *bytes > 0) {
            if self.exchanges.taken(self.now + self.slept, id, bytes) {
                self.tell(Input::Flushed(Sink::Exchange(id), bytes));
            }
        }
        self.client_hears(id, sent.heard);
        self.close_read(id);
        self.read_pipes();
    }

    fn client_hears(&mut self, id: ExchangeId, heard: Vec<Heard>) {
        for Heard { id: event, value } in heard {
            let Some(caller) = &mut self.caller else { return };
            let Some(connection) = caller.connections.get(&id) else { return };
            let new = match connection.story.and_then(|story| self.stories.stories.get_mut(&story)) {
                Some(story) => story.read(event.as_ref(), &value),
                None => Ok(true),
            };
            if let (true, Some(session)) = (connection.initializes, connection.session.clone()) {
                caller.session = Some(session);
                let version = value.pointer("/result/protocolVersion").and_then(Value::as_str);
                caller.version = version.unwrap_or_default().to_owned();
                let listens = std::mem::take(&mut caller.manners.listens);
                listens.into_iter().for_each(|wait| self.plan(wait, Happening::Listen));
            }
            match new {
                Ok(true) => self.client_reads(&value),
                Ok(false) => {}
                Err(wrong) => self.model.reproach(wrong),
            }
        }
    }

    /// Checks that a response that was read to its end has brought everything.
    fn close_read(&mut self, id: ExchangeId) {
        let Some(caller) = &mut self.caller else { return };
        if !caller.connections.get(&id).is_some_and(Connection::read_to_the_end) {
            return;
        }
        let Some(connection) = caller.connections.remove(&id) else { return };
        let story = connection.story.and_then(|story| self.stories.stories.get(&story));
        let wants = story.is_some_and(|story| !story.wants.is_empty());
        if connection.reading == Reading::Reads && wants && !self.model.gone() {
            self.model.reproach(format!("exchange {} was read to its end, and answers are missing", id.0));
        }
    }

    /// After the exit, the client reads the bytes that were already sent.
    pub(crate) fn read_the_rest(&mut self) {
        if self.caller.is_none() {
            return;
        }
        let unfinished = self.exchanges.unfinished();
        if !unfinished.is_empty() {
            self.model.reproach(format!("neither finished nor broken off: {unfinished:?}"));
        }
        let open: Vec<ExchangeId> = self.caller.iter().flat_map(|caller| caller.connections.keys().copied()).collect();
        for id in open {
            while let Some(connection) = self.caller.as_mut().and_then(|caller| caller.connections.get_mut(&id)) {
                let Some(sent) = connection.take() else { break };
                self.client_hears(id, sent.heard);
                self.close_read(id);
            }
        }
        self.model.settled();
    }
}
