//! A client of Streamable HTTP that asks for too much, servers that ask at the
//! wrong time, and connections that come and go meanwhile: what is held stays
//! bounded, and everybody is told what becomes of a question or an answer.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "tests fail by panicking"
)]

mod common;

use common::http::{
    BOTH, EVENTS, NAMED, TYPE, answer, event_id, front, heard, listening, open, open_as, post, refused, request,
    running,
};
use common::{Bench, INITIALIZE};
use mcp_proxy_core::{CallId, Exit, Why};
use serde_json::json;

const NEWS: &str = r#"{"jsonrpc":"2.0","method":"notifications/x"}"#;

fn question(id: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"roots/list"}}"#)
}

/// The server gets this error to its question.
#[track_caller]
fn told(bench: &mut Bench, id: &serde_json::Value, words: &str) {
    let call = bench.called_last();
    let error = bench.rpc(call);
    assert_eq!(error["id"], *id, "{error}");
    assert!(error["error"]["message"].as_str().unwrap().contains(words), "{error}");
    bench.accept(call);
}

#[test]
fn a_batch_has_no_more_members_than_requests_may_be_open() {
    let (mut bench, _) = open_as("2025-03-26", |client, _| client.most_open = 4);
    let notes = [NEWS; 5].join(",");
    post(&mut bench, 10, &format!("[{notes}]"));
    refused(&mut bench, 10, 429);
    let requests: Vec<_> = (0..5).map(|id| request(&id.to_string())).collect();
    post(&mut bench, 11, &format!("[{}]", requests.join(",")));
    refused(&mut bench, 11, 429);
    running(&mut bench, 12, "1");
    let requests: Vec<_> = (2..6).map(|id| request(&id.to_string())).collect();
    post(&mut bench, 13, &format!("[{}]", requests.join(",")));
    refused(&mut bench, 13, 429);
}

#[test]
fn an_id_that_is_too_long_is_refused_by_name() {
    let long = format!("\"{}\"", "x".repeat(255));
    let (mut bench, _) = open();
    post(&mut bench, 10, &request(&long));
    let body = refused(&mut bench, 10, 400);
    assert!(body["error"]["message"].as_str().unwrap().contains("256 bytes"), "{body}");
    running(&mut bench, 11, &format!("\"{}\"", "x".repeat(254)));

    let mut bench = front(|_, _| {});
    bench.ask(1, "POST", &[BOTH, TYPE], &INITIALIZE.replace(r#""id":0"#, &format!("\"id\":{long}")));
    refused(&mut bench, 1, 400);
}

/// The client says this until it is refused; returns what the server has still to take.
#[track_caller]
fn flood(bench: &mut Bench, note: &str, most: u64) -> Vec<CallId> {
    let mut calls = Vec::new();
    for exchange in 10..10 + most {
        post(bench, exchange, note);
        let status = bench.response(exchange).status.as_u16();
        if status != 202 {
            assert_eq!(status, 429);
            assert!(bench.received(exchange).contains("still on its way"));
            bench.finished(exchange);
            bench.silent();
            return calls;
        }
        bench.finished(exchange);
        calls.push(bench.called("POST notifications/x"));
    }
    panic!("nothing is ever refused");
}

#[test]
fn what_the_server_does_not_take_is_bounded_in_bytes_and_in_number() {
    let long = format!(r#"{{"jsonrpc":"2.0","method":"notifications/x","params":"{}"}}"#, "x".repeat(1 << 19));
    for (note, most) in [(long.as_str(), 20), (NEWS, 3000)] {
        let (mut bench, _) = open_as("2025-11-25", |_, config| config.max_message = 1 << 20);
        let calls = flood(&mut bench, note, most);
        // What the server takes makes room.
        calls.into_iter().for_each(|call| bench.accept(call));
        post(&mut bench, 9999, note);
        bench.responded(9999, 202);
        bench.finished(9999);
    }
}

#[test]
fn a_question_on_a_listening_stream_that_is_replaced_is_refused_in_bounded_time() {
    let (mut bench, stream) = open_as("2025-06-18", |_, _| {});
    listening(&mut bench, 9);
    running(&mut bench, 10, "1");
    running(&mut bench, 11, "2");
    bench.event(stream, &question("\"q\""));
    heard(&mut bench, 9);
    // Its path is dead, and the client listens anew without an event to begin from.
    bench.ask(12, "GET", &[EVENTS, NAMED], "");
    bench.finished(9);
    bench.responded(12, 200);
    let first = bench.received(12);
    bench.took(12, first.len());
    for _ in 0..2 {
        bench.wait(15_000);
        for exchange in [10, 11, 12] {
            let comment = bench.received(exchange);
            bench.took(exchange, comment.len());
        }
    }
    told(&mut bench, &json!("q"), "no stream");
    bench.silent();
}

#[test]
fn a_question_of_a_server_that_is_gone_is_not_asked() {
    let (mut bench, stream) = open();
    bench.event(stream, &question("0"));
    bench.end(stream);
    bench.silent();
    listening(&mut bench, 9);
    // The next server counts its questions from zero too.
    let (mut bench, stream) = reopened(bench);
    bench.event(stream, &question("0"));
    heard(&mut bench, 9);
    bench.silent();
}

/// The server has come back with a new session, whose stream this is.
fn reopened(mut bench: Bench) -> (Bench, CallId) {
    let stream = bench.called("GET");
    bench.sse(stream);
    bench.chunk(stream, "event: endpoint\ndata: /messages\n\n");
    let initialize = bench.called("POST initialize ours");
    bench.accept(initialize);
    let id = bench.rpc_id(initialize);
    let result = r#"{"protocolVersion":"2025-11-25","capabilities":{}}"#;
    bench.event(stream, &format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#));
    let initialized = bench.called("POST notifications/initialized");
    bench.accept(initialized);
    (bench, stream)
}

#[test]
fn a_question_that_is_taken_back_is_taken_back_where_it_was_asked() {
    let taken_back = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"q"}}"#;
    let (mut bench, stream) = open();
    let first = running(&mut bench, 10, "1");
    bench.event(stream, &question("\"q\""));
    heard(&mut bench, 10);
    bench.gone(10);
    listening(&mut bench, 11);
    bench.event(stream, taken_back);
    bench.silent();
    bench.ask(12, "GET", &[EVENTS, NAMED, ("last-event-id", &first)], "");
    bench.responded(12, 200);
    assert_eq!(heard(&mut bench, 12)["id"], "q");
    assert_eq!(heard(&mut bench, 12)["params"]["requestId"], "q");
    bench.silent();

    // Who was not asked needs not be told.
    let (mut bench, stream) = open();
    bench.event(stream, &question("\"q\""));
    bench.event(stream, taken_back);
    listening(&mut bench, 9);
    bench.silent();
}

#[test]
fn a_question_whose_stream_is_forgotten_is_taken_back_on_another() {
    let (mut bench, stream) = open_as("2025-11-25", |client, _| client.replay_events = 0);
    listening(&mut bench, 10);
    bench.event(stream, &question("\"q\""));
    assert_eq!(heard(&mut bench, 10)["id"], "q");
    bench.gone(10);
    listening(&mut bench, 11);
    let taken_back = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"q"}}"#;
    bench.event(stream, taken_back);
    assert_eq!(heard(&mut bench, 11)["params"]["requestId"], "q");
    bench.silent();
}

