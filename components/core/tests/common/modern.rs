//! A server of 2026-07-28, behind a machine that detects it: the steps that its tests
//! share.

use super::{Bench, INITIALIZE, INITIALIZED};
use mcp_proxy_core::{CallId, Config, Era};
use serde_json::{Value, json};

/// What the server says about itself, apart from the parts that tests vary.
pub const CAPABILITIES: &str =
    r#"{"tools":{"listChanged":true},"logging":{},"resources":{"subscribe":true},"completions":{}}"#;

/// A legacy client that can answer questions.
pub const ABLE: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{"elicitation":{},"sampling":{},"roots":{"listChanged":true}},"clientInfo":{"name":"c","version":"1"}}}"#;

/// The envelope of a modern client.
pub const ENVELOPE: &str =
    r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}"#;

pub const JSON: (&str, &str) = ("content-type", "application/json");

pub fn auto(config: &mut Config) {
    config.era = Era::Auto;
}

/// A machine whose client has sent `initialize`, and its probe.
#[track_caller]
pub fn probing() -> (Bench, CallId) {
    probing_with(|_| {})
}

#[track_caller]
pub fn probing_with(set: impl FnOnce(&mut Config)) -> (Bench, CallId) {
    let mut bench = Bench::with(|config| {
        auto(config);
        set(config);
    });
    bench.say(INITIALIZE);
    let probe = bench.called("POST server/discover ours");
    bench.silent();
    (bench, probe)
}

/// The server says what it is.
pub fn discovered(bench: &mut Bench, probe: CallId, capabilities: &str) {
    let id = bench.rpc_id(probe);
    bench.json(probe, &discover_result(&id, capabilities));
}

pub fn discover_result(id: &str, capabilities: &str) -> String {
    let info = r#"{"io.modelcontextprotocol/serverInfo":{"name":"s","version":"1"}}"#;
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"result":{{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{capabilities},"ttlMs":0,"cacheScope":"private","_meta":{info}}}}}"#
    )
}

/// A machine that serves a legacy client with a modern server that announces nothing.
pub fn open() -> Bench {
    open_with(INITIALIZE, r#"{"tools":{},"logging":{}}"#)
}

/// The same, for a client that can answer questions.
pub fn able() -> Bench {
    open_with(ABLE, r#"{"tools":{},"logging":{}}"#)
}

pub fn open_with(initialize: &str, capabilities: &str) -> Bench {
    let mut bench = Bench::with(auto);
    bench.say(initialize);
    let probe = bench.called("POST server/discover ours");
    discovered(&mut bench, probe, capabilities);
    let answer: Value = serde_json::from_str(&bench.line()).unwrap();
    assert_eq!(answer["id"], 0, "{answer}");
    assert!(answer["result"]["protocolVersion"].is_string(), "{answer}");
    bench.say(INITIALIZED);
    bench
}

/// A machine that listens, and the call of its `subscriptions/listen`, which the server
/// has acknowledged.
pub fn listening() -> (Bench, CallId) {
    let mut bench = open_with(INITIALIZE, CAPABILITIES);
    let listen = bench.called("POST subscriptions/listen ours");
    acknowledged(&mut bench, listen);
    bench.silent();
    (bench, listen)
}

/// The server takes a `subscriptions/listen` as it is.
pub fn acknowledged(bench: &mut Bench, listen: CallId) {
    let filter = bench.rpc(listen)["params"]["notifications"].clone();
    acknowledged_as(bench, listen, &filter);
}

/// The server takes a part of it.
pub fn acknowledged_as(bench: &mut Bench, listen: CallId, filter: &Value) {
    bench.sse(listen);
    announced(bench, listen, "notifications/subscriptions/acknowledged", json!({ "notifications": filter }));
}

/// A notification with the tag of its subscription.
pub fn announced(bench: &mut Bench, listen: CallId, method: &str, mut params: Value) {
    params["_meta"] = json!({ "io.modelcontextprotocol/subscriptionId": bench.rpc(listen)["id"] });
    let message = json!({ "jsonrpc": "2.0", "method": method, "params": params });
    bench.event(listen, &message.to_string());
}

/// A machine with a call of a tool, and the POST that carries it.
pub fn calling() -> (Bench, CallId) {
    let mut bench = able();
    let call = bench.calls("1");
    (bench, call)
}

/// A complete result for this call.
pub fn complete(bench: &Bench, call: CallId, members: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{"resultType":"complete"{members}}}}}"#, bench.rpc_id(call))
}

/// A result that asks for input.
pub fn asks(bench: &Bench, call: CallId, members: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{"resultType":"input_required",{members}}}}}"#, bench.rpc_id(call))
}

/// Two questions and a state that is easily spoilt.
pub const TWO: &str = r#""inputRequests":{"who":{"method":"elicitation/create","params":{"mode":"form","message":"?","requestedSchema":{"type":"object","properties":{}}}},"where":{"method":"roots/list"}},"requestState":"s\u00e9 \/ 1.0""#;
pub const ONE: &str = r#""inputRequests":{"where":{"method":"roots/list"}},"requestState":"s""#;

/// The next command asks the client with this method; returns the id.
#[track_caller]
pub fn question(bench: &mut Bench, method: &str) -> String {
    let line = bench.line();
    let value: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(value["method"], method, "{line}");
    value["id"].to_string()
}

/// The client answers a question.
pub fn reply(bench: &mut Bench, id: &str, result: &str) {
    bench.say(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#));
}

/// The next command withdraws this question.
#[track_caller]
pub fn withdrawn(bench: &mut Bench, id: &str) {
    bench.wrote(&super::cancel(id));
}

/// A modern client's request.
pub fn modern(id: &str, method: &str, params: &str) -> String {
    let comma = if params.is_empty() { "" } else { "," };
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{{params}{comma}"_meta":{{{ENVELOPE}}}}}}}"#)
}
