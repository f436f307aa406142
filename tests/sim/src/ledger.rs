//! What the server really received, executed and sent. `model` compares the machine's
//! answers with this record at the end. Decisions do not belong here.

use mcp_proxy_core::CallId;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// This bit marks the id of a request that the network delivered twice.
const SECOND: u64 = 1 << 63;

#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// The marks of the client's requests that arrived.
    pub(crate) received: BTreeSet<u64>,
    /// By mark, the calls in which the server executed a request of the client.
    pub(crate) done: BTreeMap<u64, BTreeSet<CallId>>,
    /// The id and the mark of the request that each answer is for, by the answer's number.
    made: BTreeMap<u64, (String, u64)>,
    /// How often the server sent each message on a stream.
    told: BTreeMap<String, u64>,
    count: u64,
    /// The calls whose response says that the server did not execute the request.
    refused: BTreeSet<CallId>,
    /// The marks of the requests that a modern server has answered with questions.
    pub(crate) inquired: BTreeSet<u64>,
    /// The messages that the machine should not have sent.
    pub(crate) complaints: Vec<String>,
}

impl Ledger {
    pub(crate) fn received(&mut self, message: &Value) {
        self.received.extend(mark(message));
    }

    /// The server executed a request. It is nobody's fault if the network delivered it twice.
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

    /// Records a new answer to a request and returns its number.
    pub(crate) fn make(&mut self, id: &Value, n: u64) -> u64 {
        let number = u64::try_from(self.made.len()).unwrap_or(u64::MAX);
        self.made.insert(number, (id.to_string(), n));
        number
    }

    /// The id and the mark of the request that the answer with this number is for.
    pub(crate) fn made(&self, number: u64) -> Option<(&str, u64)> {
        self.made.get(&number).map(|(id, n)| (id.as_str(), *n))
    }

    pub(crate) fn tell(&mut self, text: &str) {
        self.count += 1;
        *self.told.entry(text.to_owned()).or_default() += 1;
    }

    /// How often the server sent this message.
    pub(crate) fn times(&self, text: &str) -> u64 {
        self.told.get(text).copied().unwrap_or_default()
    }

    /// How many messages the server sent.
    pub(crate) fn told(&self) -> u64 {
        self.count
    }

    pub(crate) fn complain(&mut self, complaint: String) {
        self.complaints.push(complaint);
    }
}

/// The id of a call that the network delivers a second time.
pub(crate) fn second(call: CallId) -> CallId {
    CallId(call.0 | SECOND)
}

/// The mark of a client's request, also if the machine sends it again with the input that a
/// modern server asked for. The machine's own requests have none.
pub(crate) fn mark(message: &Value) -> Option<u64> {
    let id = message.get("id").filter(|_| message.get("method").is_some())?;
    let again = ["/params/requestState", "/params/inputResponses"].iter().any(|name| message.pointer(name).is_some());
    let ours = id.as_str().is_some_and(is_ours);
    message.pointer("/params/n").and_then(Value::as_u64).filter(|_| !ours || again)
}

/// Whether the machine chose this id.
pub(crate) fn is_ours(id: &str) -> bool {
    id.trim_start_matches('"').starts_with("mcp-proxy-")
}

/// The number that the client gave a request, whether the client or the machine sent it.
pub(crate) fn number(message: &Value) -> u64 {
    message.pointer("/params/n").and_then(Value::as_u64).unwrap_or(0)
}
