//! The reference: what a run owes its client, kept from the facts alone, and
//! everything in it that a law forbids.

use super::message::key;
use super::record::{Command, Fact, MAX_MESSAGE, Record};
use bytes::Bytes;
use http::{Method, Request};
use mcp_proxy_core::{CallId, Time};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The longest line that may be written: a message, or an error of ours.
const LONGEST_LINE: usize = MAX_MESSAGE + 1500;

#[derive(Debug, Default)]
pub struct Watch {
    /// Answers owed, by id.
    owed: BTreeMap<String, u32>,
    initialize: BTreeSet<String>,
    noise: Vec<String>,
    overlong: Vec<String>,
    repeated: Vec<String>,
    /// Where each tool call was sent last, and whether it can have arrived.
    sent: BTreeMap<String, (CallId, bool)>,
    cancelled: BTreeSet<CallId>,
    eof: bool,
    gone: bool,
    exited: bool,
}

impl Watch {
    pub fn over(record: &Record) -> Self {
        let mut watch = Self::default();
        for ((at, fact), commands) in record.log.iter().zip(&record.commands) {
            watch.fact(fact);
            // A line is answered before the next is read, so a batch of facts
            // in one input is no ambiguity: scripts write one line at a time.
            commands.iter().for_each(|command| watch.command(*at, command));
            watch.cancel(fact);
        }
        watch
    }

    pub fn unanswered(&self) -> Vec<String> {
        if self.gone {
            return self.noise.iter().filter(|noise| noise.contains("unasked")).cloned().collect();
        }
        let open = self.owed.iter().filter(|(_, count)| **count > 0).map(|(id, _)| format!("unanswered {id}"));
        open.chain(self.noise.iter().filter(|noise| noise.contains("unasked")).cloned()).collect()
    }

    pub fn noise(&self) -> Vec<String> {
        self.noise.clone()
    }

    pub fn overlong(&self) -> Vec<String> {
        self.overlong.clone()
    }

    pub fn repeated(&self) -> Vec<String> {
        self.repeated.clone()
    }

    fn fact(&mut self, fact: &Fact) {
        match fact {
            Fact::Bytes(line) if !self.eof && !self.gone => self.asked(line),
            Fact::Eof | Fact::Stop => self.eof = true,
            Fact::Shutdown => self.gone = true,
            Fact::Head(id, parts) => {
                let status = parts.status.as_u16();
                let later = status == 503 && parts.headers.contains_key("retry-after");
                if later || matches!(status, 300..=499 | 501) {
                    self.not_arrived(*id);
                }
            }
            Fact::Failed(id, error) if error.before_sending() => self.not_arrived(*id),
            Fact::Failed(..) | Fact::Tick | Fact::Bytes(_) | Fact::Chunk(..) | Fact::End(_) | Fact::Flushed(_) => {}
        }
    }

    fn not_arrived(&mut self, call: CallId) {
        for (last, maybe) in self.sent.values_mut().filter(|(last, _)| *last == call) {
            *maybe = *last != call;
        }
    }

    /// The requests in a line of the client, broken ones too.
    fn asked(&mut self, line: &[u8]) {
        let text = String::from_utf8_lossy(line);
        let requests = match serde_json::from_str::<Value>(&text) {
            Ok(Value::Array(members)) => members,
            Ok(one) => vec![one],
            Err(_) => {
                text.split_once("\"id\":").and_then(|(_, rest)| rest.split_once(',')).map_or(Vec::new(), |(id, _)| {
                    vec![serde_json::json!({ "id": serde_json::from_str::<Value>(id).unwrap(), "method": "" })]
                })
            }
        };
        for request in requests {
            if let (Some(id), Some(method)) = (request.get("id"), request.get("method")) {
                let owed = self.owed.entry(id.to_string()).or_default();
                if *owed == 0 && method == "initialize" {
                    self.initialize.insert(id.to_string());
                } else if *owed == 0 {
                    self.initialize.remove(&id.to_string());
                }
                *owed += 1;
            }
        }
    }

    /// A cancel of the client takes effect on what is open when it is read.
    fn cancel(&mut self, fact: &Fact) {
        let Fact::Bytes(line) = fact else { return };
        let Ok(value) = serde_json::from_slice::<Value>(line) else { return };
        if value["method"] == "notifications/cancelled" && !self.eof {
            let id = value["params"]["requestId"].to_string();
            if !self.initialize.contains(&id) {
                self.owed.remove(&id);
            }
        }
    }

    fn command(&mut self, at: Time, command: &Command) {
        if self.exited {
            self.noise.push(format!("after exit, at {}: {command:?}", at.0));
        }
        match command {
            Command::Write(line) => self.wrote(line),
            Command::Call(id, request) => self.called(*id, request),
            Command::Cancel(id) => {
                if !self.cancelled.insert(*id) {
                    self.noise.push(format!("cancelled twice: {id:?}"));
                }
            }
            Command::Snapshot | Command::Note(_) => {}
            Command::Exit => self.exited = true,
        }
    }

    fn wrote(&mut self, line: &[u8]) {
        let shown = String::from_utf8_lossy(line).into_owned();
        let whole = line.ends_with(b"\n") && line.iter().filter(|byte| **byte == b'\n').count() == 1;
        let value = serde_json::from_slice::<Value>(line).unwrap_or_default();
        if !whole || !is_json_rpc(&value) {
            self.noise.push(format!("no line of JSON-RPC: {shown}"));
        }
        if self.gone {
            self.noise.push(format!("to a client that is gone: {shown}"));
        }
        if value.get("id").is_some_and(Value::is_null) {
            self.noise.push(format!("null id: {shown}"));
        }
        if line.len() > LONGEST_LINE {
            self.overlong.push(format!("{} bytes", line.len()));
        }
        if let (Some(id), None) = (value.get("id"), value.get("method")) {
            self.answered(&id.to_string(), &shown);
        }
    }

    fn answered(&mut self, id: &str, shown: &str) {
        match self.owed.get_mut(&key(id)) {
            Some(owed) if *owed > 0 => *owed -= 1,
            _ => self.noise.push(format!("unasked answer: {shown}")),
        }
    }

    fn called(&mut self, id: CallId, request: &Request<Bytes>) {
        if self.cancelled.contains(&id) {
            self.noise.push(format!("call after cancel: {id:?}"));
        }
        if request.uri().host() != Some("server.test") {
            self.noise.push(format!("call to {}", request.uri()));
        }
        let text = String::from_utf8_lossy(request.body()).into_owned();
        if request.method() == Method::POST && text.is_empty() {
            self.repeated.push(format!("an empty message: {id:?}"));
        }
        if request.method() != Method::POST || !text.contains("tools/call") {
            return;
        }
        if self.sent.insert(text.clone(), (id, true)).is_some_and(|(_, maybe)| maybe) {
            self.repeated.push(text);
        }
    }
}

/// A message of JSON-RPC 2.0: a request, a notification, or an answer with
/// exactly one of a result and an error.
fn is_json_rpc(value: &Value) -> bool {
    let id = |id: &Value| id.is_string() || id.is_number();
    let error = |error: &Value| error["code"].is_i64() && error["message"].is_string();
    let valid = match (value.get("method"), value.get("id"), value.get("result"), value.get("error")) {
        (Some(method), None, None, None) => method.is_string(),
        (Some(method), Some(of), None, None) => method.is_string() && id(of),
        (None, Some(of), Some(_), None) => id(of),
        (None, Some(of), None, Some(said)) => id(of) && error(said),
        _ => false,
    };
    valid && value["jsonrpc"] == "2.0"
}
