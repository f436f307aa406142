//! The server as one of 2026-07-28: no sessions, an envelope in every request, questions as
//! results, and subscriptions as streams. It checks byte for byte that a repeated request
//! returns its state. The other transports are in `streamable` and `channel`.

use crate::ledger::{mark, number};
use crate::server::{Effect, Frame, Server, header};
use crate::stream::{Asked, Form, Stream, Subscription};
use bytes::Bytes;
use http::{Method, Request};
use mcp_proxy_core::CallId;
use serde_json::{Value, json};
use std::collections::BTreeSet;

pub(crate) const VERSION: &str = "2026-07-28";
const ENVELOPE: &str = "io.modelcontextprotocol/protocolVersion";
/// The most rounds of questions for a request.
const MOST_ROUNDS: u64 = 3;
const QUESTIONS: [&str; 3] = ["sampling/createMessage", "roots/list", "elicitation/create"];

/// The contents that a repeated request must have.
#[derive(Debug, Clone)]
pub(crate) struct Round {
    id: Value,
    n: u64,
    keys: BTreeSet<String>,
    /// The raw `requestState`.
    state: String,
    rounds: u64,
}

impl Server {
    pub(crate) fn modern(&mut self, call: CallId, request: &Request<Bytes>, message: &Value) {
        if *request.method() != Method::POST {
            return self.reply(call, 405, "");
        }
        let (Some(method), Some(_)) = (message.get("method").and_then(Value::as_str), message.get("id")) else {
            return self.reply(call, 202, "");
        };
        let version = message.pointer("/params/_meta").and_then(|meta| meta.get(ENVELOPE));
        if version.is_none() {
            let (status, code) = if method == "initialize" { (404, -32601) } else { (400, -32602) };
            return self.refuse_with(call, message, status, code);
        }
        self.look_at_modern_headers(request, message, method);
        match method {
            "server/discover" => self.discover(call, message),
            "subscriptions/listen" => self.subscribe(call, message),
            "tools/call" | "tools/list" | "prompts/get" | "resources/read" => self.request(call, request, message),
            _ => self.refuse_with(call, message, 404, -32601),
        }
    }

    fn refuse_with(&mut self, call: CallId, message: &Value, status: u16, code: i64) {
        let id = message.get("id").unwrap_or(&Value::Null);
        let number = self.ledger.make(id, number(message));
        let error = json!({"code": code, "message": "no", "data": {"r": number, "supported": [VERSION]}});
        self.reply(call, status, &json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string());
    }

    fn look_at_modern_headers(&mut self, request: &Request<Bytes>, message: &Value, method: &str) {
        let name = match method {
            "tools/call" | "prompts/get" => message.pointer("/params/name"),
            "resources/read" => message.pointer("/params/uri"),
            _ => None,
        };
        let wanted = [
            ("mcp-protocol-version", VERSION),
            ("mcp-method", method),
            ("mcp-name", name.and_then(Value::as_str).unwrap_or_default()),
            ("mcp-session-id", ""),
        ];
        for (name, value) in wanted.into_iter().filter(|(name, value)| header(request, name) != *value) {
            self.ledger.complain(format!("{name} should be {value:?}: {:?}", request.headers()));
        }
    }

    fn discover(&mut self, call: CallId, message: &Value) {
        if std::mem::take(&mut self.habits.picky) {
            return self.refuse_with(call, message, 400, -32022);
        }
        let id = message.get("id").unwrap_or(&Value::Null);
        let number = self.ledger.make(id, 0);
        let able = json!({"tools": {"listChanged": self.habits.announces}, "resources": {"subscribe": true}});
        let result =
            json!({"resultType": "complete", "r": number, "supportedVersions": [VERSION], "capabilities": able});
        self.reply(call, 200, &json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string());
    }

    fn subscribe(&mut self, call: CallId, message: &Value) {
        let part = |name| message.pointer(name).cloned().unwrap_or_default();
        let subscription = Subscription { id: part("/id"), filter: part("/params/notifications") };
        if self.habits.listens {
            let stream = Stream::subscribed(subscription, &self.habits, &mut self.dice);
            self.open(stream, call);
        } else {
            self.refuse_with(call, message, 404, -32601);
        }
    }

    fn request(&mut self, call: CallId, request: &Request<Bytes>, message: &Value) {
        let (id, n) = (message.get("id").cloned().unwrap_or_default(), number(message));
        let rounds = self.came_again(request, message);
        let lists = message.get("method").is_some_and(|method| method == "tools/list");
        let asks = self.dice.chance(self.habits.asks) && rounds < MOST_ROUNDS && self.questions > 0 && !lists;
        if asks {
            self.questions -= 1;
            self.ledger.refuse(call);
        } else {
            self.ledger.done(call, message);
        }
        let asked = Asked { id, n, asks: asks.then_some(rounds) };
        let stream = Stream::answering_without_session(asked, &self.habits, &mut self.dice);
        self.open(stream, call);
    }

