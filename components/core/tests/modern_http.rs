//! A Streamable HTTP client of revisions up to 2025-11-25 before a modern server.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests fail by panicking")]

mod common;

use ::http::HeaderValue;
use common::http::{BOTH, NAMED, SESSION, TYPE, answer, heard, listening, post};
use common::modern::*;
use common::*;
use mcp_proxy_core::{CallId, ClientTransport, HttpTransport, Snapshot};
use serde_json::json;

fn front(set: impl FnOnce(&mut HttpTransport)) -> Bench {
    Bench::with(|config| {
        auto(config);
        let mut client = HttpTransport::new(HeaderValue::from_static(SESSION));
        set(&mut client);
        config.client = ClientTransport::Http(client);
    })
}

/// A machine whose client has a session.
fn opened(capabilities: &str) -> Bench {
    let mut bench = front(|_| {});
    bench.ask(1, "POST", &[BOTH, TYPE], ABLE);
    let probe = bench.called("POST server/discover ours");
    bench.silent();
    discovered(&mut bench, probe, capabilities);
    assert_eq!(bench.responded(1, 200)["mcp-session-id"], SESSION);
    let body = bench.received(1);
    assert!(body.contains(r#""protocolVersion":"2025-06-18""#), "{body}");
    bench.took(1, body.len());
    bench.finished(1);
    post(&mut bench, 2, INITIALIZED);
    bench.responded(2, 202);
    bench.finished(2);
    bench
}

/// A call of a tool that asks; the question goes to the stream of the call.
fn asked(bench: &mut Bench, exchange: u64) -> (CallId, String) {
    post(bench, exchange, &tool("1"));
    let call = bench.called("POST tools/call 1");
    bench.json(call, &asks(bench, call, ONE));
    assert_eq!(bench.responded(exchange, 200)["content-type"], "text/event-stream");
    let comment = bench.received(exchange);
    bench.took(exchange, comment.len());
    let question = heard(bench, exchange);
    assert_eq!(question["method"], "roots/list");
    bench.silent();
    (call, question["id"].to_string())
}

#[test]
fn a_question_goes_to_the_stream_of_its_call_and_the_answer_comes_by_another_request() {
    let mut bench = opened("{}");
    let (_, question) = asked(&mut bench, 3);
    post(&mut bench, 4, &format!(r#"{{"jsonrpc":"2.0","id":{question},"result":{{"roots":[]}}}}"#));
    bench.responded(4, 202);
    bench.finished(4);
    let again = bench.called("POST tools/call ours");
    assert_eq!(bench.rpc(again)["params"]["inputResponses"], json!({ "where": { "roots": [] } }));
    bench.json(again, &complete(&bench, again, ""));
    assert_eq!(heard(&mut bench, 3), json!({ "jsonrpc": "2.0", "id": 1, "result": {} }));
    bench.finished(3);
    bench.silent();
}

#[test]
fn a_client_that_ends_its_session_in_a_round_leaves_nothing_open() {
    let mut bench = opened("{}");
    asked(&mut bench, 3);
    bench.ask(4, "DELETE", &[NAMED], "");
    let said: Vec<String> = std::iter::from_fn(|| bench.any()).collect();
    assert!(said.iter().any(|said| said.contains("Exit")), "{said:?}");
    assert_eq!(bench.deadline(), None);
}

#[test]
fn a_probe_that_fails_ends_the_session_before_it_begins() {
    let mut bench = front(|_| {});
    bench.ask(1, "POST", &[BOTH, TYPE], INITIALIZE);
    let probe = bench.called("POST server/discover ours");
    bench.status(probe, 401, "");
    bench.response(1);
    let body = bench.received(1);
    assert!(body.contains(r#""id":0"#) && body.contains("401"), "{body}");
}

#[test]
fn another_machine_detects_the_era_again_and_restores_what_the_client_set() {
    let level = r#"{"jsonrpc":"2.0","id":8,"method":"logging/setLevel","params":{"level":"error"}}"#;
    let subscription = r#"{"jsonrpc":"2.0","id":9,"method":"resources/subscribe","params":{"uri":"a:1"}}"#;
    let mut bench = front(|client| {
        client.resumed = Some(Snapshot {
            initialize: ABLE.into(),
            version: "2025-06-18".to_owned(),
            settings: vec![level.into(), subscription.into()],
        });
    });
    post(&mut bench, 3, &tool("1"));
    let probe = bench.called("POST server/discover ours");
    bench.silent();
    discovered(&mut bench, probe, CAPABILITIES);
    let listen = bench.called("POST subscriptions/listen ours");
    let call = bench.called("POST tools/call 1");
    bench.silent();
    assert_eq!(bench.rpc(listen)["params"]["notifications"]["resourceSubscriptions"], json!(["a:1"]));
    assert_eq!(bench.rpc(call)["params"]["_meta"]["io.modelcontextprotocol/logLevel"], "error");
    bench.json(call, &complete(&bench, call, ""));
    bench.responded(3, 200);
    assert_eq!(bench.received(3), answer("1"));
    bench.finished(3);
    listening(&mut bench, 4);
    acknowledged(&mut bench, listen);
    assert_eq!(heard(&mut bench, 4)["method"], "notifications/tools/list_changed");
    bench.silent();
}
