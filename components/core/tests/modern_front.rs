//! Clients of revision 2026-07-28 over HTTP, which share one machine: before a legacy
//! server, whose session is the proxy's, and before a modern one.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests fail by panicking")]

mod common;

use ::http::HeaderValue;
use common::http::{BOTH, SESSION, TYPE, heard, refused};
use common::modern::{auto, complete, discovered};
use common::*;
use mcp_proxy_core::{CallId, ClientTransport, Config, Era, HttpTransport};
use serde_json::{Value, json};

const VERSION: (&str, &str) = ("mcp-protocol-version", "2026-07-28");
const ABLE: &str = r#"{"elicitation":{},"sampling":{}}"#;
const SERVER: &str = r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true},"logging":{}},"serverInfo":{"name":"s","version":"1"}}"#;

fn front_with(name: &str, set: impl FnOnce(&mut Config)) -> Bench {
    Bench::with(|config| {
        config.client = ClientTransport::Http(HttpTransport {
            states: name.to_owned(),
            ..HttpTransport::new(HeaderValue::from_static(SESSION))
        });
        set(config);
    })
}

fn request_with(id: &str, method: &str, params: &str, meta: &str) -> String {
    let envelope = format!(
        r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{ABLE}{meta}"#
    );
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{{params}"_meta":{{{envelope}}}}}}}"#)
}

fn post(bench: &mut Bench, exchange: u64, method: &str, name: Option<&str>, body: &str) {
    let method = ("mcp-method", method);
    let mut headers = vec![BOTH, TYPE, VERSION, method];
    headers.extend(name.map(|name| ("mcp-name", name)));
    bench.ask(exchange, "POST", &headers, body);
}

fn call_with(bench: &mut Bench, exchange: u64, id: &str, params: &str, meta: &str) {
    let body = request_with(id, "tools/call", &format!(r#""name":"t",{params}"#), meta);
    post(bench, exchange, "tools/call", Some("t"), &body);
}

/// A client calls a tool; returns the POST to the server.
#[track_caller]
fn calls(bench: &mut Bench, exchange: u64, id: &str) -> CallId {
    call_with(bench, exchange, id, "", "");
    bench.called_last()
}

/// The server has a session for the proxy, without a listening stream.
fn open() -> Bench {
    open_as("place.secret", |_| {})
}

fn open_as(name: &str, set: impl FnOnce(&mut Config)) -> Bench {
    let mut bench = front_with(name, set);
    post(&mut bench, 1, "server/discover", None, &request_with("0", "server/discover", "", ""));
    let initialize = bench.called("POST initialize ours");
    let answer = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{SERVER}}}"#, bench.rpc_id(initialize));
    bench.head(initialize, 200, &[("content-type", "application/json"), ("mcp-session-id", "s1")]);
    bench.body(initialize, &answer);
    assert_eq!(answered(&mut bench, 1, 200)["result"]["supportedVersions"], json!(["2026-07-28"]));
    let initialized = bench.called("POST notifications/initialized");
    bench.accept(initialized);
    let get = bench.called("GET");
    bench.head(get, 405, &[]);
    bench.cancelled(get);
    bench.silent();
    bench
}

/// The response to an exchange is one JSON.
#[track_caller]
fn answered(bench: &mut Bench, exchange: u64, status: u16) -> Value {
    let headers = bench.responded(exchange, status);
    assert_eq!(headers["content-type"], "application/json");
    assert!(!headers.contains_key("mcp-session-id"));
    let body = bench.received(exchange);
    bench.took(exchange, body.len());
    bench.finished(exchange);
    serde_json::from_str(&body).unwrap()
}

fn text(bench: &Bench, call: CallId, text: &str) -> String {
    let result = format!(r#"{{"content":[{{"type":"text","text":"{text}"}}]}}"#);
    format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, bench.rpc_id(call))
}