    /// Checks a request against its last round. Returns how many rounds there were.
    fn came_again(&mut self, request: &Request<Bytes>, message: &Value) -> u64 {
        let ours = mark(message).is_some() && message.get("id").is_some_and(|id| id.to_string().contains("mcp-proxy-"));
        let part = |name| message.pointer(name);
        let (state, responses) = (part("/params/requestState"), part("/params/inputResponses"));
        if state.is_none() && responses.is_none() {
            return 0;
        }
        let body = String::from_utf8_lossy(request.body()).into_owned();
        // The machine repeats the state byte for byte; a client reads it first.
        let read = |text: &str| serde_json::from_str::<Value>(text).ok();
        let known = self.rounds.iter().find(|round| match self.client_repeats {
            true => read(&round.state).as_ref() == state,
            false => body.contains(&format!("\"requestState\":{}", round.state)),
        });
        let keys: BTreeSet<String> =
            responses.and_then(Value::as_object).into_iter().flat_map(|all| all.keys().cloned()).collect();
        let fits = |round: &&Round| {
            round.n == number(message)
                && round.keys == keys
                && message.get("id") != Some(&round.id)
                && (ours || self.client_repeats)
        };
        match known.filter(fits) {
            Some(round) => round.rounds,
            None => {
                self.ledger.complain(format!("not what was asked for: {body}"));
                MOST_ROUNDS
            }
        }
    }

    /// A result that asks for input.
    pub(crate) fn inquire(&mut self, asked: &Asked, rounds: u64) -> String {
        let count = self.dice.between(0, 2);
        let mut requests = Vec::new();
        let mut keys = BTreeSet::new();
        for _ in 0..count {
            let (key, method) = (format!("k{}", self.new_number()), self.dice.pick(&QUESTIONS, "roots/list"));
            let params = format!("{{\"q\":{}}}", self.new_number());
            self.ledger.tell(&format!("ask {method} {params}"));
            requests.push(format!("\"{key}\":{{\"method\":\"{method}\",\"params\":{params}}}"));
            keys.insert(key);
        }
        let state = format!("\"\\u0073t {} \\/ é\"", self.new_number());
        let number = self.ledger.make(&asked.id, asked.n);
        self.ledger.inquired.insert(asked.n);
        self.rounds.push(Round { id: asked.id.clone(), n: asked.n, keys, state: state.clone(), rounds: rounds + 1 });
        let requests =
            if count == 0 { String::new() } else { format!(",\"inputRequests\":{{{}}}", requests.join(",")) };
        let result = format!("{{\"resultType\":\"input_required\",\"r\":{number}{requests},\"requestState\":{state}}}");
        format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{result}}}", asked.id)
    }

    // ----- subscriptions ---------------------------------------------------------

    pub(crate) fn acknowledge(&mut self, key: u64) {
        let Some(filter) = self.subscription(key).map(|subscription| subscription.filter.clone()) else { return };
        // After a client listens again, the machine may report changes that it missed.
        self.ledger.tell(CHANGED);
        self.on_subscription(key, "subscriptions/acknowledged", &format!("\"notifications\":{filter}"), None);
    }

    pub(crate) fn change(&mut self, key: u64) {
        let lists = |subscription: &Subscription| subscription.filter.get("toolsListChanged").is_some();
        if self.subscription(key).is_some_and(lists) {
            self.on_subscription(key, "tools/list_changed", "", Some(CHANGED));
        }
    }

    pub(crate) fn update(&mut self, key: u64) {
        let uri = |subscription: &Subscription| subscription.filter.pointer("/resourceSubscriptions/0").cloned();
        let Some(uri) = self.subscription(key).and_then(uri) else { return };
        let params = format!("\"uri\":{uri},\"s\":{key},\"q\":{}", self.new_number());
        let told =
            format!("{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/resources/updated\",\"params\":{{{params}}}}}");
        self.on_subscription(key, "resources/updated", &params, Some(&told));
    }

    pub(crate) fn conclude(&mut self, key: u64) {
        let Some(id) = self.subscription(key).map(|subscription| subscription.id.clone()) else { return };
        let text = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"resultType\":\"complete\"}}}}");
        self.say(key, text);
        self.send(key, Frame::End);
    }

    fn subscription(&self, key: u64) -> Option<&Subscription> {
        self.streams.get(&key).and_then(|stream| stream.subscription.as_ref())
    }

    /// Sends a notification with its tag; `told`: the notification that the client gets.
    fn on_subscription(&mut self, key: u64, name: &str, params: &str, told: Option<&str>) {
        let Some(id) = self.subscription(key).map(|subscription| subscription.id.clone()) else { return };
        let meta = format!("\"_meta\":{{\"io.modelcontextprotocol/subscriptionId\":{id}}}");
        let comma = if params.is_empty() { "" } else { "," };
        let text =
            format!("{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/{name}\",\"params\":{{{params}{comma}{meta}}}}}");
        // Send some events twice.
        told.into_iter().chain(told).for_each(|told| self.ledger.tell(told));
        self.say(key, text);
    }

    /// Sends the answer to a request and ends its stream.
    pub(crate) fn deliver(&mut self, key: u64, text: &str) {
        let Some((form, reader)) = self.streams.get(&key).map(|stream| (stream.form, stream.reader)) else { return };
        if form == Form::Body {
            return reader.into_iter().for_each(|call| self.reply(call, 200, text));
        }
        self.say(key, text.to_owned());
        self.effects.extend(reader.map(|call| Effect::Send(call, Frame::End)));
    }
}

/// The notification that a list may have changed.
pub(crate) const CHANGED: &str = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
