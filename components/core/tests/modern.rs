//! A legacy client before a modern server, and a modern client before one: what the proxy
//! answers itself, what it adds to a request, and what it leaves of an answer.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests fail by panicking")]

mod common;

use common::modern::*;
use common::*;
use mcp_proxy_core::{CallError, CallId, Note};
use serde_json::{Value, json};

fn read(line: &str) -> Value {
    serde_json::from_str(line).unwrap()
}

// ----- what the proxy answers ----------------------------------------------------

#[test]
fn initialize_is_answered_with_what_discover_says() {
    let (mut bench, probe) = probing();
    discovered(&mut bench, probe, CAPABILITIES);
    let answer = read(&bench.line());
    let result = &answer["result"];
    assert_eq!(answer["id"], 0);
    assert_eq!(result["protocolVersion"], "2025-11-25");
    assert_eq!(result["capabilities"], serde_json::from_str::<Value>(CAPABILITIES).unwrap());
    assert_eq!(result["serverInfo"], json!({ "name": "s", "version": "1" }));
    for member in ["resultType", "ttlMs", "cacheScope", "supportedVersions"] {
        assert_eq!(result.get(member), None, "{member}");
    }
    bench.silent();
}

#[test]
fn the_version_is_the_clients_if_it_is_known() {
    for (offered, want) in [("2024-11-05", "2024-11-05"), ("2025-06-18", "2025-06-18"), ("2099-01-01", "2025-11-25")] {
        let mut bench = Bench::with(auto);
        bench.say(&INITIALIZE.replace("2025-11-25", offered));
        let probe = bench.called("POST server/discover ours");
        discovered(&mut bench, probe, "{}");
        assert_eq!(read(&bench.line())["result"]["protocolVersion"], want);
        bench.silent();
    }
}

