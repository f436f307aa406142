//! How the machine detects the server's era: with `server/discover`, before the client's
//! first message, and with nothing thrown away.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests fail by panicking")]

mod common;

use common::modern::*;
use common::*;
use mcp_proxy_core::{CallError, CallId, Era, Exit, Transport};
use serde_json::Value;

const HTML: &str = "<html> no </html>";
const NOT_FOUND: &str = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"Method not found"}}"#;
const BAD_REQUEST: &str =
    r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Bad Request: Server not initialized"}}"#;

type Answer = fn(&mut Bench, CallId);

fn unsupported(bench: &mut Bench, probe: CallId, versions: &str) {
    let id = bench.rpc_id(probe);
    let data = format!(r#"{{"supported":{versions},"requested":"x"}}"#);
    let error = format!(r#"{{"code":-32022,"message":"Unsupported protocol version","data":{data}}}"#);
    bench.head(probe, 400, &[JSON]);
    bench.body(probe, &format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#));
}

#[test]
fn the_probe_carries_the_clients_envelope_and_no_session() {
    let (mut bench, probe) = probing();
    let meta = &bench.rpc(probe)["params"]["_meta"];
    assert_eq!(meta["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
    assert_eq!(meta["io.modelcontextprotocol/clientInfo"]["name"], "c");
    assert!(meta["io.modelcontextprotocol/clientCapabilities"].is_object(), "{meta}");
    assert_eq!(bench.header(probe, "mcp-protocol-version"), Some("2026-07-28"));
    assert_eq!(bench.header(probe, "mcp-method"), Some("server/discover"));
    assert_eq!(bench.header(probe, "mcp-session-id"), None);
    bench.silent();
}

#[test]
fn answers_of_a_legacy_server_lead_to_initialize() {
    let answers: [(&str, Answer); 12] = [
        ("an empty result", |bench, probe| {
            let id = bench.rpc_id(probe);
            bench.json(probe, &result(&id));
        }),
        ("a result of other members", |bench, probe| {
            let id = bench.rpc_id(probe);
            bench.json(probe, &initialize_result(&id, "2025-11-25"));
        }),
        ("only legacy versions", |bench, probe| unsupported(bench, probe, r#"["2025-06-18"]"#)),
        ("an unknown method", |bench, probe| {
            bench.head(probe, 404, &[JSON]);
            bench.body(probe, NOT_FOUND);
        }),
        ("an unknown method, with success", |bench, probe| {
            let id = bench.rpc_id(probe);
            bench.json(probe, &NOT_FOUND.replace("\"id\":null", &format!("\"id\":{id}")));
        }),
        ("no session", |bench, probe| {
            bench.head(probe, 400, &[JSON]);
            bench.body(probe, BAD_REQUEST);
        }),
        ("HTML", |bench, probe| bench.status(probe, 404, HTML)),
        ("HTML with success", |bench, probe| bench.json(probe, HTML)),
        ("nothing", |bench, probe| bench.accept(probe)),
        ("405", |bench, probe| bench.status(probe, 405, "")),
        ("500", |bench, probe| bench.status(probe, 500, "Internal Server Error")),
        ("an event stream", |bench, probe| {
            let id = bench.rpc_id(probe);
            bench.sse(probe);
            bench.event(probe, &result(&id));
            bench.end(probe);
        }),
    ];
    for (what, answer) in answers {
        let (mut bench, probe) = probing();
        answer(&mut bench, probe);
        let initialize = bench.called("POST initialize 0");
        assert_eq!(bench.sent(initialize), INITIALIZE, "{what}");
        assert_eq!(bench.header(initialize, "mcp-protocol-version"), None, "{what}");
        assert_eq!(bench.header(initialize, "mcp-method"), None, "{what}");
        bench.opened(initialize, "0", "s1", "2025-11-25");
        let call = bench.calls("1");
        assert_eq!(bench.header(call, "mcp-session-id"), Some("s1"), "{what}");
        bench.silent();
    }
}

#[test]
fn a_refused_version_is_offered_once_more() {
    let (mut bench, probe) = probing();
    let first = bench.rpc(probe)["params"].clone();
    unsupported(&mut bench, probe, r#"["2026-07-28"]"#);
    let again = bench.called("POST server/discover ours");
    assert_eq!(bench.rpc(again)["params"], first);
    assert_ne!(bench.rpc_id(again), bench.rpc_id(probe));
    discovered(&mut bench, again, "{}");
    let answer: Value = serde_json::from_str(&bench.line()).unwrap();
    assert_eq!(answer["result"]["protocolVersion"], "2025-11-25");
    bench.silent();
}

#[test]
fn versions_without_one_in_common_are_an_error_that_names_them() {
    let endings: [(&str, Answer); 3] = [
        ("2026-07-28", |bench, probe| {
            unsupported(bench, probe, r#"["2026-07-28"]"#);
            let again = bench.called("POST server/discover ours");
            unsupported(bench, again, r#"["2026-07-28"]"#);
        }),
        ("2027-01-01", |bench, probe| unsupported(bench, probe, r#"["2027-01-01"]"#)),
        ("2027-02-02", |bench, probe| {
            let id = bench.rpc_id(probe);
            let result = discover_result(&id, "{}").replace("[\"2026-07-28\"]", "[\"2027-02-02\"]");
            bench.json(probe, &result);
        }),
    ];
    for (theirs, ending) in endings {
        let (mut bench, probe) = probing();
        ending(&mut bench, probe);
        let error = bench.error_delivered("0", "no");
        let text = error["message"].as_str().unwrap();
        assert!(text.contains(theirs) && text.contains("2025-11-25"), "{text}");
        bench.wait(1_000_000);
        bench.silent();
    }
}

#[test]
fn html_to_both_posts_leads_to_the_stream_of_an_old_server() {
    let refused = || {
        let (mut bench, probe) = probing();
        bench.status(probe, 404, HTML);
        let initialize = bench.called("POST initialize 0");
        bench.status(initialize, 404, HTML);
        let stream = bench.called("GET");
        bench.silent();
        bench.sse(stream);
        (bench, stream)
    };
    let (mut bench, stream) = refused();
    bench.chunk(stream, "event: endpoint\ndata: /m\n\n");
    let initialize = bench.called("POST initialize 0");
    assert_eq!(bench.uri(initialize), "http://server.test/m");
    bench.silent();

    let (mut bench, stream) = refused();
    bench.event(stream, "{}");
    bench.cancelled(stream);
    let error = bench.error_delivered("0", "no");
    let text = error["message"].as_str().unwrap();
    assert!(text.contains("POST: the server answered HTTP 404 Not Found") && text.contains("GET: "), "{text}");
    bench.silent();
    bench.say(INITIALIZE);
    bench.called("POST server/discover ours");
    bench.silent();
}

#[test]
fn credentials_and_broken_servers_say_nothing_about_the_era() {
    for (status, body) in
        [(401, ""), (403, ""), (407, ""), (429, ""), (502, ""), (503, ""), (504, ""), (401, NOT_FOUND)]
    {
        let (mut bench, probe) = probing();
        bench.status(probe, status, body);
        assert_eq!(bench.error("0")["data"]["httpStatus"], status);
        bench.silent();
        bench.say(INITIALIZE);
        let probe = bench.called("POST server/discover ours");
        discovered(&mut bench, probe, "{}");
        bench.line();
        bench.silent();
    }
}

#[test]
fn a_busy_server_is_asked_again_when_it_says_so() {
    let (mut bench, probe) = probing();
    bench.head(probe, 503, &[("retry-after", "2")]);
    bench.cancelled(probe);
    bench.wait(1999);
    bench.silent();
    bench.wait(1);
    let again = bench.called("POST server/discover ours");
    discovered(&mut bench, again, "{}");
    bench.line();
    bench.silent();
}

#[test]
fn a_probe_without_an_answer_falls_back_after_ten_seconds() {
    let silences: [(&str, Answer); 2] =
        [("no response", |_, _| {}), ("a silent stream", |bench, probe| bench.sse(probe))];
    for (what, silence) in silences {
        let (mut bench, probe) = probing();
        silence(&mut bench, probe);
        bench.wait(9_999);
        bench.silent();
        bench.wait(1);
        bench.cancelled(probe);
        assert_eq!(bench.called_any(), "POST initialize 0", "{what}");
        bench.silent();
    }
}

#[test]
fn a_server_that_cannot_be_reached_fails_initialize_and_the_next_one_probes_again() {
    let (mut bench, mut probe) = probing();
    for _ in 0..3 {
        bench.fail(probe, CallError::Refused);
        bench.silent();
        bench.wait_for_deadline();
        probe = bench.called("POST server/discover ours");
    }
    bench.fail(probe, CallError::Refused);
    let error = bench.error_delivered("0", "no");
    assert_eq!(error["data"]["attempt"], 4, "{error}");
    bench.wait(1_000_000);
    bench.silent();
    bench.say(INITIALIZE);
    let probe = bench.called("POST server/discover ours");
    bench.status(probe, 404, "");
    bench.called("POST initialize 0");
    bench.silent();
}

#[test]
fn messages_wait_for_the_era_in_order() {
    let (mut bench, probe) = probing();
    bench.say(INITIALIZED);
    bench.say(&tool("1"));
    bench.say(&list("2"));
    bench.say(&tool("3"));
    bench.say(&cancel("3"));
    bench.silent();
    discovered(&mut bench, probe, "{\"tools\":{}}");
    assert!(bench.line().contains("protocolVersion"));
    bench.called("POST tools/call 1");
    bench.called("POST tools/list 2");
    bench.silent();

    let (mut bench, probe) = probing();
    bench.say(INITIALIZED);
    bench.say(&tool("1"));
    bench.say(&list("2"));
    bench.status(probe, 404, "");
    let initialize = bench.called("POST initialize 0");
    bench.silent();
    bench.opened(initialize, "0", "s1", "2025-11-25");
    let initialized = bench.called("POST notifications/initialized");
    bench.silent();
    bench.accept(initialized);
    bench.called("GET");
    bench.called("POST tools/call 1");
    bench.called("POST tools/list 2");
    bench.silent();
}

#[test]
fn messages_that_waited_for_an_era_that_stays_unknown_fail() {
    let (mut bench, probe) = probing();
    bench.say(&tool("1"));
    bench.say(INITIALIZED);
    bench.say(&list("2"));
    bench.status(probe, 401, "");
    assert_eq!(bench.error_delivered("1", "no")["data"]["attempt"], 0);
    assert_eq!(bench.error_delivered("2", "no")["data"]["attempt"], 0);
    assert_eq!(bench.error_delivered("0", "no")["data"]["attempt"], 1);
    bench.wait(1_000_000);
    bench.silent();
}

#[test]
fn a_fallback_that_fails_decides_nothing() {
    let (mut bench, probe) = probing();
    bench.wait(10_000);
    bench.cancelled(probe);
    let initialize = bench.called("POST initialize 0");
    bench.head(initialize, 404, &[JSON]);
    bench.body(initialize, r#"{"jsonrpc":"2.0","id":0,"error":{"code":-32601,"message":"Method not found"}}"#);
    let stream = bench.called("GET");
    bench.status(stream, 405, "");
    bench.error("0");
    bench.silent();
    bench.say(INITIALIZE);
    let probe = bench.called("POST server/discover ours");
    discovered(&mut bench, probe, "{}");
    assert!(bench.line().contains("protocolVersion"));
    bench.silent();
}

#[test]
fn what_waited_for_a_probe_was_not_delivered_with_it() {
    let (mut bench, mut probe) = probing();
    bench.say(&tool("1"));
    for _ in 0..4 {
        bench.sse(probe);
        bench.end(probe);
        bench.wait(1_000);
        probe = if bench.next_is_a_line() { break } else { bench.called("POST server/discover ours") };
    }
    bench.error_delivered("1", "no");
    bench.error_delivered("0", "no");
    bench.silent();
}

#[test]
fn a_verdict_is_final() {
    let (mut bench, probe) = probing();
    bench.status(probe, 404, "");
    let initialize = bench.called("POST initialize 0");
    bench.opened(initialize, "0", "s1", "2025-11-25");
    bench.say(&INITIALIZE.replace("\"id\":0", "\"id\":9"));
    bench.called("POST initialize 9");
    bench.silent();

    let mut bench = open();
    bench.say(&INITIALIZE.replace("\"id\":0", "\"id\":9"));
    let answer: Value = serde_json::from_str(&bench.line()).unwrap();
    assert_eq!((&answer["id"], answer["result"].is_object()), (&9.into(), true), "{answer}");
    bench.silent();
}

#[test]
fn an_era_that_was_asked_for_is_not_doubted() {
    let mut bench = Bench::with(|config| config.era = Era::Legacy);
    bench.say(INITIALIZE);
    bench.called("POST initialize 0");
    bench.silent();

    let (mut bench, probe) = probing_with(|config| config.era = Era::Modern);
    bench.status(probe, 404, "");
    let error = bench.error_delivered("0", "no");
    assert!(error["message"].as_str().unwrap().contains("2026-07-28"), "{error}");
    bench.wait(1_000_000);
    bench.silent();

    let mut bench = Bench::with(|config| (config.era, config.transport) = (Era::Auto, Transport::Sse));
    bench.say(INITIALIZE);
    bench.called("GET");
    bench.silent();
}

#[test]
fn a_client_that_leaves_during_the_probe_gets_its_answer() {
    let (mut bench, probe) = probing();
    bench.say(&tool("1"));
    bench.eof();
    bench.silent();
    discovered(&mut bench, probe, "{}");
    assert!(bench.line().contains("protocolVersion"));
    let call = bench.called("POST tools/call 1");
    bench.json(call, &complete(&bench, call, ""));
    bench.wrote(&result("1"));
    bench.exited(Exit::Drained);

    let (mut bench, probe) = probing();
    bench.eof();
    bench.wait(5_000);
    bench.error_delivered("0", "no");
    bench.cancelled(probe);
    bench.exited(Exit::Drained);
}

#[test]
fn a_modern_clients_first_request_is_preceded_by_a_probe_with_its_envelope() {
    let mut bench = Bench::with(auto);
    bench.say(&modern("\"a\"", "tools/list", ""));
    let probe = bench.called("POST server/discover ours");
    bench.silent();
    bench.say(&modern("2", "tools/list", ""));
    bench.silent();
    discovered(&mut bench, probe, "{}");
    let call = bench.called("POST tools/list \"a\"");
    bench.called("POST tools/list 2");
    assert_eq!(bench.sent(call), modern("\"a\"", "tools/list", ""));
    let answer = complete(&bench, call, r#","tools":[],"ttlMs":5,"cacheScope":"public""#);
    bench.json(call, &answer);
    bench.wrote(&answer);
    bench.silent();
}

#[test]
fn a_modern_clients_discover_is_answered_by_the_probe() {
    let mut bench = Bench::with(auto);
    bench.say(&modern("7", "server/discover", ""));
    let probe = bench.called("POST server/discover ours");
    discovered(&mut bench, probe, CAPABILITIES);
    bench.wrote(&discover_result("7", CAPABILITIES));
    bench.silent();
    bench.say(&modern("8", "server/discover", ""));
    let call = bench.called("POST server/discover 8");
    bench.json(call, &discover_result("8", "{}"));
    bench.wrote(&discover_result("8", "{}"));
    bench.silent();
}