#[test]
fn a_question_that_waits_for_too_long_takes_nothing_else_along() {
    let (mut bench, stream) = open();
    bench.event(stream, NEWS);
    bench.event(stream, &question("\"q\""));
    assert_eq!(bench.wait_for_deadline(), (30_000, Why::Unread));
    told(&mut bench, &json!("q"), "no stream");
    listening(&mut bench, 9);
    assert_eq!(heard(&mut bench, 9)["method"], "notifications/x");
    bench.silent();
}

#[test]
fn an_answer_that_is_too_long_to_be_kept_leaves_the_others_alone() {
    let (mut bench, stream) = open_as("2025-11-25", |client, _| client.replay_bytes = 1000);
    let first = running(&mut bench, 10, "1");
    let second = running(&mut bench, 11, "2");
    bench.gone(10);
    bench.gone(11);
    bench.event(stream, &answer("1"));
    bench.event(stream, &format!(r#"{{"jsonrpc":"2.0","id":2,"result":"{}"}}"#, "x".repeat(1000)));
    bench.ask(12, "GET", &[EVENTS, NAMED, ("last-event-id", &first)], "");
    bench.responded(12, 200);
    assert_eq!(heard(&mut bench, 12)["result"], json!({}));
    bench.finished(12);
    bench.ask(13, "GET", &[EVENTS, NAMED, ("last-event-id", &second)], "");
    bench.responded(13, 200);
    assert_eq!(heard(&mut bench, 13)["error"]["data"]["delivered"], "maybe");
    bench.finished(13);
    bench.silent();
}

#[test]
fn nothing_is_kept_of_answers_that_are_too_long_and_that_nobody_reads() {
    let (mut bench, stream) = open_as("2025-11-25", |client, _| client.replay_bytes = 1000);
    let mut held = Vec::new();
    for round in 0..20 {
        running(&mut bench, 10 + round, "1");
        bench.gone(10 + round);
        bench.event(stream, &format!(r#"{{"jsonrpc":"2.0","id":1,"result":"{}"}}"#, "x".repeat(1000)));
        bench.silent();
        held.push(format!("{:?}", bench.proxy).len());
    }
    // Only numbers grow.
    assert!(held[19] < held[0] + 100, "{held:?}");
}

#[test]
fn the_bytes_that_are_kept_are_bounded_and_the_oldest_go_first() {
    let (mut bench, stream) = open_as("2025-11-25", |client, _| client.replay_bytes = 2000);
    let mut firsts = Vec::new();
    for id in 0..3 {
        firsts.push(running(&mut bench, 10 + id, &id.to_string()));
        bench.gone(10 + id);
        bench.event(stream, &format!(r#"{{"jsonrpc":"2.0","id":{id},"result":"{}"}}"#, "x".repeat(700)));
    }
    for (id, first) in firsts.iter().enumerate() {
        let exchange = 20 + id as u64;
        bench.ask(exchange, "GET", &[EVENTS, NAMED, ("last-event-id", first)], "");
        bench.responded(exchange, 200);
        let kept = heard(&mut bench, exchange)["result"].is_string();
        assert_eq!(kept, id > 0, "{id}");
        bench.finished(exchange);
    }
}

#[test]
fn a_long_list_of_requests_is_not_taken_from_a_client() {
    use base64::Engine;
    let list = format!("[{}]", vec!["1"; 1000].join(","));
    let id = format!("00000000-1-1-{}", base64::prelude::BASE64_URL_SAFE_NO_PAD.encode(list));
    let (mut bench, _) = open();
    bench.ask(10, "GET", &[EVENTS, NAMED, ("last-event-id", &id)], "");
    bench.responded(10, 200);
    let first = bench.received(10);
    assert!(first.len() < 200, "it listens: {first}");
    bench.silent();
}

#[test]
fn a_batch_with_more_ids_than_an_event_can_name_still_does_not_listen() {
    let id = |n: u32| format!("\"{n:0>100}\"");
    let (mut bench, stream) = open_as("2025-03-26", |client, _| client.replay_events = 1);
    let batch: Vec<_> = (0..12).map(|n| request(&id(n))).collect();
    post(&mut bench, 10, &format!("[{}]", batch.join(",")));
    bench.responded(10, 200);
    bench.received(10);
    for call in bench.started() {
        bench.accept(call);
    }
    bench.event(stream, NEWS);
    let first = event_id(&bench.received(10));
    bench.gone(10);
    for n in 0..12 {
        bench.event(stream, &answer(&id(n)));
    }
    running(&mut bench, 11, "1");
    bench.event(stream, &answer("1"));
    heard(&mut bench, 11);
    bench.finished(11);
    bench.ask(12, "GET", &[EVENTS, NAMED, ("last-event-id", &first)], "");
    bench.responded(12, 204);
    bench.finished(12);
    bench.silent();
}

#[test]
fn a_client_that_comes_back_gets_its_first_byte_at_once() {
    let (mut bench, _) = open();
    let first = running(&mut bench, 10, "1");
    bench.gone(10);
    bench.ask(11, "GET", &[EVENTS, NAMED, ("last-event-id", &first)], "");
    bench.responded(11, 200);
    assert_eq!(bench.received(11), ": keepalive\n\n");
    bench.silent();
}

#[test]
fn a_machine_that_must_leave_answers_what_is_open() {
    let (mut bench, stream) = open_as("2025-06-18", |_, _| {});
    running(&mut bench, 10, "1");
    bench.shutdown();
    let error = heard(&mut bench, 10)["error"].take();
    assert!(error["message"].as_str().unwrap().contains("shutting down"), "{error}");
    assert_eq!(error["data"]["delivered"], "maybe");
    bench.finished(10);
    bench.cancelled(stream);
    bench.exited(Exit::Stopped);
}

#[test]
fn nothing_is_said_after_the_end_that_the_first_of_a_batch_brings() {
    let mut bench = front(|_, _| {});
    bench.ask(1, "POST", &[BOTH, TYPE], INITIALIZE);
    let stream = bench.called("GET");
    bench.sse(stream);
    bench.chunk(stream, "event: endpoint\ndata: /messages\n\n");
    let initialize = bench.called("POST initialize 0");
    bench.accept(initialize);
    bench.event(stream, r#"[{"jsonrpc":"2.0","id":0,"error":{"code":1,"message":"no"}},7]"#);
    bench.responded(1, 200);
    bench.received(1);
    bench.finished(1);
    bench.cancelled(stream);
    bench.exited(Exit::Drained);
}

#[test]
fn a_request_counts_as_use_until_it_is_answered() {
    let (mut bench, stream) = open();
    assert!(!bench.proxy.busy());
    running(&mut bench, 10, "1");
    bench.gone(10);
    assert!(bench.proxy.busy());
    bench.event(stream, &answer("1"));
    assert!(!bench.proxy.busy());
}
