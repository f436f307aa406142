//! A modern client of a legacy server: the session that the proxy lends, and the requests
//! that a question of the server parks.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod common;

use common::sse::{endpoint, sse};
use common::*;
use mcp_proxy_core::{CallError, CallId, Era, Exit, Note};
use serde_json::{Value, json};
use std::time::Duration;

const ALL: &str = r#"{"elicitation":{"form":{},"url":{}},"sampling":{},"roots":{}}"#;
const TEN_MINUTES: u64 = 600_000;
const SERVER: &str = r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{"subscribe":true},"logging":{}},"serverInfo":{"name":"s","version":"1"}}"#;

/// A request of 2026-07-28. `more` is the beginning of its params, and ends with a comma.
fn modern_with(id: &str, method: &str, more: &str, capabilities: &str, meta: &str) -> String {
    let version = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28""#;
    let meta = format!(r#"{{{version},"io.modelcontextprotocol/clientCapabilities":{capabilities}{meta}}}"#);
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{{more}"_meta":{meta}}}}}"#)
}

fn modern(id: &str, method: &str) -> String {
    modern_with(id, method, "", ALL, "")
}

fn call(id: &str) -> String {
    modern_with(id, "tools/call", r#""name":"t","arguments":{"n":1},"#, ALL, "")
}

fn call_with(id: &str, meta: &str) -> String {
    modern_with(id, "tools/call", r#""name":"t","arguments":{"n":1},"#, ALL, meta)
}

/// The call again, with answers.
fn retry_with(id: &str, state: &str, responses: &str, meta: &str) -> String {
    let more = format!(r#""name":"t","arguments":{{"n":1}},"inputResponses":{responses},"requestState":"{state}","#);
    modern_with(id, "tools/call", &more, ALL, meta)
}

fn retry(id: &str, state: &str, responses: &str) -> String {
    retry_with(id, state, responses, "")
}

fn listen(id: &str, notifications: &str) -> String {
    modern_with(id, "subscriptions/listen", &format!(r#""notifications":{notifications},"#), ALL, "")
}

fn elicitation(id: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"elicitation/create","params":{{"message":"?"}}}}"#)
}

fn log(level: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"notifications/message","params":{{"level":"{level}","data":1}}}}"#)
}

const YES: &str = r#"{"q":{"action":"accept"}}"#;

/// What the proxy tells a server about a question that got this answer.
fn answered(id: &str, result: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
}

trait Lent {
    fn greet(&mut self, initialize: CallId);
    fn read(&mut self) -> Value;
    fn result_of(&mut self, id: &str) -> Value;
    fn code(&mut self, id: &str) -> i64;
    fn parks(&mut self, id: &str) -> String;
    fn told(&mut self, want: &str) -> Value;
    fn over(&mut self);
    fn leaves(&mut self);
}

impl Lent for Bench {
    /// The server opens the session for the proxy.
    fn greet(&mut self, initialize: CallId) {
        let answer = answered(&self.rpc_id(initialize), SERVER);
        self.head(initialize, 200, &[("content-type", "application/json"), ("mcp-session-id", "s1")]);
        self.body(initialize, &answer);
    }

    #[track_caller]
    fn read(&mut self) -> Value {
        serde_json::from_str(&self.line()).unwrap()
    }

    #[track_caller]
    fn result_of(&mut self, id: &str) -> Value {
        let mut message = self.read();
        assert_eq!(message["id"].to_string(), id, "{message}");
        assert!(message["result"].is_object(), "{message}");
        message["result"].take()
    }

    #[track_caller]
    fn code(&mut self, id: &str) -> i64 {
        self.error(id)["code"].as_i64().unwrap()
    }

    /// The client gets questions in place of an answer; returns the state.
    #[track_caller]
    fn parks(&mut self, id: &str) -> String {
        let result = self.result_of(id);
        assert_eq!(result["resultType"], "input_required", "{result}");
        result["requestState"].as_str().unwrap().to_owned()
    }

    /// The server gets this message and accepts it.
    #[track_caller]
    fn told(&mut self, want: &str) -> Value {
        let post = self.called(want);
        self.accept(post);
        self.rpc(post)
    }

    /// Nothing is left: no timer, and the proxy ends at once when its client does.
    #[track_caller]
    fn over(&mut self) {
        self.silent();
        self.wait(20_000);
        self.silent();
        assert_eq!(self.deadline(), None);
        self.eof();
        self.leaves();
    }

    /// The proxy drops its calls, ends the session and exits.
    #[track_caller]
    fn leaves(&mut self) {
        while self.next_is_a_cancel() {
            self.cancelled_any();
        }
        let goodbye = self.called("DELETE");
        self.status(goodbye, 200, "");
        self.exited(Exit::Drained);
    }
}

/// A machine with a session that a `server/discover` opened, without a listening stream.
fn lent_with(set: impl FnOnce(&mut mcp_proxy_core::Config)) -> Bench {
    let mut bench = Bench::with(set);
    bench.say(&modern("\"d\"", "server/discover"));
    let initialize = bench.called("POST initialize ours");
    bench.greet(initialize);
    bench.result_of("\"d\"");
    let initialized = bench.called("POST notifications/initialized");
    bench.accept(initialized);
    let get = bench.called("GET");
    bench.head(get, 405, &[]);
    bench.cancelled(get);
    bench.silent();
    bench
}

fn lent() -> Bench {
    lent_with(|_| {})
}

/// A machine with a call, id 1, whose response is a stream.
fn streaming() -> (Bench, CallId) {
    let mut bench = lent();
    bench.say(&call("1"));
    let stream = bench.called("POST tools/call 1");
    bench.sse(stream);
    (bench, stream)
}

/// A machine with a call, id 1, that the question `q` has parked.
fn parked() -> (Bench, CallId, String) {
    let (mut bench, stream) = streaming();
    bench.event(stream, &elicitation("\"q\""));
    bench.silent();
    bench.wait(40);
    let state = bench.parks("1");
    bench.silent();
    (bench, stream, state)
}

/// The same over HTTP+SSE, with the stream of the session.
fn lent_sse() -> (Bench, CallId) {
    let mut bench = Bench::with(sse);
    bench.say(&modern("\"d\"", "server/discover"));
    let stream = bench.called("GET");
    endpoint(&mut bench, stream, "/messages?s=1");
    let initialize = bench.called("POST initialize ours");
    bench.accept(initialize);
    bench.event(stream, &answered(&bench.rpc_id(initialize), SERVER));
    bench.result_of("\"d\"");
    bench.told("POST notifications/initialized");
    bench.silent();
    (bench, stream)
}

fn calls_sse(bench: &mut Bench, id: &str) {
    bench.say(&call(id));
    bench.told(&format!("POST tools/call {id}"));
}

// ----- the session -----------------------------------------------------------

#[test]
fn the_first_request_opens_a_session_and_goes_without_its_envelope() {
    let mut bench = Bench::new();
    bench.say(&call("1"));
    let initialize = bench.called("POST initialize ours");
    bench.silent();
    assert_eq!(bench.rpc(initialize)["params"]["capabilities"], serde_json::from_str::<Value>(ALL).unwrap());
    bench.greet(initialize);
    let initialized = bench.called("POST notifications/initialized");
    bench.silent();
    bench.accept(initialized);
    bench.called("GET");
    let request = bench.called("POST tools/call 1");
    assert_eq!(
        bench.sent(request),
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{"n":1}}}"#
    );
    assert_eq!(bench.header(request, "mcp-session-id"), Some("s1"));
    assert_eq!(bench.header(request, "mcp-protocol-version"), Some("2025-11-25"));
    bench.json(request, &answered("1", r#"{"content":[]}"#));
    let result = bench.result_of("1");
    assert_eq!((&result["resultType"], &result["content"]), (&json!("complete"), &json!([])));
    bench.silent();
}

#[test]
fn requests_that_come_together_share_one_handshake() {
    for era in [Era::Legacy, Era::Auto] {
        let mut bench = Bench::with(|config| config.era = era);
        for id in 0..20 {
            bench.say(&call(&id.to_string()));
        }
        if era == Era::Auto {
            let probe = bench.called("POST server/discover ours");
            bench.silent();
            bench.json(
                probe,
                &format!(r#"{{"jsonrpc":"2.0","id":{},"error":{{"code":-32601,"message":"?"}}}}"#, bench.rpc_id(probe)),
            );
        }
        let initialize = bench.called("POST initialize ours");
        bench.silent();
        bench.greet(initialize);
        bench.told("POST notifications/initialized");
        bench.called("GET");
        for id in 0..20 {
            let request = bench.called(&format!("POST tools/call {id}"));
            bench.json(request, &result(&id.to_string()));
        }
        for id in 0..20 {
            bench.result_of(&id.to_string());
        }
        bench.silent();
    }
}

#[test]
fn discover_is_answered_by_the_proxy() {
    let mut bench = lent();
    bench.say(&modern("2", "server/discover"));
    let result = bench.result_of("2");
    assert_eq!(result["supportedVersions"], json!(["2026-07-28"]));
    assert_eq!(result["resultType"], "complete");
    bench.over();
}

#[test]
fn a_discover_that_waits_for_a_session_is_under_the_total_limit() {
    let mut bench = Bench::with(|config| config.total_timeout = Some(Duration::from_secs(30)));
    bench.say(&modern("1", "server/discover"));
    bench.called("POST initialize ours");
    bench.wait(29_999);
    bench.silent();
    bench.wait(1);
    let error = bench.error_delivered("1", "no");
    assert!(error.to_string().contains("--total-timeout"), "{error}");
    bench.silent();
}

#[test]
fn requests_that_the_era_does_not_allow_are_refused() {
    let mut bench = lent();
    bench.say(&call("1").replace("2026-07-28", "2027-01-01"));
    assert_eq!(bench.code("1"), -32022);
    bench.say(&call("1").replace("protocolVersion", "other"));
    assert_eq!(bench.code("1"), -32602);
    bench.say(&call("1").replace("clientCapabilities", "other"));
    assert_eq!(bench.code("1"), -32602);
    for method in ["initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"] {
        bench.say(&modern("1", method));
        assert_eq!(bench.code("1"), -32601, "{method}");
    }
    bench.over();
}

/// Whoever opened a legacy session speaks the legacy era: the server answers.
#[test]
fn a_modern_request_in_a_session_of_the_clients_own_is_the_servers() {
    let mut bench = Bench::open();
    for method in ["server/discover", "subscriptions/listen"] {
        bench.say(&modern("7", method));
        let request = bench.called(&format!("POST {method} 7"));
        bench.json(request, r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32601,"message":"?"}}"#);
        assert_eq!(bench.code("7"), -32601);
    }
    bench.over();
}

#[test]
fn a_server_that_refuses_the_session_fails_every_request_once() {
    let mut bench = Bench::new();
    bench.say(&call("1"));
    bench.say(&modern("2", "server/discover"));
    bench.say(&listen("3", r#"{"toolsListChanged":true}"#));
    let initialize = bench.called("POST initialize ours");
    let id = bench.rpc_id(initialize);
    bench.json(initialize, &format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32602,"message":"no"}}}}"#));
    let mut ids: Vec<String> = (0..3).map(|_| bench.read()["id"].to_string()).collect();
    ids.sort();
    assert_eq!(ids, ["1", "2", "3"]);
    bench.silent();
}

