//! How long a response waits for the answer, to be nothing but that.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "tests fail by panicking")]

mod common;

use common::http::{EVENTS, NAMED, answer, event_id, heard, listening, open, open_as, post, running};
use common::{Bench, cancel, tool};
use mcp_proxy_core::{CallId, Why};
use std::time::Duration;

/// A request that runs, and whose response has not begun.
#[track_caller]
fn waiting(bench: &mut Bench, exchange: u64, id: &str) -> CallId {
    post(bench, exchange, &tool(id));
    let call = bench.called(&format!("POST tools/call {id}"));
    bench.accept(call);
    bench.silent();
    call
}

/// The response has become a stream; returns the id of its first event.
#[track_caller]
fn streams(bench: &mut Bench, exchange: u64) -> String {
    assert_eq!(bench.responded(exchange, 200)["content-type"], "text/event-stream");
    let first = bench.received(exchange);
    bench.took(exchange, first.len());
    event_id(&first)
}

/// The answer is all there is to the response.
#[track_caller]
fn answered(bench: &mut Bench, exchange: u64, id: &str) {
    assert_eq!(bench.responded(exchange, 200)["content-type"], "application/json");
    assert_eq!(bench.received(exchange), answer(id));
    bench.finished(exchange);
}

#[test]
fn an_answer_that_comes_soon_is_all_there_is_to_the_response() {
    let (mut bench, stream) = open();
    waiting(&mut bench, 10, "1");
    waiting(&mut bench, 11, "2");
    bench.wait(249);
    bench.event(stream, &answer("2"));
    answered(&mut bench, 11, "2");
    bench.event(stream, &answer("1"));
    answered(&mut bench, 10, "1");
    bench.silent();
}

#[test]
fn a_response_whose_answer_does_not_come_soon_becomes_a_stream() {
    let (mut bench, stream) = open();
    waiting(&mut bench, 10, "1");
    assert_eq!(bench.wait_for_deadline(), (250, Why::Heartbeat));
    let first = streams(&mut bench, 10);
    bench.silent();
    bench.gone(10);
    bench.event(stream, &answer("1"));
    bench.silent();
    bench.ask(11, "GET", &[EVENTS, NAMED, ("last-event-id", &first)], "");
    bench.responded(11, 200);
    assert_eq!(heard(&mut bench, 11)["id"], 1);
    bench.finished(11);
}

#[test]
fn whatever_else_is_said_makes_the_response_a_stream() {
    let (mut bench, stream) = open();
    waiting(&mut bench, 10, "1");
    bench.event(stream, r#"{"jsonrpc":"2.0","id":"q","method":"roots/list"}"#);
    streams(&mut bench, 10);
    assert_eq!(heard(&mut bench, 10)["method"], "roots/list");
    bench.event(stream, &answer("1"));
    assert_eq!(heard(&mut bench, 10)["id"], 1);
    bench.finished(10);
}

#[test]
fn what_has_waited_for_a_stream_does_not_wait_for_an_answer() {
    let (mut bench, stream) = open();
    bench.event(stream, r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#);
    post(&mut bench, 10, &tool("1"));
    streams(&mut bench, 10);
    assert_eq!(heard(&mut bench, 10)["method"], "notifications/tools/list_changed");
    bench.called("POST tools/call 1");
}

#[test]
fn what_goes_elsewhere_changes_nothing() {
    let (mut bench, stream) = open();
    listening(&mut bench, 9);
    waiting(&mut bench, 10, "1");
    waiting(&mut bench, 11, "2");
    bench.event(stream, r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#);
    heard(&mut bench, 9);
    bench.event(stream, &answer("1"));
    answered(&mut bench, 10, "1");
}

#[test]
fn a_request_that_is_cancelled_while_its_response_waits_gets_a_stream_without_an_answer() {
    for version in ["2025-06-18", "2025-11-25"] {
        let (mut bench, _) = open_as(version, |_, _| {});
        waiting(&mut bench, 10, "1");
        post(&mut bench, 11, &cancel("1"));
        bench.responded(11, 202);
        bench.finished(11);
        streams(&mut bench, 10);
        bench.finished(10);
        bench.called("POST notifications/cancelled");
        bench.silent();
    }
}

#[test]
fn a_client_that_does_not_wait_for_the_answer_is_not_answered() {
    let (mut bench, stream) = open();
    waiting(&mut bench, 10, "1");
    bench.gone(10);
    bench.event(stream, &answer("1"));
    bench.silent();
    waiting(&mut bench, 11, "1");
    bench.event(stream, &answer("1"));
    answered(&mut bench, 11, "1");
}

#[test]
fn what_nobody_can_come_back_for_takes_no_room_from_what_somebody_can() {
    let (mut bench, stream) = open_as("2025-11-25", |client, _| client.replay_events = 1);
    let first = running(&mut bench, 9, "1");
    bench.gone(9);
    bench.event(stream, &answer("1"));
    waiting(&mut bench, 10, "2");
    bench.gone(10);
    bench.event(stream, &answer("2"));
    bench.ask(11, "GET", &[EVENTS, NAMED, ("last-event-id", &first)], "");
    bench.responded(11, 200);
    assert!(heard(&mut bench, 11)["result"].is_object());
    bench.finished(11);
}

#[test]
fn the_end_of_the_session_answers_what_waits() {
    let (mut bench, _) = open();
    waiting(&mut bench, 10, "1");
    bench.ask(11, "DELETE", &[NAMED], "");
    bench.responded(11, 204);
    bench.finished(11);
    assert_eq!(bench.responded(10, 200)["content-type"], "application/json");
    let error: serde_json::Value = serde_json::from_str(&bench.received(10)).unwrap();
    assert_eq!(error["id"], 1);
    bench.finished(10);
}

#[test]
fn without_patience_every_response_is_a_stream() {
    let (mut bench, _) = open_as("2025-11-25", |client, _| client.hold = Duration::ZERO);
    post(&mut bench, 10, &tool("1"));
    streams(&mut bench, 10);
    bench.called("POST tools/call 1");
}
