//! Checks the exchanges of an HTTP client: each gets one head with an allowed status,
//! nothing before the head, and nothing after the end. The contents of streams are in
//! `story`.

use crate::client::Claim;
use http::response::Parts;
use mcp_proxy_core::ExchangeId;
use std::collections::BTreeMap;

/// How long a client may leave a response unread.
const PATIENCE: u64 = 30_000;
const JSON: &str = "application/json";

#[derive(Debug, Default)]
pub(crate) struct Exchanges {
    /// The exchanges about which the machine may still output something.
    pub(crate) live: BTreeMap<ExchangeId, Exchange>,
    pub(crate) begun: u64,
    /// How many responses were one JSON answer.
    pub(crate) whole: u64,
}

#[derive(Debug)]
pub(crate) struct Exchange {
    pub(crate) asked: Asked,
    pub(crate) began: u64,
    status: Option<u16>,
    finished: bool,
    unread: usize,
    /// Since when the client has left bytes unread.
    since: u64,
    /// The response is one message, not a stream.
    whole: bool,
    /// The story that it carries, and the place that it has reached.
    pub(crate) story: Option<u64>,
    pub(crate) at: usize,
}

/// What a client requests, and the permitted outcomes.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) purpose: Purpose,
    pub(crate) claims: Vec<Claim>,
    /// The allowed statuses.
    pub(crate) allowed: Vec<u16>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Initialize,
    /// Requests. The response may wait this long for the answer.
    Ask(u64),
    /// Messages that need no answer.
    Tell,
    Listen,
    /// The rest of a story, from this place.
    Resume(u64, usize),
    Leave,
}

/// The parts of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Nothing,
    Body,
    /// A body that holds a whole story.
    Answer,
    Events,
}

impl Exchanges {
    pub(crate) fn begin(&mut self, now: u64, asked: Asked) -> ExchangeId {
        self.begun += 1;
        let id = ExchangeId(self.begun);
        let exchange = Exchange {
            asked,
            began: now,
            status: None,
            finished: false,
            unread: 0,
            since: now,
            whole: false,
            story: None,
            at: 0,
        };
        self.live.insert(id, exchange);
        id
    }

    /// Bytes that the machine sent and the client has not read.
    pub(crate) fn unread(&self) -> usize {
        self.live.values().map(|exchange| exchange.unread).sum()
    }

    /// The machine begins the response.
    pub(crate) fn responded(&mut self, id: ExchangeId, parts: &Parts) -> Result<&mut Exchange, String> {
        let exchange = self.live.get_mut(&id).ok_or_else(|| format!("a response to exchange {}", id.0))?;
        let status = parts.status.as_u16();
        if let Some(before) = exchange.status.replace(status) {
            return Err(format!("exchange {} has two heads: {before} and {status}", id.0));
        }
        if !exchange.asked.allowed.contains(&status) {
            return Err(format!("exchange {}: {status} instead of {:?}", id.0, exchange.asked.allowed));
        }
        let kind = parts.headers.get("content-type").and_then(|kind| kind.to_str().ok());
        exchange.whole = exchange.granted() && exchange.waits().is_some() && kind == Some(JSON);
        self.whole += u64::from(exchange.whole);
        let wanted = match exchange.form() {
            Form::Nothing => None,
            Form::Body | Form::Answer => Some(JSON),
            Form::Events => Some("text/event-stream"),
        };
        if kind != wanted || parts.headers.contains_key("allow") != (status == 405) {
            return Err(format!("exchange {}: {status} with {:?}", id.0, parts.headers));
        }
        Ok(exchange)
    }

    pub(crate) fn sent(&mut self, now: u64, id: ExchangeId, bytes: usize) -> Result<&mut Exchange, String> {
        let exchange = self.speaking(id)?;
        if exchange.form() == Form::Nothing || bytes == 0 {
            return Err(format!("{bytes} bytes for exchange {}", id.0));
        }
        if exchange.unread == 0 {
            exchange.since = now;
        }
        exchange.unread += bytes;
        Ok(exchange)
    }

    /// The response is complete. Returns its story.
    pub(crate) fn finished(&mut self, id: ExchangeId) -> Result<Option<u64>, String> {
        let exchange = self.speaking(id)?;
        if exchange.has_body() && exchange.at == 0 {
            return Err(format!("exchange {} has no body", id.0));
        }
        exchange.finished = true;
        let story = exchange.story;
        self.forget_taken();
        Ok(story)
    }

