//! What a run does with its server, and everything in it that a law forbids.
//! The client keeps books of its own.

use super::record::{Command, Fact, Record};
use bytes::Bytes;
use http::{Method, Request};
use mcp_proxy_core::{CallId, Time};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Default)]
pub struct Watch {
    noise: Vec<String>,
    repeated: Vec<String>,
    /// Where each tool call was sent last, and whether it can have arrived.
    sent: BTreeMap<String, (CallId, bool)>,
    cancelled: BTreeSet<CallId>,
    exited: bool,
}

impl Watch {
    pub fn over(record: &Record) -> Self {
        let mut watch = Self::default();
        for ((at, fact), commands) in record.log.iter().zip(&record.commands) {
            watch.fact(fact);
            commands.iter().for_each(|command| watch.command(*at, command));
        }
        watch
    }

    pub fn noise(&self) -> Vec<String> {
        self.noise.clone()
    }

    pub fn repeated(&self) -> Vec<String> {
        self.repeated.clone()
    }

    fn fact(&mut self, fact: &Fact) {
        match fact {
            Fact::Head(id, parts) => {
                let status = parts.status.as_u16();
                let later = status == 503 && parts.headers.contains_key("retry-after");
                if later || matches!(status, 300..=499 | 501) {
                    self.not_arrived(*id);
                }
            }
            // The server answered, and wants the call again.
            Fact::Chunk(id, chunk) if AGAIN.iter().any(|words| contains(chunk, words.as_bytes())) => {
                self.not_arrived(*id);
            }
            Fact::Failed(id, error) if error.before_sending() => self.not_arrived(*id),
            _ => {}
        }
    }

    fn not_arrived(&mut self, call: CallId) {
        for (last, maybe) in self.sent.values_mut().filter(|(last, _)| *last == call) {
            *maybe = *last != call;
        }
    }

    fn command(&mut self, at: Time, command: &Command) {
        if self.exited {
            self.noise.push(format!("after exit, at {}: {command:?}", at.0));
        }
        match command {
            Command::Call(id, request) => self.called(*id, request),
            Command::Cancel(id) => self.cancelled(*id),
            Command::Exit => self.exited = true,
            _ => {}
        }
    }

    fn cancelled(&mut self, id: CallId) {
        if !self.cancelled.insert(id) {
            self.noise.push(format!("cancelled twice: {id:?}"));
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
        if self.sent.insert(call(&text), (id, true)).is_some_and(|(_, maybe)| maybe) {
            self.repeated.push(text);
        }
    }
}

/// What a server says that has not carried out a call, and wants it again.
const AGAIN: [&str; 3] = ["input_required", "-32020", "-32042"];

/// What stays the same when a call is sent again under another id. A modern server gets
/// what its client repeats as another call; a legacy server must not get it at all, unless
/// it has refused the first.
fn call(text: &str) -> String {
    let message = serde_json::from_str::<Value>(text).unwrap_or_default();
    let meta = &message["params"]["_meta"];
    let modern = meta.get("io.modelcontextprotocol/protocolVersion").is_some();
    let again = meta.get("again").filter(|_| modern).or(meta.get("anew")).map(Value::to_string).unwrap_or_default();
    message["params"].get("n").map_or_else(|| text.to_owned(), |n| format!("{n}/{again}"))
}

fn contains(chunk: &[u8], words: &[u8]) -> bool {
    chunk.windows(words.len()).any(|window| window == words)
}
