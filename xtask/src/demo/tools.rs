//! The answers of the demo's server, for every transport: one tool for each feature to
//! show.

#![expect(clippy::indexing_slicing, reason = "indexing a JSON value cannot panic: what is missing is null")]

use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, PoisonError};

/// The tool after which the server no longer knows its session.
pub(super) const FORGET: &str = "forget";

/// The tools and their open questions.
#[derive(Default)]
pub(super) struct Tools {
    questions: Mutex<Questions>,
}

/// The server's own requests, and who waits for the client's answers.
#[derive(Default)]
struct Questions {
    count: u32,
    open: HashMap<String, Sender<Value>>,
}

impl Tools {
    /// Answers a request; messages before the answer belong to it.
    pub(super) fn answer(&self, request: &Value, say: &mut dyn FnMut(&str)) {
        let result = match (request["method"].as_str().unwrap_or_default(), name(request)) {
            ("initialize", _) => hello(request),
            ("ping", _) => json!({}),
            ("tools/list", _) => list(),
            ("tools/call", "add") => add(request),
            ("tools/call", "countdown") => countdown(request, say),
            ("tools/call", "ask") => self.ask(say),
            ("tools/call", FORGET) => text("which session?"),
            _ => {
                let error = json!({"code": -32601, "message": "no such method"});
                return say(&json!({"jsonrpc": "2.0", "id": request["id"], "error": error}).to_string());
            }
        };
        say(&json!({"jsonrpc": "2.0", "id": request["id"], "result": result}).to_string());
    }

    /// Accepts the client's answer to one of the server's requests.
    pub(super) fn hear(&self, answer: &Value) {
        let waiting = answer["id"].as_str().and_then(|id| self.questions().open.remove(id));
        waiting.into_iter().for_each(|waiting| drop(waiting.send(answer["result"].clone())));
    }

    /// A call in which the server asks the client's model for help.
    fn ask(&self, say: &mut dyn FnMut(&str)) -> Value {
        let (sender, answered) = channel();
        let id = {
            let mut questions = self.questions();
            questions.count += 1;
            let id = format!("sample-{}", questions.count);
            questions.open.insert(id.clone(), sender);
            id
        };
        let question = json!({"role": "user", "content": {"type": "text", "text": "What is the capital of France?"}});
        let params = json!({"messages": [question], "maxTokens": 10});
        say(&json!({"jsonrpc": "2.0", "id": id, "method": "sampling/createMessage", "params": params}).to_string());
        let heard = answered.recv().unwrap_or_default();
        text(&format!("the model says {}", heard["content"]["text"].as_str().unwrap_or("nothing")))
    }

    fn questions(&self) -> std::sync::MutexGuard<'_, Questions> {
        self.questions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The tool that a request names.
pub(super) fn name(request: &Value) -> &str {
    request["params"]["name"].as_str().unwrap_or_default()
}

/// Whether the tool sends messages before its answer.
pub(super) fn is_talkative(request: &Value) -> bool {
    request["method"] == "tools/call" && matches!(name(request), "countdown" | "ask")
}

fn hello(request: &Value) -> Value {
    json!({"protocolVersion": request["params"]["protocolVersion"], "capabilities": {"tools": {}},
        "serverInfo": {"name": "demo-server", "version": "1.0.0"}})
}

fn list() -> Value {
    let tools = ["add", "countdown", "ask", FORGET];
    let tools: Vec<_> = tools.iter().map(|name| json!({"name": name, "inputSchema": {"type": "object"}})).collect();
    json!({"tools": tools})
}

fn add(request: &Value) -> Value {
    let numbers = &request["params"]["arguments"];
    let sum = numbers["a"].as_i64().unwrap_or(0) + numbers["b"].as_i64().unwrap_or(0);
    text(&sum.to_string())
}

/// A call that reports its progress.
fn countdown(request: &Value, say: &mut dyn FnMut(&str)) -> Value {
    let token = &request["params"]["_meta"]["progressToken"];
    for done in 1..=3 {
        let params = json!({"progressToken": token, "progress": done, "total": 3});
        say(&json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}).to_string());
    }
    text("lift-off")
}

fn text(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}]})
}