#[test]
fn methods_that_the_modern_era_lacks_are_answered_by_the_proxy() {
    let mut bench = open();
    bench.say(&request("1", "ping"));
    bench.wrote(&result("1"));
    bench.say(r#"{"jsonrpc":"2.0","id":2,"method":"logging/setLevel","params":{"level":"info"}}"#);
    bench.wrote(&result("2"));
    for method in ["tasks/list", "tasks/get", "tasks/result", "tasks/cancel"] {
        bench.say(&request("3", method));
        assert_eq!(bench.error("3")["code"], -32601, "{method}");
    }
    bench.say(&note("notifications/roots/list_changed"));
    bench.say(&note("notifications/initialized"));
    bench.say(r#"{"jsonrpc":"2.0","id":"stray","result":{}}"#);
    bench.say(&cancel("99"));
    bench.wait(1_000_000);
    bench.silent();
}

#[test]
fn a_log_level_needs_a_server_that_logs() {
    let mut bench = open_with(INITIALIZE, "{}");
    bench.say(r#"{"jsonrpc":"2.0","id":2,"method":"logging/setLevel","params":{"level":"info"}}"#);
    assert_eq!(bench.error("2")["code"], -32601);
    let call = bench.calls("1");
    assert_eq!(bench.rpc(call)["params"]["_meta"].get("io.modelcontextprotocol/logLevel"), None);
    bench.silent();
}

#[test]
fn the_log_level_travels_with_every_later_request() {
    let mut bench = open();
    let before = bench.calls("1");
    bench.say(r#"{"jsonrpc":"2.0","id":2,"method":"logging/setLevel","params":{"level":"warning"}}"#);
    bench.wrote(&result("2"));
    for params in [r#"{"level":"verbose"}"#, "{}"] {
        bench.say(&format!(r#"{{"jsonrpc":"2.0","id":9,"method":"logging/setLevel","params":{params}}}"#));
        assert_eq!(bench.error("9")["code"], -32602);
    }
    let after = bench.calls("3");
    let level =
        |bench: &Bench, call: CallId| bench.rpc(call)["params"]["_meta"]["io.modelcontextprotocol/logLevel"].clone();
    assert_eq!((level(&bench, before), level(&bench, after)), (Value::Null, json!("warning")));
    bench.silent();
}

// ----- what a request needs ------------------------------------------------------

#[test]
fn every_request_carries_the_envelope_and_its_headers() {
    let mut bench = open();
    bench.say(
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"食","arguments":{"n":1.0},"_meta":{"progressToken":0,"x/y":1}}}"#,
    );
    let call = bench.called("POST tools/call 1");
    let params = &bench.rpc(call)["params"];
    let meta = &params["_meta"];
    assert_eq!((&params["name"], params["arguments"].to_string()), (&json!("食"), r#"{"n":1.0}"#.to_owned()));
    assert_eq!((&meta["progressToken"], &meta["x/y"]), (&json!(0), &json!(1)));
    assert_eq!(meta["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
    assert_eq!(meta["io.modelcontextprotocol/clientCapabilities"], json!({}));
    assert_eq!(meta["io.modelcontextprotocol/clientInfo"], json!({ "name": "c", "version": "1" }));
    let rows = [
        ("mcp-protocol-version", Some("2026-07-28")),
        ("mcp-method", Some("tools/call")),
        ("mcp-name", Some("=?base64?6aOf?=")),
        ("mcp-session-id", None),
        ("accept", Some("application/json, text/event-stream")),
        ("content-type", Some("application/json")),
    ];
    for (name, want) in rows {
        assert_eq!(bench.header(call, name), want, "{name}");
    }
    bench.say(r#"{"jsonrpc":"2.0","id":2,"method":"resources/read","params":{"uri":"a:1"}}"#);
    let call = bench.called("POST resources/read 2");
    assert_eq!(bench.header(call, "mcp-name"), Some("a:1"));
    bench.say(&list("3"));
    let call = bench.called("POST tools/list 3");
    assert_eq!((bench.header(call, "mcp-name"), bench.header(call, "mcp-method")), (None, Some("tools/list")));
    bench.silent();
}

const TOOLS: &str = r#","tools":[{"name":"t","inputSchema":{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"},"verbose":{"type":"boolean","x-mcp-header":"Verbose"}}}},{"name":"bad","inputSchema":{"type":"object","properties":{"n":{"type":"number","x-mcp-header":"N"}}}}]"#;
const TOOL: &str = r#"{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"t","arguments":{"region":" us","verbose":null}}}"#;

#[test]
fn arguments_that_a_tool_wants_in_headers_are_there() {
    let mut bench = open();
    bench.say(&list("1"));
    let call = bench.called("POST tools/list 1");
    let answer = complete(&bench, call, TOOLS);
    bench.json(call, &answer);
    let tools = read(&bench.line())["result"]["tools"].clone();
    assert_eq!((tools[0]["name"].clone(), tools.as_array().unwrap().len()), (json!("t"), 1), "{tools}");
    assert_eq!(bench.noted(|note| matches!(note, Note::ToolDropped { name, .. } if name == "bad")), 1);
    bench.say(TOOL);
    let call = bench.called("POST tools/call 5");
    assert_eq!(bench.header(call, "mcp-param-region"), Some("=?base64?IHVz?="));
    assert_eq!(bench.header(call, "mcp-param-verbose"), None);
    bench.silent();
}

fn mismatch(bench: &mut Bench, call: CallId) {
    let id = bench.rpc_id(call);
    bench.head(call, 400, &[JSON]);
    bench
        .body(call, &format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32020,"message":"Header mismatch"}}}}"#));
}

#[test]
fn refused_headers_are_corrected_from_the_list_of_tools_once() {
    let mut bench = open();
    bench.say(TOOL);
    let call = bench.called("POST tools/call 5");
    assert_eq!(bench.header(call, "mcp-param-region"), None);
    mismatch(&mut bench, call);
    let lookup = bench.called("POST tools/list ours");
    bench.silent();
    bench.json(lookup, &complete(&bench, lookup, TOOLS));
    let again = bench.called("POST tools/call ours");
    assert_eq!(bench.header(again, "mcp-param-region"), Some("=?base64?IHVz?="));
    assert_eq!(bench.rpc(again)["params"], bench.rpc(call)["params"]);
    mismatch(&mut bench, again);
    assert_eq!(bench.error("5")["code"], -32020);
    bench.wait(1_000_000);
    bench.silent();
}

#[test]
fn a_correction_reads_the_list_to_the_page_with_the_tool() {
    let mut bench = open();
    bench.say(TOOL);
    let call = bench.called("POST tools/call 5");
    mismatch(&mut bench, call);
    let first = bench.called("POST tools/list ours");
    bench.json(first, &complete(&bench, first, r#","tools":[],"nextCursor":"c""#));
    let second = bench.called("POST tools/list ours");
    assert_eq!(bench.rpc(second)["params"]["cursor"], "c");
    bench.json(second, &complete(&bench, second, TOOLS));
    let again = bench.called("POST tools/call ours");
    bench.json(again, &complete(&bench, again, r#","content":[]"#));
    bench.wrote(r#"{"jsonrpc":"2.0","id":5,"result":{"content":[]}}"#);
    bench.silent();
}

#[test]
fn a_correction_without_a_list_still_repeats_the_call_once() {
    let endings: [fn(&mut Bench, CallId); 2] =
        [|bench, call| bench.status(call, 404, ""), |bench, call| bench.fail(call, CallError::Tls)];
    for ending in endings {
        let mut bench = open();
        bench.say(TOOL);
        let call = bench.called("POST tools/call 5");
        mismatch(&mut bench, call);
        let lookup = bench.called("POST tools/list ours");
        ending(&mut bench, lookup);
        let again = bench.called("POST tools/call ours");
        mismatch(&mut bench, again);
        assert_eq!(bench.error("5")["code"], -32020);
        bench.silent();
    }
}

#[test]
fn a_call_that_is_cancelled_during_its_correction_is_not_sent_again() {
    let mut bench = open();
    bench.say(TOOL);
    let call = bench.called("POST tools/call 5");
    mismatch(&mut bench, call);
    let lookup = bench.called("POST tools/list ours");
    bench.say(&cancel("5"));
    bench.json(lookup, &complete(&bench, lookup, TOOLS));
    bench.wait(1_000_000);
    bench.silent();
}

// ----- what is left of an answer -------------------------------------------------

#[test]
fn a_legacy_client_sees_nothing_modern_in_a_result() {
    let mut bench = open();
    bench.say(&list("1"));
    let call = bench.called("POST tools/list 1");
    let meta = r#""_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s"},"x/y":1}"#;
    let answer = complete(&bench, call, &format!(r#","tools":[],"ttlMs":1,"cacheScope":"public",{meta}"#));
    bench.json(call, &answer);
    bench.wrote(r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[],"_meta":{"x/y":1}}}"#);
    let call = bench.calls("2");
    bench.sse(call);
    bench.event(call, &complete(&bench, call, r#","content":[],"n":9007199254740993"#));
    bench.wrote(r#"{"jsonrpc":"2.0","id":2,"result":{"content":[],"n":9007199254740993}}"#);
    bench.end(call);
    bench.silent();
}

#[test]
fn output_that_is_no_object_is_wrapped_like_its_schema() {
    let mut bench = open();
    bench.say(&list("1"));
    let call = bench.called("POST tools/list 1");
    bench.json(
        call,
        &complete(
            &bench,
            call,
            r#","tools":[{"name":"t","inputSchema":{"type":"object"},"outputSchema":{"type":"array"}}]"#,
        ),
    );
    let schema = read(&bench.line())["result"]["tools"][0]["outputSchema"].clone();
    assert_eq!((&schema["type"], &schema["properties"]["result"]["type"]), (&json!("object"), &json!("array")));
    let call = bench.calls("2");
    bench.json(call, &complete(&bench, call, r#","content":[],"structuredContent":[1]"#));
    let answer = read(&bench.line())["result"].clone();
    assert_eq!(answer["structuredContent"], json!({ "result": [1] }));
    assert_eq!(answer["content"][0]["text"], "[1]");
    bench.silent();
}

#[test]
fn another_page_of_tools_does_not_change_what_is_known_of_a_tool() {
    let mut bench = open();
    for (id, name, output) in [("1", "t", r#","outputSchema":{"anyOf":[]}"#), ("2", "u", "")] {
        bench.say(&list(id));
        let call = bench.called(&format!("POST tools/list {id}"));
        let tools = format!(r#","tools":[{{"name":"{name}","inputSchema":{{"type":"object"}}{output}}}]"#);
        bench.json(call, &complete(&bench, call, &tools));
        bench.line();
    }
    let call = bench.calls("3");
    bench.json(call, &complete(&bench, call, r#","content":[],"structuredContent":{"a":1}"#));
    assert_eq!(read(&bench.line())["result"]["structuredContent"], json!({ "result": {"a": 1} }));
}

#[test]
fn a_result_of_an_unknown_type_is_an_error() {
    for kind in [r#""task""#, r#""x""#, "7"] {
        let (mut bench, call) = calling();
        let id = bench.rpc_id(call);
        bench.json(call, &format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"resultType":{kind},"taskId":"1"}}}}"#));
        let error = bench.error_delivered("1", "yes");
        assert!(error["message"].as_str().unwrap().contains("type"), "{error}");
        bench.silent();
    }
}

#[test]
fn errors_of_the_server_pass_whatever_their_status() {
    for status in [200, 400, 404] {
        let (mut bench, call) = calling();
        bench.head(call, status, &[JSON]);
        bench.body(call, r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"m","data":{"uri":"a"}}}"#);
        let error = bench.error("1");
        assert_eq!((&error["code"], &error["data"]["uri"]), (&json!(-32602), &json!("a")));
        bench.silent();
    }
}

#[test]
fn a_modern_client_gets_answers_as_they_are() {
    let mut bench = Bench::with(auto);
    bench.say(&modern("1", "tools/call", r#""name":"t""#));
    let probe = bench.called("POST server/discover ours");
    discovered(&mut bench, probe, "{}");
    let call = bench.called("POST tools/call 1");
    assert_eq!(bench.sent(call), modern("1", "tools/call", r#""name":"t""#));
    assert_eq!(bench.header(call, "mcp-name"), Some("t"));
    let answer = asks(&bench, call, TWO);
    bench.json(call, &answer);
    bench.wrote(&answer);
    bench.silent();
}

#[test]
fn a_modern_clients_listen_lasts_until_it_is_cancelled() {
    let mut bench = Bench::with(auto);
    bench.say(&modern("\"l\"", "subscriptions/listen", r#""notifications":{"toolsListChanged":true}"#));
    let probe = bench.called("POST server/discover ours");
    discovered(&mut bench, probe, CAPABILITIES);
    let listen = bench.called("POST subscriptions/listen \"l\"");
    bench.sse(listen);
    let changed = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"l"}}}"#;
    bench.wait(10_000_000);
    bench.event(listen, changed);
    bench.wrote(changed);
    bench.silent();
    bench.say(&cancel("\"l\""));
    bench.cancelled(listen);
    bench.wait(1_000_000);
    bench.silent();
}

// ----- cancelling, loss and silence ----------------------------------------------

#[test]
fn cancelling_closes_the_stream_and_sends_nothing() {
    let begun: [fn(&mut Bench, CallId); 2] = [|_, _| {}, |bench, call| bench.sse(call)];
    for begin in begun {
        let (mut bench, call) = calling();
        begin(&mut bench, call);
        bench.say(&cancel("1"));
        bench.cancelled(call);
        bench.wait(1_000_000);
        bench.silent();
    }
}

#[test]
fn silence_closes_the_stream_and_sends_nothing() {
    let (mut bench, call) = calling();
    bench.sse(call);
    bench.wait(300_000);
    bench.cancelled(call);
    bench.error_delivered("1", "maybe");
    bench.wait(1_000_000);
    bench.silent();
}

#[test]
fn a_tool_call_whose_stream_breaks_is_answered_and_not_sent_again() {
    let breaks: [fn(&mut Bench, CallId); 3] = [
        |bench, call| {
            bench.sse(call);
            bench.end(call);
        },
        // The modern era has no event ids to resume from.
        |bench, call| {
            bench.sse(call);
            bench.chunk(call, "id: e1\nretry: 10\ndata: \n\n");
            bench.fail(call, CallError::Reset);
        },
        |bench, call| bench.fail(call, CallError::Reset),
    ];
    for broken in breaks {
        let (mut bench, call) = calling();
        broken(&mut bench, call);
        bench.error_delivered("1", "maybe");
        bench.wait(1_000_000);
        bench.silent();
    }
}

#[test]
fn a_request_that_only_reads_is_repeated() {
    let mut bench = open();
    bench.say(&list("1"));
    let call = bench.called("POST tools/list 1");
    bench.sse(call);
    bench.end(call);
    bench.wait(200);
    let again = bench.called("POST tools/list 1");
    assert_eq!(bench.sent(again), bench.sent(call));
    bench.json(again, &complete(&bench, again, r#","tools":[]"#));
    bench.wrote(r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}"#);
    bench.silent();
}

#[test]
fn a_404_is_an_error_and_not_the_loss_of_a_session() {
    let (mut bench, call) = calling();
    bench.status(call, 404, "<html>");
    assert_eq!(bench.error("1")["data"]["httpStatus"], 404);
    bench.wait(1_000_000);
    bench.silent();
}

#[test]
fn a_request_of_the_server_is_dropped() {
    let (mut bench, call) = calling();
    bench.sse(call);
    bench.event(call, &request("\"q\"", "roots/list"));
    bench.event(call, &request("\"p\"", "ping"));
    bench.silent();
    assert_eq!(bench.noted(|note| matches!(note, Note::AskForbidden)), 2);
    bench.event(call, &complete(&bench, call, ""));
    bench.wrote(&result("1"));
    bench.end(call);
    bench.silent();
}

#[test]
fn progress_and_logs_of_a_request_pass() {
    let mut bench = open();
    bench.say(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","_meta":{"progressToken":0}}}"#);
    let call = bench.called("POST tools/call 1");
    bench.sse(call);
    bench.event(call, &progress("0"));
    bench.wrote(&progress("0"));
    let log = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"d"}}"#;
    bench.event(call, log);
    bench.wrote(log);
    bench.silent();
}