#[test]
fn a_session_of_the_clients_own_replaces_the_one_that_the_proxy_is_opening() {
    let mut bench = Bench::new();
    bench.say(&modern("2", "server/discover"));
    bench.say(&call("3"));
    let own = bench.called("POST initialize ours");
    bench.say(INITIALIZE);
    bench.error_delivered("2", "no");
    bench.cancelled(own);
    let theirs = bench.called("POST initialize 0");
    let id = bench.rpc_id(theirs);
    bench.json(theirs, &format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32601,"message":"no"}}}}"#));
    assert_eq!(bench.read()["id"], 0);
    bench.error_delivered("3", "no");
    bench.silent();
    assert_eq!(bench.deadline(), None);
}

/// A machine that could open no session, and whose next request asks for the server's era
/// again: that request's probe.
fn probing_again() -> (Bench, CallId) {
    let mut bench = Bench::with(|config| config.era = Era::Auto);
    bench.say(&call("1"));
    let probe = bench.called("POST server/discover ours");
    bench.status(probe, 404, "");
    let initialize = bench.called("POST initialize ours");
    let refusal = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":"m"}}"#;
    bench.json(initialize, refusal);
    bench.error_delivered("1", "no");
    bench.say(&call("2"));
    let probe = bench.called("POST server/discover ours");
    bench.silent();
    (bench, probe)
}

