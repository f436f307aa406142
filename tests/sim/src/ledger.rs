//! What the server really received, carried out, made and said: the truth that
//! the machine's words are held against at the end. Nothing here decides.

use mcp_proxy_core::CallId;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Set in the id of a request that the network brought a second time.
const SECOND: u64 = 1 << 63;

#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// Marks of the client's requests that arrived at all.
    pub(crate) received: BTreeSet<u64>,
    /// By mark, the calls in which a request of the client was carried out.
    pub(crate) done: BTreeMap<u64, BTreeSet<CallId>>,
    /// Answers, by number: for which id and which mark.
    made: BTreeMap<u64, (String, u64)>,
    /// Every message that was told on a stream, and how often.
    told: BTreeMap<String, u64>,
    count: u64,
    /// Calls whose response says that nothing was carried out.
    refused: BTreeSet<CallId>,
    /// What it was sent and should not have been.
    pub(crate) complaints: Vec<String>,
}

impl Ledger {
    pub(crate) fn received(&mut self, message: &Value) {
        self.received.extend(mark(message));
    }

    /// What the network brings a second time is nobody's fault.
    pub(crate) fn done(&mut self, call: CallId, message: &Value) {
        if let Some(mark) = mark(message).filter(|_| call.0 & SECOND == 0) {
            self.done.entry(mark).or_default().insert(call);
        }
    }

    pub(crate) fn refuse(&mut self, call: CallId) {
        self.refused.insert(call);
    }

    pub(crate) fn refused(&self, call: CallId) -> bool {
        self.refused.contains(&call)
    }

    /// The number of a new answer to that request.
    pub(crate) fn make(&mut self, id: &Value, n: u64) -> u64 {
        let number = u64::try_from(self.made.len()).unwrap_or(u64::MAX);
        self.made.insert(number, (id.to_string(), n));
        number
    }

    /// The request for which the answer of that number was made: id and mark.
    pub(crate) fn made(&self, number: u64) -> Option<(&str, u64)> {
        self.made.get(&number).map(|(id, n)| (id.as_str(), *n))
    }

    pub(crate) fn tell(&mut self, text: &str) {
        self.count += 1;
        *self.told.entry(text.to_owned()).or_default() += 1;
    }

    /// How often that was told.
    pub(crate) fn times(&self, text: &str) -> u64 {
        self.told.get(text).copied().unwrap_or_default()
    }

    /// How much was told.
    pub(crate) fn told(&self) -> u64 {
        self.count
    }

    pub(crate) fn complain(&mut self, complaint: String) {
        self.complaints.push(complaint);
    }
}

/// The same call, as the network brings it a second time.
pub(crate) fn second(call: CallId) -> CallId {
    CallId(call.0 | SECOND)
}

/// The mark of a request of the client; requests of the machine have none.
pub(crate) fn mark(message: &Value) -> Option<u64> {
    let id = message.get("id").filter(|_| message.get("method").is_some())?;
    let ours = id.as_str().is_some_and(|id| id.starts_with("mcp-proxy-"));
    message.pointer("/params/n").and_then(Value::as_u64).filter(|_| !ours)
}

/// The number that the client gave a request, whoever sends it.
pub(crate) fn number(message: &Value) -> u64 {
    message.pointer("/params/n").and_then(Value::as_u64).unwrap_or(0)
}
