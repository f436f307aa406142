//! A client of Streamable HTTP, in front of an HTTP+SSE server: the steps that
//! its tests share.

use super::{Bench, INITIALIZE, INITIALIZED, initialize_result};
use ::http::HeaderValue;
use mcp_proxy_core::{CallId, ClientTransport, Config, HttpTransport, Transport};
use serde_json::Value;

pub const SESSION: &str = "0123456789abcdef";
pub const BOTH: (&str, &str) = ("accept", "application/json, text/event-stream");
pub const EVENTS: (&str, &str) = ("accept", "text/event-stream");
pub const TYPE: (&str, &str) = ("content-type", "application/json");
pub const NAMED: (&str, &str) = ("mcp-session-id", SESSION);

pub fn front(set: impl FnOnce(&mut HttpTransport, &mut Config)) -> Bench {
    Bench::with(|config| {
        config.transport = Transport::Sse;
        let mut client = HttpTransport::new(HeaderValue::from_static(SESSION));
        set(&mut client, config);
        config.client = ClientTransport::Http(client);
    })
}

/// A session with this version of the protocol, and the stream of its server.
pub fn open_as(version: &str, set: impl FnOnce(&mut HttpTransport, &mut Config)) -> (Bench, CallId) {
    let mut bench = front(set);
    bench.ask(1, "POST", &[BOTH, TYPE], INITIALIZE);
    let stream = bench.called("GET");
    bench.sse(stream);
    bench.chunk(stream, "event: endpoint\ndata: /messages\n\n");
    let initialize = bench.called("POST initialize 0");
    bench.accept(initialize);
    let result = initialize_result("0", version);
    bench.event(stream, &result);
    let headers = bench.responded(1, 200);
    assert_eq!(headers["mcp-session-id"], SESSION);
    assert_eq!(headers["content-type"], "application/json");
    assert_eq!(headers["mcp-proxy-upstream"], "http+sse");
    assert_eq!(bench.received(1), result);
    bench.took(1, result.len());
    bench.finished(1);
    post(&mut bench, 2, INITIALIZED);
    bench.responded(2, 202);
    bench.finished(2);
    let initialized = bench.called("POST notifications/initialized");
    bench.accept(initialized);
    bench.silent();
    (bench, stream)
}

pub fn open() -> (Bench, CallId) {
    open_as("2025-11-25", |_, _| {})
}

pub fn post(bench: &mut Bench, exchange: u64, body: &str) {
    bench.ask(exchange, "POST", &[BOTH, TYPE, NAMED], body);
}

/// A request that runs: its response has begun and the server has it.
#[track_caller]
pub fn running(bench: &mut Bench, exchange: u64, id: &str) -> String {
    post(bench, exchange, &request(id));
    let headers = bench.responded(exchange, 200);
    assert_eq!(headers["content-type"], "text/event-stream");
    let first = bench.received(exchange);
    let call = bench.called(&format!("POST tools/call {id}"));
    bench.accept(call);
    bench.took(exchange, first.len());
    event_id(&first)
}

/// The client listens; returns the id of the first event.
#[track_caller]
pub fn listening(bench: &mut Bench, exchange: u64) -> String {
    bench.ask(exchange, "GET", &[EVENTS, NAMED], "");
    bench.responded(exchange, 200);
    let first = bench.received(exchange);
    bench.took(exchange, first.len());
    event_id(&first)
}

pub fn request(id: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"t","_meta":{{"progressToken":{id}}}}}}}"#
    )
}

pub fn answer(id: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#)
}

pub fn event_id(event: &str) -> String {
    event.lines().find_map(|line| line.strip_prefix("id: ")).unwrap_or_default().to_owned()
}

/// The message of the next event on this response.
#[track_caller]
pub fn heard(bench: &mut Bench, exchange: u64) -> Value {
    let event = bench.received(exchange);
    bench.took(exchange, event.len());
    let data = event.lines().find_map(|line| line.strip_prefix("data: ")).expect(&event);
    serde_json::from_str(data).unwrap()
}

/// The next response refuses the request; returns the error.
#[track_caller]
pub fn refused(bench: &mut Bench, exchange: u64, status: u16) -> Value {
    bench.responded(exchange, status);
    let body: Value = serde_json::from_str(&bench.received(exchange)).unwrap();
    bench.finished(exchange);
    bench.silent();
    assert!(body["error"]["message"].is_string(), "{body}");
    body
}
