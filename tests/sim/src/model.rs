//! The reference model: who is owed an answer, told from the facts alone, and
//! every reproach that a run has earned.

use crate::client::Claim;
use crate::server::Server;
use bytes::Bytes;
use http::{Method, Request};
use mcp_proxy_core::CallId;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Unwritten bytes that are never exceeded: the machine's mark, and what the
/// responses read in one step may add.
const UNWRITTEN: usize = 4 << 20;

#[derive(Debug, Default)]
pub(crate) struct Model {
    /// Open requests and their marks.
    open: BTreeMap<String, Open>,
    /// Refusals owed, by id.
    refusals: BTreeMap<String, u32>,
    pub(crate) asked: u64,
    /// Marks of requests of which the machine said they never arrived.
    undelivered: Vec<u64>,
    over: BTreeSet<CallId>,
    /// Sessions that were told that there is no listening stream.
    deaf: BTreeSet<String>,
    unwritten: usize,
    gone: bool,
    pub(crate) exited: bool,
    pub(crate) reproaches: Vec<String>,
}

#[derive(Debug)]
struct Open {
    mark: u64,
    initialize: bool,
}

impl Model {
    pub(crate) fn reproach(&mut self, reproach: String) {
        self.reproaches.push(reproach);
    }

    pub(crate) fn idle(&self) -> bool {
        self.open.is_empty() && self.refusals.is_empty()
    }

    /// The client said this to the machine.
    pub(crate) fn claimed(&mut self, claim: &Claim) {
        match claim {
            Claim::Request { id, mark, initialize } => {
                self.asked += 1;
                if self.open.contains_key(id) {
                    *self.refusals.entry(id.clone()).or_default() += 1;
                } else {
                    self.open.insert(id.clone(), Open { mark: *mark, initialize: *initialize });
                }
            }
            Claim::Broken { id } => {
                self.asked += 1;
                *self.refusals.entry(id.clone()).or_default() += 1;
            }
            Claim::Cancel { id } => {
                if self.open.get(id).is_some_and(|open| !open.initialize) {
                    self.open.remove(id);
                }
            }
        }
    }

    /// The client is gone; it is owed nothing any more.
    pub(crate) fn left(&mut self) {
        self.gone = true;
        self.open.clear();
        self.refusals.clear();
    }

    pub(crate) fn flushed(&mut self, bytes: usize) {
        self.unwritten = self.unwritten.saturating_sub(bytes);
    }

    /// The machine wrote a line; returns what it says.
    pub(crate) fn wrote(&mut self, line: &[u8], server: &Server) -> Value {
        self.unwritten += line.len();
        if self.unwritten > UNWRITTEN {
            self.reproach(format!("{} bytes unwritten", self.unwritten));
        }
        let text = String::from_utf8_lossy(line);
        let whole = line.iter().position(|byte| *byte == b'\n') == line.len().checked_sub(1);
        let value = serde_json::from_slice::<Value>(line).unwrap_or_default();
        if !whole || !value.is_object() || self.gone || self.exited {
            self.reproach(format!("not to be written: {text}"));
        }
        match (value.get("id"), value.get("method")) {
            (Some(Value::Null), _) => self.reproach(format!("null id: {text}")),
            (Some(id), None) => self.answered(&id.to_string(), &value),
            (_, Some(_)) if !server.said.contains(text.trim_end()) => self.reproach(format!("invented: {text}")),
            (None, None) => self.reproach(format!("no message: {text}")),
            (_, Some(_)) => {}
        }
        value
    }

    fn answered(&mut self, id: &str, value: &Value) {
        let refused = value.pointer("/error/code").and_then(Value::as_i64).is_some_and(|code| code <= -32600);
        if let Some(owed) = self.refusals.get_mut(id).filter(|_| refused) {
            *owed -= 1;
            if *owed == 0 {
                self.refusals.remove(id);
            }
            return;
        }
        let Some(open) = self.open.remove(id) else { return self.reproach(format!("unasked: {value}")) };
        let mark = value.pointer("/result/n").and_then(Value::as_u64);
        if mark.is_some_and(|mark| mark != open.mark) {
            self.reproach(format!("the answer of another: {value}"));
        }
        if value.pointer("/error/data/delivered").is_some_and(|delivered| delivered == "no") {
            self.undelivered.push(open.mark);
        }
    }

    pub(crate) fn called(&mut self, call: CallId, request: &Request<Bytes>) {
        if self.over.contains(&call) || self.exited {
            self.reproach(format!("call {} is over", call.0));
        }
        if listens(request).is_some_and(|session| self.deaf.contains(&session)) {
            self.reproach("asked for a listening stream after a 405".to_owned());
        }
    }

    /// The machine has read this status in the response to that request.
    pub(crate) fn headed(&mut self, request: &Request<Bytes>, status: u16) {
        self.deaf.extend(listens(request).filter(|_| status == 405));
    }

    /// That call is over: ended, failed or cancelled.
    pub(crate) fn over(&mut self, call: CallId) {
        self.over.insert(call);
    }

    pub(crate) fn cancelled(&mut self, call: CallId) {
        if !self.over.insert(call) || self.exited {
            self.reproach(format!("call {} was over before its cancel", call.0));
        }
    }

    /// What must be true at the end.
    pub(crate) fn judge(&mut self, server: &Server) {
        let open: Vec<String> = self.open.keys().chain(self.refusals.keys()).cloned().collect();
        if !open.is_empty() {
            self.reproach(format!("never answered: {}", open.join(", ")));
        }
        self.reproaches.extend(server.complaints.iter().cloned());
        for (mark, times) in server.done.iter().filter(|(_, times)| **times > 1) {
            self.reproaches.push(format!("request {mark} was carried out {times} times"));
        }
        for mark in self.undelivered.iter().filter(|mark| server.seen.contains(mark)) {
            self.reproaches.push(format!("request {mark} was carried out, but said not to be delivered"));
        }
    }
}

/// The session in which the request asks for a listening stream.
fn listens(request: &Request<Bytes>) -> Option<String> {
    let listens = *request.method() == Method::GET && !request.headers().contains_key("last-event-id");
    let session = request.headers().get("mcp-session-id").and_then(|value| value.to_str().ok());
    listens.then(|| session.unwrap_or_default().to_owned())
}