    fn forget_taken(&mut self) {
        self.live.retain(|_, exchange| !exchange.finished || exchange.unread > 0);
    }

    /// The machine breaks a response off. It may do so if the client left it unread, or has
    /// replaced it.
    pub(crate) fn aborted(&mut self, now: u64, id: ExchangeId) -> Result<(), String> {
        let replaced = self.replacing();
        let exchange = self.live.remove(&id).ok_or_else(|| format!("exchange {} was over before", id.0))?;
        let waited = exchange.unread > 0 && now >= exchange.since + PATIENCE;
        match exchange.status.is_some() && (waited || replaced) {
            true => Ok(()),
            false => Err(format!("exchange {} is broken off for nothing: {exchange:?}", id.0)),
        }
    }

    /// Whether a client has just requested a stream, perhaps in place of another.
    pub(crate) fn replacing(&self) -> bool {
        let asks = |exchange: &Exchange| matches!(exchange.asked.purpose, Purpose::Listen | Purpose::Resume(..));
        self.live.values().any(|exchange| exchange.status.is_none() && asks(exchange))
    }

    /// The client reads this many bytes. Returns `false` if the exchange is over.
    pub(crate) fn taken(&mut self, now: u64, id: ExchangeId, bytes: usize) -> bool {
        let Some(exchange) = self.live.get_mut(&id) else { return false };
        exchange.unread = exchange.unread.saturating_sub(bytes);
        exchange.since = now;
        self.forget_taken();
        true
    }

    /// The machine must exit, so it may refuse clients that wait for a session.
    pub(crate) fn may_be_turned_away(&mut self) {
        let waits = |exchange: &&mut Exchange| !exchange.headed() && exchange.asked.purpose == Purpose::Initialize;
        for exchange in self.live.values_mut().filter(waits) {
            exchange.asked.allowed.push(503);
        }
    }

    /// Of the responses that wait for an answer, the one that must begin first, and
    /// when.
    pub(crate) fn waiting(&self) -> Option<(u64, ExchangeId)> {
        let waiting = self.live.iter().filter(|(_, exchange)| !exchange.headed());
        waiting.filter_map(|(id, exchange)| Some((exchange.waits()?, *id))).min()
    }

    /// Whether an exchange carries the story.
    pub(crate) fn carries(&self, story: u64) -> bool {
        self.live.values().any(|exchange| exchange.story == Some(story) && !exchange.finished)
    }

    /// The exchanges whose responses are not complete.
    pub(crate) fn unfinished(&self) -> Vec<ExchangeId> {
        self.live.iter().filter(|(_, exchange)| !exchange.finished).map(|(id, _)| *id).collect()
    }

    fn speaking(&mut self, id: ExchangeId) -> Result<&mut Exchange, String> {
        let exchange = self.live.get_mut(&id).filter(|exchange| !exchange.finished && exchange.status.is_some());
        exchange.ok_or_else(|| format!("exchange {} has not begun, or is over", id.0))
    }
}

impl Exchange {
    pub(crate) fn headed(&self) -> bool {
        self.status.is_some()
    }

    pub(crate) fn goes_on(&self) -> bool {
        !self.finished
    }

    /// The response has begun, and is one message.
    pub(crate) fn has_body(&self) -> bool {
        self.headed() && matches!(self.form(), Form::Body | Form::Answer)
    }

    /// Until when the response may wait for the answer; `None` if it may not wait.
    pub(crate) fn waits(&self) -> Option<u64> {
        let Purpose::Ask(hold) = self.asked.purpose else { return None };
        (hold > 0).then_some(self.began + hold)
    }

    /// It became a stream before it had to.
    pub(crate) fn hurries(&self, now: u64) -> bool {
        self.form() == Form::Events && self.waits().is_some_and(|until| now < until)
    }

    /// The machine granted the request.
    pub(crate) fn granted(&self) -> bool {
        self.status.is_some_and(|status| status < 300)
    }

    pub(crate) fn form(&self) -> Form {
        match (self.granted(), self.asked.purpose) {
            (false, _) | (true, Purpose::Initialize) => Form::Body,
            (true, Purpose::Tell | Purpose::Leave) => Form::Nothing,
            (true, Purpose::Resume(..)) if self.status == Some(204) => Form::Nothing,
            (true, Purpose::Ask(_)) if self.whole => Form::Answer,
            (true, Purpose::Ask(_) | Purpose::Listen | Purpose::Resume(..)) => Form::Events,
        }
    }
}