#[test]
fn a_request_that_asks_for_the_era_replaces_the_wait_for_a_session() {
    let (mut bench, probe) = probing_again();
    bench.wait_for_deadline();
    bench.cancelled(probe);
    let initialize = bench.called("POST initialize ours");
    bench.greet(initialize);
    bench.told("POST notifications/initialized");
}

/// Nobody could answer it, and the server's silence would never count again.
#[test]
fn a_question_in_the_response_to_discover_is_dropped() {
    let mut bench = Bench::with(|config| {
        config.era = Era::Auto;
        config.request_timeout = Some(Duration::from_secs(20));
    });
    bench.say(&call("1"));
    let probe = bench.called("POST server/discover ours");
    bench.json(probe, &elicitation("\"q\""));
    assert_eq!(bench.noted(|note| matches!(note, Note::AskForbidden)), 1);
    let initialize = bench.called("POST initialize ours");
    bench.silent();
    bench.wait(20_000);
    bench.cancelled(initialize);
    assert_eq!(bench.code("1"), -32000);
}

#[test]
fn a_session_is_opened_also_after_a_probe_that_failed() {
    let (mut bench, probe) = probing_again();
    bench.status(probe, 403, "");
    bench.error_delivered("2", "no");
    bench.say(&call("3"));
    let probe = bench.called("POST server/discover ours");
    bench.status(probe, 404, "");
    let initialize = bench.called("POST initialize ours");
    bench.greet(initialize);
    bench.told("POST notifications/initialized");
    bench.called("GET");
    bench.called("POST tools/call 3");
}