/// A call that the server's question `q` has parked; returns its stream and the state.
fn parked(bench: &mut Bench, exchange: u64, id: &str) -> (CallId, String) {
    let stream = calls(bench, exchange, id);
    bench.sse(stream);
    bench.event(stream, r#"{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"?"}}"#);
    bench.wait(40);
    let result = &answered(bench, exchange, 200)["result"];
    assert_eq!(result["resultType"], "input_required");
    assert_eq!(result["inputRequests"]["q"]["method"], "elicitation/create");
    (stream, result["requestState"].as_str().unwrap().to_owned())
}

fn retry(bench: &mut Bench, exchange: u64, id: &str, state: &str) {
    let params = format!(r#""inputResponses":{{"q":{{"action":"accept"}}}},"requestState":"{state}","#);
    call_with(bench, exchange, id, &params, "");
}

#[test]
fn clients_with_the_same_id_share_a_session_and_get_their_own_answers() {
    let mut bench = open();
    let (first, second) = (calls(&mut bench, 2, "7"), calls(&mut bench, 3, "7"));
    let third = calls(&mut bench, 4, "\"\\u0037\"");
    assert_ne!(bench.rpc_id(first), bench.rpc_id(second));
    for call in [first, second, third] {
        assert_eq!(bench.header(call, "mcp-session-id"), Some("s1"));
        assert_eq!(bench.rpc(call)["params"], json!({ "name": "t" }));
    }
    for (call, exchange, id) in [(second, 3, "7"), (third, 4, "\"7\""), (first, 2, "7")] {
        bench.json(call, &text(&bench, call, &exchange.to_string()));
        let answer = answered(&mut bench, exchange, 200);
        assert_eq!(answer["id"].to_string(), id);
        assert_eq!(answer["result"]["content"][0]["text"], exchange.to_string());
        assert_eq!(answer["result"]["resultType"], "complete");
    }
    bench.silent();
    assert_eq!(bench.deadline(), None);
}

#[test]
fn progress_and_subscriptions_carry_the_clients_own_names() {
    let mut bench = open();
    let token = r#","progressToken":"mine","io.modelcontextprotocol/logLevel":"info""#;
    call_with(&mut bench, 2, "7", "", token);
    bench.responded(2, 200);
    let comment = bench.received(2);
    bench.took(2, comment.len());
    let level = bench.called("POST logging/setLevel ours");
    bench.json(level, &result(&bench.rpc_id(level)));
    let call = bench.called_last();
    let sent = bench.rpc(call)["params"]["_meta"]["progressToken"].to_string();
    assert_ne!(sent, "\"mine\"");
    bench.sse(call);
    bench.event(call, &progress(&sent));
    assert_eq!(heard(&mut bench, 2)["params"]["progressToken"], "mine");
    bench.event(call, r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}"#);
    assert_eq!(heard(&mut bench, 2)["params"]["data"], 1);
    let listen = request_with("\"l\"", "subscriptions/listen", r#""notifications":{"toolsListChanged":true},"#, "");
    post(&mut bench, 3, "subscriptions/listen", None, &listen);
    bench.responded(3, 200);
    let comment = bench.received(3);
    bench.took(3, comment.len());
    let tagged = |message: &Value| message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"].clone();
    assert_eq!(tagged(&heard(&mut bench, 3)), "l");
    bench.event(call, &note("notifications/tools/list_changed"));
    let change = heard(&mut bench, 3);
    assert_eq!((&change["method"], tagged(&change)), (&json!("notifications/tools/list_changed"), json!("l")));
    bench.event(call, &text(&bench, call, "done"));
    assert_eq!(heard(&mut bench, 2)["id"], 7);
    bench.finished(2);
    bench.silent();
}

#[test]
fn a_client_that_closes_its_response_cancels_its_own_request_only() {
    let mut bench = open();
    let (first, second) = (calls(&mut bench, 2, "7"), calls(&mut bench, 3, "7"));
    bench.gone(2);
    let cancel = bench.called("POST notifications/cancelled");
    assert_eq!(bench.rpc(cancel)["params"]["requestId"], bench.rpc(first)["id"]);
    bench.accept(cancel);
    bench.silent();
    bench.json(second, &text(&bench, second, "b"));
    assert_eq!(answered(&mut bench, 3, 200)["id"], 7);
}

#[test]
fn a_notification_names_nothing_that_other_clients_have() {
    let mut bench = open();
    calls(&mut bench, 2, "7");
    let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}"#;
    post(&mut bench, 3, "notifications/cancelled", None, cancel);
    bench.responded(3, 202);
    bench.finished(3);
    bench.silent();
}

#[test]
fn a_parked_call_goes_on_with_the_retry_and_its_state_is_good_once() {
    let mut bench = open();
    let (stream, state) = parked(&mut bench, 2, "7");
    assert!(state.starts_with("place."), "{state}");
    bench.silent();
    retry(&mut bench, 3, "8", &state);
    let reply = bench.called("POST answer \"q\"");
    assert_eq!(bench.rpc(reply)["result"], json!({ "action": "accept" }));
    bench.accept(reply);
    retry(&mut bench, 4, "9", &state);
    let again = answered(&mut bench, 4, 200);
    assert_eq!((&again["id"], &again["error"]["code"]), (&json!(9), &json!(-32602)));
    bench.event(stream, &text(&bench, stream, "done"));
    let answer = answered(&mut bench, 3, 200);
    assert_eq!((&answer["id"], &answer["result"]["content"][0]["text"]), (&json!(8), &json!("done")));
    bench.end(stream);
    bench.silent();
    assert_eq!(bench.deadline(), None);
}

#[test]
fn a_state_that_was_altered_or_belongs_elsewhere_is_refused() {
    let mut bench = open();
    let (_, state) = parked(&mut bench, 2, "7");
    let other_machine = parked(&mut open_as("place.other", |_| {}), 2, "7").1;
    let altered = state.replacen(".1.", ".2.", 1);
    for (exchange, bad) in [&*altered, &*other_machine, "", "place.1.2.3"].into_iter().enumerate() {
        retry(&mut bench, 10 + exchange as u64, "8", bad);
        let refused = answered(&mut bench, 10 + exchange as u64, 200);
        assert_eq!(refused["error"]["code"], -32602, "{bad} {refused}");
    }
    // The same state for another tool.
    let params = format!(r#""name":"u","inputResponses":{{}},"requestState":"{state}","#);
    post(&mut bench, 20, "tools/call", Some("u"), &request_with("8", "tools/call", &params, ""));
    assert_eq!(answered(&mut bench, 20, 200)["error"]["code"], -32602);
    bench.silent();
    // The call still waits for its own client.
    retry(&mut bench, 21, "8", &state);
    bench.called("POST answer \"q\"");
}

#[test]
fn an_abandoned_round_is_cancelled_at_the_server_and_leaves_nothing() {
    let mut bench = open();
    let (stream, state) = parked(&mut bench, 2, "7");
    bench.wait(600_000);
    let refusal = bench.called("POST answer \"q\"");
    bench.accept(refusal);
    let cancel = bench.called("POST notifications/cancelled");
    bench.accept(cancel);
    bench.end(stream);
    retry(&mut bench, 3, "8", &state);
    assert_eq!(answered(&mut bench, 3, 200)["error"]["code"], -32602);
    bench.silent();
    assert_eq!(bench.deadline(), None);
}

#[test]
fn errors_have_the_status_of_the_specification() {
    let mut bench = open();
    let post_bad = |bench: &mut Bench, exchange, method: &str, body: &str| post(bench, exchange, method, None, body);
    let ping = request_with("7", "ping", "", "");
    post_bad(&mut bench, 2, "ping", &ping);
    assert_eq!(refused(&mut bench, 2, 404)["error"]["code"], -32601);
    post_bad(&mut bench, 3, "tools/list", &ping);
    assert_eq!(refused(&mut bench, 3, 400)["error"]["code"], -32020);
    post_bad(&mut bench, 4, "tools/list", r#"{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{}}"#);
    assert_eq!(refused(&mut bench, 4, 400)["error"]["code"], -32602);
    bench.ask(
        5,
        "POST",
        &[BOTH, TYPE, ("mcp-protocol-version", "v999"), ("mcp-method", "x")],
        &ping.replace("2026-07-28", "v999"),
    );
    assert_eq!(refused(&mut bench, 5, 400)["error"]["data"]["supported"], json!(["2026-07-28"]));
    // The server does not know the method.
    post_bad(&mut bench, 6, "acme/thing", &request_with("7", "acme/thing", "", ""));
    let call = bench.called_last();
    let error = r#"{"code":-32601,"message":"Method not found"}"#;
    bench.json(call, &format!(r#"{{"jsonrpc":"2.0","id":{},"error":{error}}}"#, bench.rpc_id(call)));
    assert_eq!(answered(&mut bench, 6, 404)["error"]["code"], -32601);
    // The server asks for what the client has not declared.
    let call = calls(&mut bench, 7, "7");
    bench.sse(call);
    bench.event(call, r#"{"jsonrpc":"2.0","id":"r","method":"roots/list"}"#);
    let missing = answered(&mut bench, 7, 400);
    assert_eq!(missing["error"]["code"], -32021);
    assert_eq!(missing["error"]["data"]["requiredCapabilities"], json!({ "roots": {} }));
}

#[test]
fn an_answer_that_came_before_its_question_is_used_and_the_rest_is_asked() {
    let mut bench = open();
    let params = r#""inputResponses":{"q":{"action":"accept"},"other":{},"bad":1},"#;
    call_with(&mut bench, 2, "7", params, "");
    let stream = bench.called_last();
    assert_eq!(bench.rpc(stream)["params"], json!({ "name": "t" }));
    bench.sse(stream);
    for id in ["q", "bad"] {
        let params = r#"{"message":"?"}"#;
        bench.event(
            stream,
            &format!(r#"{{"jsonrpc":"2.0","id":"{id}","method":"elicitation/create","params":{params}}}"#),
        );
    }
    let reply = bench.called("POST answer \"q\"");
    assert_eq!(bench.rpc(reply)["result"], json!({ "action": "accept" }));
    bench.accept(reply);
    bench.wait(40);
    let asked = answered(&mut bench, 2, 200);
    assert_eq!(asked["result"]["inputRequests"].as_object().unwrap().keys().collect::<Vec<_>>(), ["bad"]);
}

#[test]
fn only_modern_requests_are_served_once_there_was_one() {
    let mut bench = open();
    bench.ask(2, "POST", &[BOTH, TYPE], INITIALIZE);
    refused(&mut bench, 2, 400);
    bench.ask(3, "GET", &[common::http::EVENTS], "");
    refused(&mut bench, 3, 400);
}

#[test]
fn a_modern_server_gets_every_request_with_its_own_headers() {
    let mut bench = front_with("place.secret", auto);
    call_with(&mut bench, 1, "7", r#""arguments":{"n":1.0},"#, "");
    call_with(&mut bench, 2, "7", r#""arguments":{"n":2.0},"#, "");
    let probe = bench.called("POST server/discover ours");
    bench.silent();
    discovered(&mut bench, probe, r#"{"tools":{}}"#);
    let (first, second) = (bench.called_last(), bench.called_last());
    for (call, n, exchange) in [(second, "2.0", 2), (first, "1.0", 1)] {
        assert!(bench.sent(call).contains(&format!(r#""arguments":{{"n":{n}}}"#)), "{}", bench.sent(call));
        assert_eq!(bench.header(call, "mcp-method"), Some("tools/call"));
        assert_eq!(bench.header(call, "mcp-name"), Some("t"));
        assert_eq!(
            bench.rpc(call)["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"]["sampling"],
            json!({})
        );
        bench.json(call, &complete(&bench, call, &format!(r#","n":{n}"#)));
        let answer = answered(&mut bench, exchange, 200);
        assert_eq!(answer["id"], 7);
        assert_eq!(answer["result"]["n"].to_string(), n);
    }
    // A client that leaves closes its stream at the server.
    call_with(&mut bench, 3, "7", "", "");
    let call = bench.called_last();
    bench.gone(3);
    bench.cancelled(call);
    bench.silent();
}

#[test]
fn a_lost_session_fails_what_may_have_run_and_the_next_call_opens_another() {
    let mut bench = open();
    let (_, state) = parked(&mut bench, 2, "7");
    let call = calls(&mut bench, 3, "8");
    bench.status(call, 404, "");
    let lost = bench.cancelled_any();
    let _ = lost;
    let initialize = bench.called("POST initialize ours");
    let answer = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{SERVER}}}"#, bench.rpc_id(initialize));
    bench.json(initialize, &answer);
    let initialized = bench.called("POST notifications/initialized");
    bench.accept(initialized);
    bench.skip();
    let again = bench.called_last();
    bench.json(again, &text(&bench, again, "b"));
    assert_eq!(answered(&mut bench, 3, 200)["id"], 8);
    retry(&mut bench, 4, "9", &state);
    assert_eq!(answered(&mut bench, 4, 200)["error"]["code"], -32602);
}

#[test]
fn a_server_of_the_wrong_era_is_an_error_for_each_request() {
    let mut bench = front_with("place.secret", |config| config.era = Era::Modern);
    call_with(&mut bench, 1, "7", "", "");
    let probe = bench.called("POST server/discover ours");
    bench.status(probe, 404, "");
    assert_eq!(answered(&mut bench, 1, 200)["error"]["data"]["delivered"], "no");
}

#[test]
fn arguments_that_headers_repeat_are_the_same_once_the_client_knows_the_tool() {
    let mut bench = open();
    let region = |bench: &mut Bench, exchange: u64, header: Option<&str>| {
        let body = request_with("5", "tools/call", r#""name":"t","arguments":{"region":"us"},"#, "");
        let mut headers = vec![BOTH, TYPE, VERSION, ("mcp-method", "tools/call"), ("mcp-name", "t")];
        headers.extend(header.map(|value| ("mcp-param-region", value)));
        bench.ask(exchange, "POST", &headers, &body);
    };
    let passes = |bench: &mut Bench, exchange: u64| {
        let call = bench.called_last();
        bench.json(call, &result(&bench.rpc_id(call)));
        answered(bench, exchange, 200);
    };
    // Nobody has read the list.
    region(&mut bench, 2, Some("eu"));
    passes(&mut bench, 2);

    post(&mut bench, 3, "tools/list", None, &request_with("6", "tools/list", "", ""));
    let list = bench.called_last();
    let schema = r#"{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}"#;
    let tools = format!(r#"{{"tools":[{{"name":"t","inputSchema":{schema}}}]}}"#);
    bench.json(list, &format!(r#"{{"jsonrpc":"2.0","id":{},"result":{tools}}}"#, bench.rpc_id(list)));
    answered(&mut bench, 3, 200);

    for (exchange, header) in [(4, Some("eu")), (5, None), (6, Some("=?base64?dXM?="))] {
        region(&mut bench, exchange, header);
        assert_eq!(answered(&mut bench, exchange, 400)["error"]["code"], -32020);
        bench.silent();
    }
    for (exchange, header) in [(7, "us"), (8, "=?base64?dXM=?=")] {
        region(&mut bench, exchange, Some(header));
        passes(&mut bench, exchange);
    }
}