#[test]
fn results_are_stamped_and_errors_mapped() {
    let mut bench = lent();
    bench.say(&modern("1", "tools/list"));
    let list = bench.called("POST tools/list 1");
    bench.json(list, &answered("1", r#"{"tools":[]}"#));
    let result = bench.result_of("1");
    assert_eq!(
        (&result["resultType"], &result["ttlMs"], &result["cacheScope"]),
        (&json!("complete"), &json!(0), &json!("private"))
    );
    assert_eq!(result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "s");
    bench.say(&modern_with("2", "resources/read", r#""uri":"u","#, ALL, ""));
    let read = bench.called("POST resources/read 2");
    bench.json(read, r#"{"jsonrpc":"2.0","id":2,"error":{"code":-32002,"message":"none"}}"#);
    let error = bench.error("2");
    assert_eq!((&error["code"], &error["data"]["uri"]), (&json!(-32602), &json!("u")));
    bench.say(&call("3"));
    let third = bench.called("POST tools/call 3");
    bench.status(third, 400, r#"{"jsonrpc":"2.0","id":3,"error":{"code":-32050,"message":"own"}}"#);
    assert_eq!(bench.code("3"), -32603);
    bench.over();
}

// ----- questions -------------------------------------------------------------

#[test]
fn a_question_parks_its_call_and_the_retry_continues_it() {
    let (mut bench, stream) = streaming();
    bench.event(stream, &elicitation("\"q\""));
    bench.wait(39);
    bench.silent();
    bench.wait(1);
    let result = bench.result_of("1");
    assert_eq!(result["resultType"], "input_required");
    assert_eq!(result["inputRequests"], json!({"q": {"method": "elicitation/create", "params": {"message": "?"}}}));
    let state = result["requestState"].as_str().unwrap().to_owned();
    bench.silent();
    bench.say(&retry("2", &state, YES));
    let answer = bench.called("POST answer \"q\"");
    assert_eq!(bench.sent(answer), answered("\"q\"", r#"{"action":"accept"}"#));
    bench.accept(answer);
    bench.event(stream, &result_of_tool("1"));
    assert_eq!(bench.result_of("2")["resultType"], "complete");
    bench.end(stream);
    bench.over();
}

fn result_of_tool(id: &str) -> String {
    answered(id, r#"{"content":[]}"#)
}

#[test]
fn ids_of_questions_keep_their_spelling() {
    for (id, key) in [("7", "7"), ("\"7\"", "\\\"7\\\""), ("\"\\u0071\"", "q")] {
        let (mut bench, stream) = streaming();
        bench.event(stream, &elicitation(id));
        bench.wait(40);
        let state = bench.parks("1");
        bench.say(&retry("2", &state, &format!(r#"{{"{key}":{{}}}}"#)));
        let answer = bench.called_last();
        assert_eq!(bench.sent(answer), answered(id, "{}"));
        bench.accept(answer);
        bench.event(stream, &result_of_tool("1"));
        bench.result_of("2");
        bench.end(stream);
        bench.over();
    }
}

#[test]
fn questions_within_the_window_share_a_round_and_later_ones_wait_for_the_next() {
    let (mut bench, stream) = streaming();
    bench.event(stream, &elicitation("\"a\""));
    bench.wait(39);
    bench.event(stream, &elicitation("\"b\""));
    bench.wait(1);
    let result = bench.result_of("1");
    assert_eq!(result["inputRequests"].as_object().unwrap().len(), 2);
    let first = result["requestState"].as_str().unwrap().to_owned();
    bench.event(stream, &elicitation("\"c\""));
    bench.wait(1000);
    bench.silent();
    bench.say(&retry("2", &first, r#"{"b":{"n":2},"a":{"n":1}}"#));
    assert_eq!(bench.told("POST answer \"a\"")["result"]["n"], 1);
    assert_eq!(bench.told("POST answer \"b\"")["result"]["n"], 2);
    bench.wait(1);
    let result = bench.result_of("2");
    assert_eq!(result["inputRequests"].as_object().unwrap().keys().collect::<Vec<_>>(), ["c"]);
    let second = result["requestState"].as_str().unwrap().to_owned();
    assert_ne!(first, second);
    bench.say(&retry("3", &second, r#"{"c":{}}"#));
    bench.told("POST answer \"c\"");
    bench.event(stream, &elicitation("\"d\""));
    bench.wait(40);
    let third = bench.parks("3");
    bench.say(&retry("4", &third, r#"{"d":{}}"#));
    bench.told("POST answer \"d\"");
    bench.event(stream, &result_of_tool("1"));
    bench.result_of("4");
    bench.end(stream);
    bench.over();
}

#[test]
fn a_retry_that_answers_some_questions_is_asked_for_the_rest() {
    let (mut bench, stream) = streaming();
    bench.event(stream, &elicitation("\"a\""));
    bench.event(stream, &elicitation("\"b\""));
    bench.wait(40);
    let state = bench.parks("1");
    bench.say(&retry("2", &state, r#"{"b":{},"a":7,"x":{}}"#));
    bench.told("POST answer \"b\"");
    bench.wait(0);
    let state = bench.parks("2");
    bench.say(&retry("3", &state, r#"{}"#));
    bench.wait(0);
    let state = bench.parks("3");
    bench.say(&retry("4", &state, r#"{"a":{}}"#));
    bench.told("POST answer \"a\"");
    bench.event(stream, &result_of_tool("1"));
    bench.result_of("4");
    bench.end(stream);
    bench.over();
}

/// The old id has its answer, so it is free: for the retry, and for another call.
#[test]
fn the_id_of_a_parked_call_can_be_used_again() {
    let (mut bench, stream, state) = parked();
    bench.say(&call("1"));
    let second = bench.called_last();
    assert_ne!(bench.rpc_id(second), "1", "the server would confuse the two");
    bench.say(&retry("2", &state, YES));
    bench.told("POST answer \"q\"");
    let own = bench.rpc_id(second);
    bench.json(second, &answered(&own, r#"{"content":[2]}"#));
    assert_eq!(bench.result_of("1")["content"], json!([2]));
    bench.event(stream, &answered("1", r#"{"content":[1]}"#));
    assert_eq!(bench.result_of("2")["content"], json!([1]));
    bench.end(stream);
    bench.over();
}

#[test]
fn a_retry_may_have_the_id_of_the_first_request() {
    for transport in ["streamable", "sse"] {
        let (mut bench, stream, state) = if transport == "sse" {
            let (mut bench, stream) = lent_sse();
            calls_sse(&mut bench, "\"1\"");
            bench.event(stream, &elicitation("\"q\""));
            bench.wait(40);
            let state = bench.parks("\"1\"");
            (bench, stream, state)
        } else {
            parked()
        };
        let id = if transport == "sse" { "\"1\"" } else { "1" };
        bench.say(&retry(id, &state, YES));
        bench.told("POST answer \"q\"");
        bench.event(stream, &result_of_tool(id));
        assert_eq!(bench.result_of(id)["resultType"], "complete", "{transport}");
        bench.silent();
    }
}

#[test]
fn the_order_and_spacing_of_a_repeated_request_may_follow_its_new_members() {
    let (mut bench, stream) = {
        let mut bench = lent();
        let meta = r#""_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}}}"#;
        bench.say(&format!(r#"{{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {{{meta}, "name": "t", "arguments": {{"n": 1}}}}}}"#));
        let stream = bench.called("POST tools/call 1");
        bench.sse(stream);
        (bench, stream)
    };
    bench.event(stream, &elicitation("\"q\""));
    bench.wait(40);
    let state = bench.parks("1");
    let meta = r#""_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}}}"#;
    let more = format!(r#""inputResponses": {YES}, "requestState": "{state}""#);
    bench.say(&format!(r#"{{"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {{"name": "t", {more}, "arguments": {{"n": 1}}, {meta}}}}}"#));
    bench.told("POST answer \"q\"");
    bench.event(stream, &result_of_tool("1"));
    bench.result_of("2");
    bench.end(stream);
    bench.over();
}

// ----- states that do not fit ------------------------------------------------

/// Ends a parked call well.
fn finish(mut bench: Bench, stream: CallId, state: &str) {
    bench.silent();
    bench.say(&retry("\"last\"", state, YES));
    bench.told("POST answer \"q\"");
    bench.event(stream, &result_of_tool("1"));
    bench.result_of("\"last\"");
    bench.end(stream);
    bench.over();
}

#[test]
fn a_state_that_does_not_fit_is_refused_and_nothing_runs() {
    let (mut bench, stream, state) = parked();
    let wrong = [
        retry("2", "other", YES),
        retry("2", &state.to_uppercase().replace(['0', '1', '2', '3'], "x"), YES),
        retry("2", "", YES),
        retry("2", &state, YES).replace("\"t\"", "\"u\""),
        retry("2", &state, YES).replace("\"n\":1", "\"n\":2"),
        retry("2", &state, YES).replace("tools/call", "prompts/get"),
        retry("2", &state, "[]"),
        retry("2", &state, "7"),
        retry("2", &state, YES).replace(&format!("\"{state}\""), "7"),
    ];
    for line in wrong {
        bench.say(&line);
        let error = bench.error("2");
        assert_eq!(error["code"], -32602, "{line}: {error}");
        bench.silent();
    }
    finish(bench, stream, &state);
}

#[test]
fn a_state_is_used_once() {
    let (mut bench, stream, state) = parked();
    bench.say(&retry("2", &state, YES));
    bench.say(&retry("3", &state, YES));
    bench.told("POST answer \"q\"");
    assert_eq!(bench.code("3"), -32602);
    bench.event(stream, &result_of_tool("1"));
    bench.result_of("2");
    bench.say(&retry("4", &state, YES));
    assert_eq!(bench.code("4"), -32602);
    bench.end(stream);
    bench.over();
}

#[test]
fn a_client_that_does_not_come_back_is_given_up() {
    let (mut bench, stream, state) = parked();
    bench.wait(TEN_MINUTES - 1);
    bench.silent();
    bench.wait(1);
    let refused = bench.told("POST answer \"q\"");
    assert_eq!(refused["error"]["code"], -32603);
    let cancelled = bench.told("POST notifications/cancelled");
    assert_eq!(cancelled["params"]["requestId"], 1);
    bench.say(&retry("2", &state, YES));
    assert_eq!(bench.code("2"), -32602);
    bench.event(stream, &result_of_tool("1"));
    bench.end(stream);
    bench.over();
}

// ----- what happens meanwhile ------------------------------------------------

#[test]
fn an_answer_that_comes_while_parked_waits_for_the_retry() {
    let (mut bench, stream, state) = parked();
    bench.event(stream, &answered("1", r#"{"content":[5]}"#));
    bench.end(stream);
    bench.wait(1000);
    bench.silent();
    bench.say(&retry("2", &state, YES));
    assert_eq!(bench.result_of("2")["content"], json!([5]));
    bench.over();
}

#[test]
fn reports_that_come_while_parked_wait_for_the_retry() {
    for answered in [false, true] {
        let mut bench = lent();
        let level = level("warning");
        bench.say(&call_with("1", &format!(r#"{level},"progressToken":"p""#)));
        let set = bench.called("POST logging/setLevel ours");
        bench.json(set, &result(&bench.rpc_id(set)));
        let stream = bench.called("POST tools/call 1");
        bench.sse(stream);
        bench.event(stream, &elicitation("\"q\""));
        bench.wait(40);
        let state = bench.parks("1");
        bench.event(stream, &progress("\"p\""));
        for level in ["info", "error", "alert"] {
            bench.event(stream, &log(level));
        }
        if answered {
            bench.event(stream, &result_of_tool("1"));
            bench.end(stream);
        }
        bench.silent();
        let again = r#","io.modelcontextprotocol/logLevel":"alert","progressToken":"r""#;
        bench.say(&retry_with("2", &state, YES, again));
        assert_eq!(bench.read()["params"], json!({"progress": 1, "progressToken": "r"}));
        bench.wrote(&log("alert"));
        if !answered {
            bench.told("POST answer \"q\"");
            bench.event(stream, &result_of_tool("1"));
            bench.end(stream);
        }
        bench.result_of("2");
        bench.over();
    }
}

#[test]
fn a_flood_of_reports_while_parked_leaves_the_last_ones() {
    let mut bench = lent();
    bench.say(&call_with("1", r#","progressToken":"p""#));
    let stream = bench.called("POST tools/call 1");
    bench.sse(stream);
    bench.event(stream, &elicitation("\"q\""));
    bench.wait(40);
    let state = bench.parks("1");
    let progress = |step: u32| {
        let params = format!(r#"{{"progressToken":"p","progress":{step}}}"#);
        format!(r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{params}}}"#)
    };
    for step in 0..1000 {
        bench.event(stream, &progress(step));
    }
    bench.silent();
    bench.say(&retry_with("2", &state, YES, r#","progressToken":"p""#));
    for step in 968..1000 {
        assert_eq!(bench.read()["params"]["progress"], step);
    }
    bench.told("POST answer \"q\"");
    bench.event(stream, &result_of_tool("1"));
    bench.end(stream);
    bench.result_of("2");
    bench.over();
}

#[test]
fn a_call_that_is_answered_and_never_fetched_is_forgotten_in_silence() {
    let (mut bench, stream, state) = parked();
    bench.event(stream, &result_of_tool("1"));
    bench.end(stream);
    bench.wait(TEN_MINUTES);
    bench.say(&retry("2", &state, YES));
    assert_eq!(bench.code("2"), -32602);
    bench.over();
}

#[test]
fn an_answer_within_the_window_needs_no_round() {
    let (mut bench, stream) = streaming();
    bench.event(stream, &elicitation("\"q\""));
    bench.event(stream, &result_of_tool("1"));
    bench.result_of("1");
    bench.end(stream);
    bench.wait(100);
    bench.over();
}

#[test]
fn a_stream_that_dies_while_parked_ends_the_call() {
    let (mut bench, stream, state) = parked();
    bench.fail(stream, CallError::Reset);
    bench.silent();
    bench.say(&retry("2", &state, YES));
    assert_eq!(bench.code("2"), -32602);
    bench.over();
}

#[test]
fn the_stream_of_an_http_sse_session_dies_while_parked() {
    for method in ["tools/call", "prompts/get"] {
        let (mut bench, stream) = lent_sse();
        let params = r#""name":"t","arguments":{"n":1},"#;
        bench.say(&modern_with("1", method, params, ALL, ""));
        bench.told(&format!("POST {method} 1"));
        bench.event(stream, &elicitation("\"q\""));
        bench.wait(40);
        let state = bench.parks("1");
        bench.end(stream);
        bench.say(&retry("2", &state, YES).replace("tools/call", method));
        assert_eq!(bench.code("2"), -32602);
        assert!(bench.posts().is_empty(), "{:?}", bench.posts());
    }
}

#[test]
fn a_lost_session_ends_what_it_parked() {
    let (mut bench, stream, state) = parked();
    bench.say(&modern("5", "tools/list"));
    let list = bench.called("POST tools/list 5");
    bench.head(list, 404, &[]);
    bench.cancelled(list);
    let initialize = bench.called("POST initialize ours");
    bench.greet(initialize);
    bench.told("POST notifications/initialized");
    bench.called("GET");
    let list = bench.called("POST tools/list 5");
    bench.silent();
    bench.say(&retry("2", &state, YES));
    assert_eq!(bench.code("2"), -32602);
    // The new session may use the same id for another question.
    bench.say(&call("6"));
    let second = bench.called("POST tools/call 6");
    bench.sse(second);
    bench.event(second, &elicitation("\"q\""));
    bench.wait(40);
    bench.parks("6");
    bench.json(list, &result("5"));
    bench.result_of("5");
    bench.end(stream);
    bench.silent();
}

#[test]
fn a_client_that_closes_its_side_abandons_what_is_parked() {
    let (mut bench, _, _) = parked();
    bench.eof();
    bench.told("POST answer \"q\"");
    let cancelled = bench.told("POST notifications/cancelled");
    assert_eq!(cancelled["params"]["requestId"], 1);
    bench.leaves();
}

#[test]
fn questions_of_a_client_that_closed_its_side_are_refused() {
    for asks_first in [true, false] {
        let (mut bench, stream) = streaming();
        if asks_first {
            bench.event(stream, &elicitation("\"q\""));
        }
        bench.eof();
        if !asks_first {
            bench.event(stream, &elicitation("\"q\""));
        }
        assert!(bench.told("POST answer \"q\"")["error"].is_object());
        bench.wait(100);
        bench.silent();
        bench.event(stream, &result_of_tool("1"));
        bench.result_of("1");
        bench.leaves();
    }
}

#[test]
fn a_cancelled_call_is_cancelled_under_the_id_that_the_server_knows() {
    let (mut bench, stream) = streaming();
    bench.event(stream, &elicitation("\"q\""));
    bench.say(&cancel("1"));
    assert_eq!(bench.told("POST notifications/cancelled")["params"]["requestId"], 1);
    bench.wait(100);
    bench.end(stream);
    bench.over();

    let (mut bench, stream, state) = parked();
    bench.say(&cancel("1"));
    bench.silent();
    bench.say(&retry("2", &state, YES));
    bench.told("POST answer \"q\"");
    bench.say(&cancel("2"));
    assert_eq!(bench.told("POST notifications/cancelled")["params"]["requestId"], 1);
    bench.event(stream, &result_of_tool("1"));
    bench.end(stream);
    bench.over();
}

#[test]
fn a_server_that_withdraws_its_question_is_not_answered() {
    let withdrawn = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"q"}}"#;
    let (mut bench, stream) = streaming();
    bench.event(stream, &elicitation("\"q\""));
    bench.event(stream, withdrawn);
    bench.wait(1000);
    bench.silent();
    bench.event(stream, &result_of_tool("1"));
    bench.result_of("1");
    bench.end(stream);
    bench.over();

    let (mut bench, stream, state) = parked();
    bench.event(stream, withdrawn);
    bench.silent();
    bench.say(&retry("2", &state, YES));
    bench.silent();
    bench.event(stream, &result_of_tool("1"));
    bench.result_of("2");
    bench.end(stream);
    bench.over();
}

/// Silence counts from the answer, not from the question.
#[test]
fn the_server_gets_its_time_after_the_client_took_its_own() {
    let mut bench = lent_with(|config| config.request_timeout = Some(Duration::from_secs(60)));
    bench.say(&call("1"));
    let stream = bench.called("POST tools/call 1");
    bench.sse(stream);
    bench.event(stream, &elicitation("\"q\""));
    bench.wait(40);
    let state = bench.parks("1");
    bench.wait(59_000);
    bench.say(&retry("2", &state, YES));
    bench.told("POST answer \"q\"");
    bench.wait(30_000);
    bench.silent();
    bench.event(stream, &result_of_tool("1"));
    bench.result_of("2");
    bench.end(stream);
    bench.over();
}

#[test]
fn a_parked_call_does_not_excuse_the_server_for_another() {
    let mut bench = lent_with(|config| config.request_timeout = Some(Duration::from_secs(60)));
    bench.say(&call("1"));
    let stream = bench.called("POST tools/call 1");
    bench.sse(stream);
    bench.event(stream, &elicitation("\"q\""));
    bench.wait(40);
    bench.parks("1");
    bench.say(&call("2"));
    let silent = bench.called("POST tools/call 2");
    bench.wait(60_000);
    bench.cancelled(silent);
    bench.error_delivered("2", "maybe");
    bench.told("POST notifications/cancelled");
    bench.silent();
}

// ----- questions that no call can carry --------------------------------------

#[test]
fn a_question_that_the_request_cannot_be_asked_fails_it() {
    let mut bench = lent();
    bench.say(&modern_with("1", "tools/call", r#""name":"t","#, "{}", ""));
    let stream = bench.called("POST tools/call 1");
    bench.sse(stream);
    bench.event(stream, r#"{"jsonrpc":"2.0","id":9,"method":"sampling/createMessage","params":{}}"#);
    let error = bench.error("1");
    assert_eq!((&error["code"], &error["data"]["requiredCapabilities"]), (&json!(-32021), &json!({"sampling": {}})));
    assert!(bench.told("POST answer 9")["error"].is_object());
    assert_eq!(bench.told("POST notifications/cancelled")["params"]["requestId"], 1);
    bench.event(stream, &result_of_tool("1"));
    bench.end(stream);
    bench.over();
}

/// Each request has its own capabilities, so has the repeated one.
#[test]
fn a_retry_declares_what_the_next_round_may_ask() {
    let (mut bench, stream, state) = parked();
    bench.say(&retry("2", &state, YES).replace(ALL, r#"{"elicitation":{}}"#));
    bench.told("POST answer \"q\"");
    bench.event(stream, r#"{"jsonrpc":"2.0","id":9,"method":"roots/list"}"#);
    assert_eq!(bench.code("2"), -32021);
    assert!(bench.told("POST answer 9")["error"].is_object());
    assert_eq!(bench.told("POST notifications/cancelled")["params"]["requestId"], 1);
    bench.end(stream);
    bench.over();
}

#[test]
fn only_requests_that_may_ask_for_input_are_parked() {
    let mut bench = lent();
    bench.say(&modern("1", "tools/list"));
    let stream = bench.called("POST tools/list 1");
    bench.sse(stream);
    bench.event(stream, r#"{"jsonrpc":"2.0","id":9,"method":"roots/list"}"#);
    assert!(bench.told("POST answer 9")["error"].is_object());
    bench.wait(100);
    bench.event(stream, &answered("1", r#"{"tools":[]}"#));
    bench.result_of("1");
    bench.end(stream);
    bench.over();
}

#[test]
fn a_server_is_answered_outside_of_any_call() {
    let (mut bench, stream) = lent_sse();
    bench.event(stream, r#"{"jsonrpc":"2.0","id":1,"method":"roots/list"}"#);
    assert!(bench.told("POST answer 1")["error"].is_object());
    bench.event(stream, r#"{"jsonrpc":"2.0","id":2,"method":"ping"}"#);
    assert!(bench.told("POST answer 2")["result"].is_object());
    bench.event(stream, r#"{"jsonrpc":"2.0","id":3,"method":"tasks/get"}"#);
    assert_eq!(bench.told("POST answer 3")["error"]["code"], -32601);
    bench.silent();
}

#[test]
fn on_one_stream_a_question_belongs_to_the_only_call_that_can_carry_it() {
    let (mut bench, stream) = lent_sse();
    calls_sse(&mut bench, "1");
    bench.say(&modern_with("2", "tools/call", r#""name":"t","#, "{}", ""));
    bench.told("POST tools/call 2");
    bench.event(stream, &elicitation("\"q\""));
    bench.wait(40);
    let state = bench.parks("1");
    calls_sse(&mut bench, "3");
    bench.event(stream, &elicitation("\"r\""));
    assert!(bench.told("POST answer \"r\"")["error"].is_object());
    bench.event(stream, &result_of_tool("1"));
    // What is answered asks nothing.
    bench.event(stream, &elicitation("\"s\""));
    bench.wait(40);
    bench.parks("3");
    bench.say(&retry("4", &state, YES));
    bench.result_of("4");
    bench.event(stream, &result_of_tool("2"));
    bench.result_of("2");
    bench.silent();
}

/// 2025-11-25: the server wants the user to open pages first.
#[test]
fn a_call_that_needs_urls_first_is_sent_again() {
    let required = r#"{"code":-32042,"message":"first","data":{"elicitations":[{"mode":"url","elicitationId":"e","url":"https://h/","message":"?"}]}}"#;
    let refusal = |id: &str| format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{required}}}"#);
    let mut bench = lent();
    bench.say(&call("1"));
    let first = bench.called("POST tools/call 1");
    bench.json(first, &refusal("1"));
    let result = bench.result_of("1");
    let question =
        json!({"method": "elicitation/create", "params": {"mode": "url", "url": "https://h/", "message": "?"}});
    assert_eq!(result["inputRequests"], json!({ "url-0": question }));
    let state = result["requestState"].as_str().unwrap().to_owned();
    let visited = retry("2", &state, r#"{"url-0":{"action":"accept"}}"#);
    for forged in [visited.replace(r#""n":1"#, r#""n":2"#), visited.replace(&state, "again")] {
        bench.say(&forged);
        assert_eq!(bench.code("2"), -32602);
    }
    bench.say(&visited);
    let second = bench.called("POST tools/call 2");
    assert_eq!(bench.rpc(second)["params"], json!({"name": "t", "arguments": {"n": 1}}));
    bench.json(second, &result_of_tool("2"));
    bench.result_of("2");
    bench.say(&visited);
    assert_eq!(bench.code("2"), -32602);
    bench.say(&modern_with("3", "tools/call", r#""name":"t","#, r#"{"elicitation":{}}"#, ""));
    let third = bench.called("POST tools/call 3");
    bench.json(third, &refusal("3"));
    assert_eq!(bench.code("3"), -32021);
    bench.over();
}

// ----- progress, logs, subscriptions -----------------------------------------

#[test]
fn progress_comes_under_the_token_of_the_current_request() {
    for (first, second, want) in
        [("\"p\"", Some("\"r\""), Some("\"r\"")), ("7", Some("7"), Some("7")), ("\"p\"", None, None)]
    {
        let mut bench = lent();
        bench.say(&call_with("1", &format!(r#","progressToken":{first}"#)));
        let stream = bench.called("POST tools/call 1");
        assert_eq!(bench.rpc(stream)["params"]["_meta"]["progressToken"].to_string(), first);
        bench.sse(stream);
        bench.event(stream, &progress(first));
        bench.wrote(&progress(first));
        bench.event(stream, &elicitation("\"q\""));
        bench.wait(40);
        let state = bench.parks("1");
        bench.event(stream, &progress(first));
        bench.silent();
        let meta = second.map(|token| format!(r#","progressToken":{token}"#)).unwrap_or_default();
        bench.say(&retry_with("2", &state, YES, &meta));
        let reported = |bench: &mut Bench| {
            if let Some(token) = want {
                assert_eq!(bench.read()["params"]["progressToken"].to_string(), token);
            }
        };
        reported(&mut bench);
        bench.told("POST answer \"q\"");
        bench.event(stream, &progress(first));
        reported(&mut bench);
        bench.silent();
        bench.event(stream, &result_of_tool("1"));
        bench.result_of("2");
        bench.event(stream, &progress(first));
        bench.end(stream);
        bench.over();
    }
}

fn level(level: &str) -> String {
    format!(r#","io.modelcontextprotocol/logLevel":"{level}""#)
}

#[test]
fn log_messages_pass_from_the_level_of_their_request() {
    let mut bench = lent();
    bench.say(&call("1"));
    let plain = bench.called("POST tools/call 1");
    bench.sse(plain);
    bench.say(&call_with("2", &level("warning")));
    let set = bench.called("POST logging/setLevel ours");
    assert_eq!(bench.rpc(set)["params"]["level"], "warning");
    bench.json(set, &result(&bench.rpc_id(set)));
    let warns = bench.called("POST tools/call 2");
    bench.sse(warns);
    for (stream, said, heard) in [(plain, "error", 0), (warns, "info", 0), (warns, "warning", 1), (warns, "alert", 1)] {
        bench.event(stream, &log(said));
        (0..heard).for_each(|_| bench.wrote(&log(said)));
        bench.silent();
    }
    // A running request keeps what it asked for.
    bench.say(&call_with("3", &level("error")));
    bench.called("POST tools/call 3");
    bench.silent();
    // The client of a parked request is away.
    bench.event(warns, &elicitation("\"q\""));
    bench.wait(40);
    bench.parks("2");
    bench.event(warns, &log("alert"));
    bench.silent();
}

#[test]
fn a_retry_that_wants_more_log_messages_gets_them() {
    let (mut bench, stream, state) = parked();
    bench.say(&retry_with("2", &state, YES, &level("debug")));
    let set = bench.called("POST logging/setLevel ours");
    assert_eq!(bench.rpc(set)["params"]["level"], "debug");
    bench.json(set, &result(&bench.rpc_id(set)));
    bench.told("POST answer \"q\"");
    bench.event(stream, &log("debug"));
    bench.wrote(&log("debug"));
    bench.event(stream, &result_of_tool("1"));
    bench.end(stream);
    bench.result_of("2");
    bench.over();
}

#[test]
fn a_new_session_gets_the_log_level_first() {
    let mut bench = Bench::new();
    bench.say(&call_with("1", &level("info")));
    let initialize = bench.called("POST initialize ours");
    bench.greet(initialize);
    bench.told("POST notifications/initialized");
    bench.called("GET");
    let set = bench.called("POST logging/setLevel ours");
    bench.json(set, &result(&bench.rpc_id(set)));
    let request = bench.called("POST tools/call 1");
    bench.json(request, &result("1"));
    bench.result_of("1");
    bench.silent();
    bench.say(&call_with("2", &level("info")));
    let request = bench.called("POST tools/call 2");
    bench.silent();
    bench.head(request, 404, &[]);
    bench.cancelled(request);
    let initialize = bench.called("POST initialize ours");
    bench.greet(initialize);
    bench.told("POST notifications/initialized");
    bench.cancelled_any();
    bench.called("GET");
    bench.called("POST logging/setLevel ours");
    bench.called("POST tools/call 2");
    bench.silent();
}

#[test]
fn a_listen_is_acknowledged_first_and_gets_what_it_asked_for() {
    let (mut bench, stream) = lent_sse();
    for id in ["7", "\"7\""] {
        bench.say(&listen(id, r#"{"toolsListChanged":true,"resourcesListChanged":true}"#));
        let ack = bench.read();
        assert_eq!(ack["method"], "notifications/subscriptions/acknowledged");
        assert_eq!(ack["params"]["notifications"], json!({"toolsListChanged": true}));
        assert_eq!(ack["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"].to_string(), id);
    }
    bench.event(stream, &note("notifications/prompts/list_changed"));
    bench.event(stream, &log("error"));
    bench.silent();
    bench.event(stream, &note("notifications/tools/list_changed"));
    for id in ["7", "\"7\""] {
        let change = bench.read();
        assert_eq!(change["method"], "notifications/tools/list_changed");
        assert_eq!(change["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"].to_string(), id);
    }
    bench.say(&cancel("7"));
    bench.event(stream, &note("notifications/tools/list_changed"));
    assert_eq!(bench.read()["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], "7");
    bench.say(&listen("8", "[]"));
    assert_eq!(bench.code("8"), -32602);
    bench.silent();
}

#[test]
fn a_listen_that_opens_the_session_subscribes_after_the_handshake() {
    let mut bench = Bench::new();
    bench.say(&listen("\"l\"", r#"{"promptsListChanged":true,"resourceSubscriptions":["a","b"]}"#));
    let initialize = bench.called("POST initialize ours");
    bench.greet(initialize);
    bench.told("POST notifications/initialized");
    let get = bench.called("GET");
    bench.sse(get);
    let a = bench.called("POST resources/subscribe ours");
    let b = bench.called("POST resources/subscribe ours");
    bench.json(a, &result(&bench.rpc_id(a)));
    bench.silent();
    bench.json(b, &format!(r#"{{"jsonrpc":"2.0","id":{},"error":{{"code":-32602,"message":"no"}}}}"#, bench.rpc_id(b)));
    let ack = bench.read();
    assert_eq!(ack["params"]["notifications"], json!({"promptsListChanged": true, "resourceSubscriptions": ["a"]}));
    let updated =
        |uri| format!(r#"{{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{{"uri":"{uri}"}}}}"#);
    bench.event(get, &updated("b"));
    bench.silent();
    bench.event(get, &updated("a"));
    assert_eq!(bench.read()["params"]["uri"], "a");
    bench.silent();
}

#[test]
fn a_resource_is_unsubscribed_with_the_last_listen_that_names_it() {
    let mut bench = lent();
    for (id, resources) in [("1", r#"["a","b"]"#), ("2", r#"["b"]"#)] {
        bench.say(&listen(id, &format!(r#"{{"resourceSubscriptions":{resources}}}"#)));
        for _ in resources.split(',') {
            let subscribe = bench.called("POST resources/subscribe ours");
            bench.json(subscribe, &result(&bench.rpc_id(subscribe)));
        }
        assert_eq!(bench.read()["method"], "notifications/subscriptions/acknowledged");
    }
    for (id, uri) in [("1", "a"), ("2", "b")] {
        bench.say(&cancel(id));
        assert_eq!(bench.told("POST resources/unsubscribe ours")["params"]["uri"], uri);
        bench.silent();
    }
}

#[test]
fn a_listen_is_told_of_changes_that_a_replaced_session_may_have_missed() {
    let (mut bench, stream) = lent_sse();
    bench.say(&listen("1", r#"{"toolsListChanged":true}"#));
    assert_eq!(bench.read()["method"], "notifications/subscriptions/acknowledged");
    bench.end(stream);
    bench.wait_for_deadline();
    let stream = bench.called("GET");
    endpoint(&mut bench, stream, "/messages?s=2");
    let initialize = bench.called("POST initialize ours");
    bench.accept(initialize);
    bench.event(stream, &answered(&bench.rpc_id(initialize), SERVER));
    let change = bench.read();
    assert_eq!(change["method"], "notifications/tools/list_changed");
    assert_eq!(change["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 1);
    bench.told("POST notifications/initialized");
    bench.silent();
}

#[test]
fn a_listen_opens_a_session_in_place_of_a_lost_one() {
    let (mut bench, stream) = lent_sse();
    bench.end(stream);
    bench.silent();
    bench.say(&listen("1", r#"{"toolsListChanged":true}"#));
    let stream = bench.called("GET");
    endpoint(&mut bench, stream, "/messages?s=2");
    let initialize = bench.called("POST initialize ours");
    bench.accept(initialize);
    bench.event(stream, &answered(&bench.rpc_id(initialize), SERVER));
    assert_eq!(bench.read()["method"], "notifications/subscriptions/acknowledged");
    bench.told("POST notifications/initialized");
    bench.event(stream, &note("notifications/tools/list_changed"));
    assert_eq!(bench.read()["method"], "notifications/tools/list_changed");
    bench.silent();
}

#[test]
fn ids_of_a_kibibyte_are_carried_and_longer_ones_refused() {
    let id = format!("\"{}\"", "i".repeat(1022));
    let mut bench = lent();
    bench.say(&call(&id));
    let stream = bench.called(&format!("POST tools/call {id}"));
    bench.sse(stream);
    bench.event(stream, &elicitation(&id.replace('i', "qq")));
    bench.wait(100);
    bench.silent();
    assert_eq!(bench.noted(|note| matches!(note, Note::AskDropped)), 1);
    bench.event(stream, &elicitation(&id));
    bench.wait(40);
    let state = bench.parks(&id);
    bench.say(&retry(&id, &state, &format!("{{{id}:{{}}}}")));
    bench.told(&format!("POST answer {id}"));
    bench.event(stream, &result_of_tool(&id));
    bench.result_of(&id);
    bench.end(stream);
    bench.over();
}

/// A listen never ends by itself, so it must not keep the process.
#[test]
fn a_client_that_closes_its_side_ends_its_listen() {
    let mut bench = lent();
    bench.say(&listen("\"l\"", r#"{"toolsListChanged":true}"#));
    bench.read();
    bench.eof();
    let result = bench.result_of("\"l\"");
    assert_eq!(result["_meta"]["io.modelcontextprotocol/subscriptionId"], "l");
    bench.leaves();
}

#[test]
fn a_server_that_only_asks_and_takes_no_answers_is_not_answered_forever() {
    let (mut bench, stream) = lent_sse();
    for id in 0..1100 {
        bench.event(stream, &request(&id.to_string(), "ping"));
    }
    assert_eq!(bench.started().len(), 1000);
    assert_eq!(bench.noted(|note| matches!(note, Note::AskDropped)), 100);
}

/// HTTP+SSE does not say which request a question belongs to; the only one is clear.
#[test]
fn over_http_sse_a_question_that_the_only_request_cannot_answer_fails_it() {
    let (mut bench, stream) = lent_sse();
    bench.say(&modern_with("1", "tools/call", r#""name":"t","#, "{}", ""));
    bench.told("POST tools/call 1");
    bench.event(stream, &elicitation("\"q\""));
    assert_eq!(bench.code("1"), -32021);
    bench.told("POST answer \"q\"");
    bench.told("POST notifications/cancelled");
}
