//! A client of Streamable HTTP, in front of an HTTP+SSE server: what it may
//! ask, where each message goes, and what it gets back after a lost connection.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "tests fail by panicking")]

mod common;

use common::http::{
    BOTH, EVENTS, NAMED, SESSION, TYPE, answer, event_id, front, heard, listening, open, open_as, post, refused,
    request, running,
};
use common::{Bench, INITIALIZE, INITIALIZED, initialize_result};
use http::HeaderValue;
use mcp_proxy_core::{CallId, ClientTransport, Exit, HttpTransport, Snapshot, Source, Transport, Why};
use serde_json::{Value, json};
use std::time::Duration;

#[test]
fn a_request_is_answered_on_its_own_stream_which_then_ends() {
    let (mut bench, stream) = open();
    running(&mut bench, 10, "1");
    running(&mut bench, 11, "\"1\"");
    bench.event(stream, &answer("\"1\""));
    assert_eq!(heard(&mut bench, 11)["id"], json!("1"));
    bench.finished(11);
    bench.event(stream, &answer("1"));
    assert_eq!(heard(&mut bench, 10)["id"], json!(1));
    bench.finished(10);
    bench.silent();
}

#[test]
fn what_a_session_may_not_ask_is_refused_with_the_status_of_the_specification() {
    let (mut bench, _) = open();
    let wrong = ("mcp-session-id", "another");
    let body = request("1");
    bench.ask(10, "POST", &[BOTH, TYPE], &body);
    assert_eq!(refused(&mut bench, 10, 400)["id"], 1);
    for (at, method) in ["POST", "GET", "DELETE"].into_iter().enumerate() {
        let exchange = 20 + at as u64;
        bench.ask(exchange, method, &[BOTH, TYPE, wrong], &body);
        refused(&mut bench, exchange, 404);
    }
    bench.ask(11, "PUT", &[BOTH, TYPE, NAMED], &body);
    assert_eq!(bench.responded(11, 405)["allow"], "GET, POST, DELETE");
    bench.received(11);
    bench.finished(11);
    bench.ask(12, "POST", &[("accept", "application/json"), TYPE, NAMED], &body);
    refused(&mut bench, 12, 406);
    bench.ask(13, "GET", &[("accept", "application/json"), NAMED], "");
    refused(&mut bench, 13, 406);
    bench.ask(14, "POST", &[BOTH, NAMED], &body);
    refused(&mut bench, 14, 415);
    bench.ask(15, "POST", &[BOTH, TYPE, NAMED, ("mcp-protocol-version", "v999")], &body);
    let error = refused(&mut bench, 15, 400);
    assert_eq!((&error["error"]["code"], &error["id"]), (&json!(-32022), &json!(1)));
    bench.ask(16, "POST", &[BOTH, TYPE, NAMED], INITIALIZE);
    refused(&mut bench, 16, 400);
    for (at, (body, code)) in [("{", -32700), ("7", -32600), ("[]", -32600), ("\u{e9}", -32700)].into_iter().enumerate()
    {
        let exchange = 30 + at as u64;
        post(&mut bench, exchange, body);
        assert_eq!(refused(&mut bench, exchange, 400)["error"]["code"], code, "{body}");
    }
    running(&mut bench, 17, "1");
    post(&mut bench, 18, &body);
    assert_eq!(refused(&mut bench, 18, 400)["id"], 1);
}

#[test]
fn a_client_without_a_session_is_told_what_comes_first() {
    let mut bench = front(|_, _| {});
    bench.ask(1, "POST", &[BOTH, TYPE], &request("1"));
    refused(&mut bench, 1, 400);
    bench.ask(2, "POST", &[BOTH, TYPE, NAMED], &request("1"));
    refused(&mut bench, 2, 404);
    let modern = ("mcp-protocol-version", "2026-07-28");
    bench.ask(3, "POST", &[BOTH, TYPE, modern], r#"{"jsonrpc":"2.0","id":1,"method":"server/discover"}"#);
    assert_eq!(refused(&mut bench, 3, 400)["error"]["code"], -32602);
    bench.ask(4, "GET", &[EVENTS], "");
    refused(&mut bench, 4, 400);
}

#[test]
fn a_body_over_the_limit_is_refused_by_name() {
    let (mut bench, _) = open_as("2025-11-25", |_, config| config.max_message = 1000);
    post(&mut bench, 10, &format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{}"}}"#, "x".repeat(1000)));
    let text = refused(&mut bench, 10, 413)["error"]["message"].to_string();
    assert!(text.contains("1000 bytes"), "{text}");
}

#[test]
fn too_many_open_requests_are_refused_and_the_others_go_on() {
    let (mut bench, stream) = open_as("2025-11-25", |client, _| client.most_open = 1);
    running(&mut bench, 10, "1");
    post(&mut bench, 11, &request("2"));
    assert_eq!(refused(&mut bench, 11, 429)["id"], 2);
    bench.event(stream, &answer("1"));
    heard(&mut bench, 10);
    bench.finished(10);
    running(&mut bench, 12, "2");
}

#[test]
fn a_batch_is_split_for_the_one_version_that_has_it() {
    let batch = format!("[{},{},{}]", request("1"), INITIALIZED.replace("initialized", "x"), request("2"));
    let (mut bench, stream) = open_as("2025-03-26", |_, _| {});
    post(&mut bench, 10, &batch);
    bench.responded(10, 200);
    bench.received(10);
    for call in ["POST tools/call 1", "POST notifications/x", "POST tools/call 2"] {
        let call = bench.called(call);
        bench.accept(call);
    }
    bench.event(stream, &answer("2"));
    assert_eq!(heard(&mut bench, 10)["id"], 2);
    bench.event(stream, &answer("1"));
    assert_eq!(heard(&mut bench, 10)["id"], 1);
    bench.finished(10);
    post(&mut bench, 11, &format!("[{INITIALIZE}]"));
    refused(&mut bench, 11, 400);
    post(&mut bench, 12, &format!("[{},{}]", request("3"), request("3")));
    refused(&mut bench, 12, 400);

    let (mut bench, _) = open_as("2025-06-18", |_, _| {});
    post(&mut bench, 10, &batch);
    refused(&mut bench, 10, 400);
}

#[test]
fn progress_goes_to_its_request_and_the_rest_to_one_stream() {
    let (mut bench, stream) = open();
    let news = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
    let progress = |token| {
        format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":1}}}}"#
        )
    };
    listening(&mut bench, 9);
    bench.event(stream, news);
    heard(&mut bench, 9);
    running(&mut bench, 10, "0");
    bench.event(stream, news);
    heard(&mut bench, 10);
    running(&mut bench, 11, "1");
    bench.event(stream, &progress("0"));
    heard(&mut bench, 10);
    bench.event(stream, news);
    heard(&mut bench, 9);
    bench.gone(9);
    bench.event(stream, news);
    heard(&mut bench, 11);
    bench.silent();
}

#[test]
fn what_has_no_stream_waits_for_one() {
    let (mut bench, stream) = open();
    let question = r#"{"jsonrpc":"2.0","id":"q","method":"roots/list"}"#;
    bench.event(stream, question);
    bench.silent();
    listening(&mut bench, 9);
    assert_eq!(heard(&mut bench, 9)["id"], "q");
    post(&mut bench, 10, &answer("\"q\""));
    bench.responded(10, 202);
    bench.finished(10);
    let call = bench.called_last();
    assert_eq!(bench.sent(call), answer("\"q\""));
}

#[test]
fn a_question_that_finds_no_stream_is_refused_in_bounded_time() {
    let (mut bench, stream) = open();
    bench.event(stream, r#"{"jsonrpc":"2.0","id":"q","method":"roots/list"}"#);
    assert_eq!(bench.deadline().unwrap().why, Why::Unread);
    bench.wait(30_000);
    let call = bench.called_last();
    assert!(bench.rpc(call)["error"]["message"].as_str().unwrap().contains("no stream"));
    listening(&mut bench, 9);
    bench.silent();
}

#[test]
fn the_newest_listener_wins() {
    let (mut bench, stream) = open();
    listening(&mut bench, 9);
    bench.ask(10, "GET", &[EVENTS, NAMED], "");
    bench.finished(9);
    bench.responded(10, 200);
    let first = bench.received(10);
    bench.took(10, first.len());
    bench.event(stream, r#"{"jsonrpc":"2.0","method":"notifications/x"}"#);
    heard(&mut bench, 10);
    bench.silent();
}

#[test]
fn a_dropped_response_cancels_nothing_and_can_be_resumed() {
    let (mut bench, stream) = open();
    let first = running(&mut bench, 10, "1");
    bench.gone(10);
    bench.silent();
    let progress = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}"#;
    bench.event(stream, progress);
    bench.ask(11, "GET", &[EVENTS, NAMED, ("last-event-id", &first)], "");
    bench.responded(11, 200);
    assert_eq!(heard(&mut bench, 11)["method"], "notifications/progress");
    bench.gone(11);
    bench.event(stream, &answer("1"));
    bench.silent();
    for exchange in [12, 13] {
        bench.ask(exchange, "GET", &[EVENTS, NAMED, ("last-event-id", &first)], "");
        bench.responded(exchange, 200);
        assert_eq!(heard(&mut bench, exchange)["method"], "notifications/progress");
        assert_eq!(heard(&mut bench, exchange)["id"], 1);
        bench.finished(exchange);
        bench.silent();
    }
}

#[test]
fn an_answer_that_is_no_longer_kept_is_told_to_whoever_asks_for_it() {
    let (mut bench, stream) = open_as("2025-11-25", |client, _| client.replay_events = 1);
    let first = running(&mut bench, 10, "1");
    bench.gone(10);
    bench.event(stream, &answer("1"));
    running(&mut bench, 11, "2");
    bench.event(stream, &answer("2"));
    heard(&mut bench, 11);
    bench.finished(11);
    bench.ask(12, "GET", &[EVENTS, NAMED, ("last-event-id", &first)], "");
    bench.responded(12, 200);
    let event = bench.received(12);
    let lost: Value =
        serde_json::from_str(event.lines().find_map(|line| line.strip_prefix("data: ")).unwrap()).unwrap();
    assert_eq!((&lost["id"], &lost["error"]["data"]["delivered"]), (&json!(1), &json!("maybe")));
    bench.finished(12);
    bench.silent();
    is_over(&mut bench, 13, &event_id(&event));
}

#[test]
fn an_event_id_that_is_none_of_ours_only_listens() {
    let (mut bench, _) = open();
    for (exchange, id) in
        [(10, "x"), (11, "1-2"), (12, "00000000-1-1-!"), (13, "zz-1-1"), (14, "00000000-1-1"), (15, "00000000-1-1-")]
    {
        bench.ask(exchange, "GET", &[EVENTS, NAMED, ("last-event-id", id)], "");
        if exchange > 10 {
            bench.finished(exchange - 1);
        }
        bench.responded(exchange, 200);
        let first = bench.received(exchange);
        bench.took(exchange, first.len());
        bench.silent();
    }
}

#[test]
fn only_clients_that_can_read_it_get_an_event_without_data() {
    for (version, primed) in [("2025-03-26", false), ("2025-06-18", false), ("2025-11-25", true)] {
        let (mut bench, _) = open_as(version, |_, _| {});
        assert_eq!(!running(&mut bench, 10, "1").is_empty(), primed, "{version}");
    }
}

#[test]
fn an_id_beyond_a_double_is_answered_as_it_was_spelt() {
    let (mut bench, stream) = open();
    post(&mut bench, 10, r#"{"jsonrpc":"2.0","id":1e400,"method":"tools/call"}"#);
    let call = bench.called_last();
    bench.accept(call);
    bench.event(stream, &answer("1e400"));
    bench.responded(10, 200);
    assert_eq!(bench.received(10), answer("1e400"));
    bench.finished(10);
}

#[test]
fn a_silent_stream_shows_that_it_lives() {
    let (mut bench, _) = open();
    listening(&mut bench, 9);
    assert_eq!(bench.wait_for_deadline(), (15_000, Why::Heartbeat));
    assert_eq!(bench.received(9), ": keepalive\n\n");
    // Nothing is piled onto what the client has not read.
    assert_eq!(bench.wait_for_deadline(), (30_000, Why::Unread));
    bench.aborted(9);
    bench.silent();
}

#[test]
fn a_client_that_does_not_read_stops_the_server_and_then_loses_only_that_stream() {
    let (mut bench, stream) = open();
    listening(&mut bench, 9);
    let news = format!(r#"{{"jsonrpc":"2.0","method":"notifications/x","params":["{}"]}}"#, "x".repeat(300_000));
    for _ in 0..4 {
        assert!(bench.proxy.wants(Source::Call(stream)));
        bench.event(stream, &news);
        bench.received(9);
    }
    assert!(!bench.proxy.wants(Source::Call(stream)));
    bench.wait(30_000);
    bench.aborted(9);
    assert!(bench.proxy.wants(Source::Call(stream)));
    running(&mut bench, 10, "1");
    bench.event(stream, &answer("1"));
    heard(&mut bench, 10);
    bench.finished(10);
}

#[test]
fn a_cancelled_request_ends_its_stream_and_reaches_the_server() {
    let (mut bench, _) = open();
    running(&mut bench, 10, "1");
    post(&mut bench, 11, r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#);
    bench.responded(11, 202);
    bench.finished(11);
    let last = bench.received(10);
    bench.took(10, last.len());
    bench.finished(10);
    bench.called("POST notifications/cancelled");
    is_over(&mut bench, 12, &event_id(&last));
}

/// A client that comes back after this event is told not to.
#[track_caller]
fn is_over(bench: &mut Bench, exchange: u64, last: &str) {
    bench.ask(exchange, "GET", &[EVENTS, NAMED, ("last-event-id", last)], "");
    bench.responded(exchange, 204);
    bench.finished(exchange);
    bench.silent();
}

#[test]
fn a_client_that_has_seen_the_answer_is_told_not_to_come_back() {
    let (mut bench, stream) = open();
    listening(&mut bench, 9);
    let first = running(&mut bench, 10, "1");
    bench.event(stream, r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"no"}}"#);
    let answer = bench.received(10);
    bench.took(10, answer.len());
    bench.finished(10);
    is_over(&mut bench, 11, &event_id(&answer));
    bench.ask(12, "GET", &[EVENTS, NAMED, ("last-event-id", &first)], "");
    bench.responded(12, 200);
    assert_eq!(bench.received(12), answer);
    bench.finished(12);
    // Whoever listens has noticed nothing of it.
    bench.event(stream, r#"{"jsonrpc":"2.0","method":"notifications/x"}"#);
    assert_eq!(heard(&mut bench, 9)["method"], "notifications/x");
}

#[test]
fn the_end_of_a_session_answers_what_is_open_and_closes_everything() {
    let (mut bench, stream) = open();
    listening(&mut bench, 9);
    running(&mut bench, 10, "1");
    bench.ask(11, "DELETE", &[NAMED], "");
    bench.responded(11, 204);
    bench.finished(11);
    assert!(heard(&mut bench, 10)["error"]["message"].as_str().unwrap().contains("ended the session"));
    bench.finished(10);
    bench.finished(9);
    bench.cancelled(stream);
    bench.exited(Exit::Drained);
}

#[test]
fn a_failed_initialize_is_an_answer_without_a_session() {
    let mut bench = front(|_, _| {});
    bench.ask(1, "POST", &[BOTH, TYPE], INITIALIZE);
    let stream = bench.called("GET");
    bench.status(stream, 404, "no such page");
    let headers = bench.responded(1, 200);
    assert!(!headers.contains_key("mcp-session-id"));
    let body: Value = serde_json::from_str(&bench.received(1)).unwrap();
    assert_eq!((&body["id"], &body["error"]["data"]["httpStatus"]), (&json!(0), &json!(404)));
    bench.finished(1);
    bench.exited(Exit::Drained);
}

#[test]
fn a_client_that_leaves_before_its_session_stands_leaves_none_behind() {
    let mut bench = front(|_, _| {});
    bench.ask(1, "POST", &[BOTH, TYPE], INITIALIZE);
    let stream = bench.called("GET");
    bench.gone(1);
    bench.sse(stream);
    bench.chunk(stream, "event: endpoint\ndata: /messages\n\n");
    let initialize = bench.called("POST initialize 0");
    bench.accept(initialize);
    bench.event(stream, &initialize_result("0", "2025-11-25"));
    bench.cancelled(stream);
    bench.exited(Exit::Drained);
}

/// Another machine goes on with a session; returns the stream of its server.
fn resumed(bench: &mut Bench) -> CallId {
    let stream = bench.called("GET");
    bench.sse(stream);
    bench.chunk(stream, "event: endpoint\ndata: /messages\n\n");
    let initialize = bench.called("POST initialize ours");
    bench.accept(initialize);
    let result = r#""result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}}}"#;
    let id = bench.rpc_id(initialize);
    bench.event(stream, &format!(r#"{{"jsonrpc":"2.0","id":{id},{result}}}"#));
    stream
}

#[test]
fn another_machine_goes_on_with_the_session() {
    let (mut bench, stream) = open();
    let first = running(&mut bench, 10, "1");
    let level = r#"{"jsonrpc":"2.0","id":2,"method":"logging/setLevel","params":{"level":"info"}}"#;
    post(&mut bench, 11, level);
    let call = bench.called("POST logging/setLevel 2");
    bench.accept(call);
    bench.event(stream, &answer("2"));
    bench.responded(11, 200);
    assert_eq!(bench.received(11), answer("2"));
    bench.finished(11);
    let known = bench.snapshots.pop().unwrap();
    let expected =
        Snapshot { initialize: INITIALIZE.into(), version: "2025-11-25".to_owned(), settings: vec![level.into()] };
    assert_eq!(known, expected);

    let mut bench = Bench::seeded(2, |config| {
        config.transport = Transport::Sse;
        let session = HeaderValue::from_static(SESSION);
        config.client = ClientTransport::Http(HttpTransport { resumed: Some(known), ..HttpTransport::new(session) });
    });
    // The client comes back for what was open.
    bench.ask(1, "GET", &[EVENTS, NAMED, ("last-event-id", &first)], "");
    bench.responded(1, 200);
    let lost = heard(&mut bench, 1);
    assert_eq!((&lost["id"], &lost["error"]["data"]["retrySafe"]), (&json!(1), &json!(false)));
    bench.finished(1);
    resumed(&mut bench);
    let initialized = bench.called("POST notifications/initialized");
    bench.accept(initialized);
    let restored = bench.called("POST logging/setLevel ours");
    bench.accept(restored);
    // It is told that much may have changed, and goes on.
    listening(&mut bench, 2);
    assert_eq!(heard(&mut bench, 2)["method"], "notifications/tools/list_changed");
    running(&mut bench, 3, "3");
}

#[test]
fn a_request_to_another_machine_waits_for_the_new_session() {
    let known = Snapshot { initialize: INITIALIZE.into(), version: "2025-11-25".to_owned(), settings: Vec::new() };
    let mut bench = front(|client, _| client.resumed = Some(known));
    post(&mut bench, 1, &request("1"));
    bench.responded(1, 200);
    bench.received(1);
    let stream = resumed(&mut bench);
    assert_eq!(heard(&mut bench, 1)["method"], "notifications/tools/list_changed");
    let initialized = bench.called("POST notifications/initialized");
    bench.accept(initialized);
    let call = bench.called("POST tools/call 1");
    bench.accept(call);
    bench.event(stream, &answer("1"));
    assert_eq!(heard(&mut bench, 1)["id"], 1);
    bench.finished(1);
}

#[test]
fn a_lost_server_is_replaced_or_ends_the_session() {
    let (mut bench, stream) = open();
    running(&mut bench, 10, "1");
    bench.end(stream);
    assert_eq!(heard(&mut bench, 10)["error"]["data"]["delivered"], "maybe");
    bench.finished(10);
    post(&mut bench, 11, &request("2"));
    bench.responded(11, 200);
    bench.received(11);
    resumed(&mut bench);

    let (mut bench, stream) = open_as("2025-11-25", |client, _| client.recovers = false);
    running(&mut bench, 10, "1");
    bench.end(stream);
    heard(&mut bench, 10);
    bench.finished(10);
    bench.exited(Exit::Drained);
}

#[test]
fn redirects_are_refused_where_they_are_not_wanted() {
    let mut bench = front(|_, config| config.redirects = false);
    bench.ask(1, "POST", &[BOTH, TYPE], INITIALIZE);
    let stream = bench.called("GET");
    bench.head(stream, 307, &[("location", "/elsewhere")]);
    bench.cancelled(stream);
    bench.responded(1, 200);
    let body: Value = serde_json::from_str(&bench.received(1)).unwrap();
    assert_eq!(body["error"]["data"]["httpStatus"], 307);
}

#[test]
fn a_call_that_has_ended_is_not_cancelled_when_its_answer_ends_the_session() {
    let mut bench = front(|_, config| config.transport = Transport::StreamableHttp);
    bench.ask(1, "POST", &[BOTH, TYPE], INITIALIZE);
    let initialize = bench.called("POST initialize 0");
    bench.json(initialize, r#"{"jsonrpc":"2.0","id":0,"error":{"code":-1,"message":"no"}}"#);
    bench.responded(1, 200);
    bench.received(1);
    bench.finished(1);
    bench.exited(Exit::Drained);
}

#[test]
fn a_machine_that_must_leave_says_so_to_whoever_waits_for_a_session() {
    let mut bench = front(|_, _| {});
    bench.ask(1, "POST", &[BOTH, TYPE], INITIALIZE);
    let stream = bench.called("GET");
    bench.shutdown();
    bench.responded(1, 503);
    let body: Value = serde_json::from_str(&bench.received(1)).unwrap();
    assert_eq!((&body["id"], &body["error"]["code"]), (&json!(0), &json!(-32000)));
    bench.finished(1);
    bench.cancelled(stream);
    bench.exited(Exit::Stopped);
}

#[test]
fn a_session_that_ends_with_the_server_says_what_it_knows_of_every_request() {
    let (mut bench, stream) = open_as("2025-11-25", |client, _| client.recovers = false);
    running(&mut bench, 10, "1");
    running(&mut bench, 11, "2");
    bench.end(stream);
    for exchange in [10, 11] {
        let data = heard(&mut bench, exchange)["error"]["data"].take();
        assert_eq!((&data["delivered"], &data["attempt"]), (&json!("maybe"), &json!(1)));
        bench.finished(exchange);
    }
    bench.exited(Exit::Drained);
}

#[test]
fn what_is_no_longer_kept_of_a_running_stream_is_told_to_whoever_comes_back() {
    let (mut bench, stream) = open_as("2025-03-26", |client, _| client.replay_events = 2);
    post(&mut bench, 10, &format!("[{},{},{}]", request("1"), request("2"), request("3")));
    bench.responded(10, 200);
    bench.received(10);
    for call in bench.started() {
        bench.accept(call);
    }
    bench.event(stream, r#"{"jsonrpc":"2.0","method":"notifications/x"}"#);
    let first = event_id(&bench.received(10));
    bench.gone(10);
    for id in ["1", "2", "3"] {
        bench.event(stream, &answer(id));
    }
    bench.ask(11, "GET", &[EVENTS, NAMED, ("last-event-id", &first)], "");
    bench.responded(11, 200);
    let lost = heard(&mut bench, 11);
    assert_eq!((&lost["id"], &lost["error"]["data"]["delivered"]), (&json!(1), &json!("maybe")));
    for id in [2, 3] {
        assert_eq!(heard(&mut bench, 11), json!({"jsonrpc": "2.0", "id": id, "result": {}}));
    }
    bench.finished(11);
    bench.silent();
}

#[test]
fn a_question_on_a_connection_that_is_lost_is_refused_in_bounded_time() {
    let question = r#"{"jsonrpc":"2.0","id":"q","method":"roots/list"}"#;
    let (mut bench, stream) = open_as("2025-06-18", |_, _| {});
    running(&mut bench, 10, "1");
    bench.event(stream, question);
    bench.received(10);
    bench.gone(10);
    assert_eq!(bench.deadline().unwrap().why, Why::Unread);
    bench.wait(30_000);
    let call = bench.called_last();
    assert!(bench.rpc(call)["error"]["message"].as_str().unwrap().contains("no stream"));
    bench.silent();

    // A client that comes back for it in time has all the time that it wants.
    let (mut bench, stream) = open();
    let first = running(&mut bench, 10, "1");
    bench.event(stream, question);
    bench.received(10);
    bench.gone(10);
    bench.wait(29_000);
    bench.ask(11, "GET", &[EVENTS, NAMED, ("last-event-id", &first)], "");
    bench.responded(11, 200);
    assert_eq!(heard(&mut bench, 11)["id"], "q");
    bench.wait(14_000);
    post(&mut bench, 12, &answer("\"q\""));
    bench.responded(12, 202);
    bench.finished(12);
    let call = bench.called_last();
    assert_eq!(bench.sent(call), answer("\"q\""));
}

#[test]
fn a_question_that_is_no_longer_kept_for_a_lost_connection_is_refused() {
    let (mut bench, stream) = open_as("2025-11-25", |client, _| client.replay_events = 1);
    let first = running(&mut bench, 10, "1");
    bench.event(stream, r#"{"jsonrpc":"2.0","id":"q","method":"roots/list"}"#);
    bench.event(stream, r#"{"jsonrpc":"2.0","method":"notifications/x"}"#);
    bench.received(10);
    bench.received(10);
    bench.gone(10);
    bench.ask(11, "GET", &[EVENTS, NAMED, ("last-event-id", &first)], "");
    bench.responded(11, 200);
    let event = bench.received(11);
    assert!(event.contains("notifications/x"), "{event}");
    let call = bench.called_last();
    assert!(bench.rpc(call)["error"]["message"].as_str().unwrap().contains("no stream"));
    bench.accept(call);
    // Coming back once more makes no difference.
    bench.ask(12, "GET", &[EVENTS, NAMED, ("last-event-id", &event_id(&event))], "");
    bench.aborted(11);
    bench.responded(12, 200);
    let first = bench.received(12);
    bench.took(12, first.len());
    assert_eq!(bench.deadline().unwrap().why, Why::Heartbeat);
    bench.silent();
}

#[test]
fn a_response_has_all_its_time_to_begin_after_a_question_was_refused() {
    let (mut bench, stream) =
        open_as("2025-06-18", |_, config| config.first_byte_timeout = Some(Duration::from_secs(5)));
    post(&mut bench, 10, &request("1"));
    bench.responded(10, 200);
    bench.received(10);
    let call = bench.called("POST tools/call 1");
    bench.event(stream, r#"{"jsonrpc":"2.0","id":"q","method":"roots/list"}"#);
    bench.received(10);
    bench.gone(10);
    bench.wait(30_000);
    bench.called_last();
    bench.silent();
    assert_eq!(
        bench.deadline().map(|deadline| (deadline.at.0 - bench.now, deadline.why)),
        Some((5_000, Why::FirstByte))
    );
    bench.wait(5_000);
    bench.cancelled(call);
}

#[test]
fn a_question_that_the_client_shows_not_to_have_seen_is_refused() {
    let (mut bench, stream) = open_as("2025-11-25", |client, _| client.replay_events = 1);
    let first = running(&mut bench, 10, "1");
    bench.event(stream, r#"{"jsonrpc":"2.0","id":"q","method":"roots/list"}"#);
    heard(&mut bench, 10);
    bench.event(stream, &answer("1"));
    heard(&mut bench, 10);
    bench.finished(10);
    running(&mut bench, 11, "2");
    bench.event(stream, &answer("2"));
    heard(&mut bench, 11);
    bench.finished(11);
    // All that had left, but it never arrived.
    bench.ask(12, "GET", &[EVENTS, NAMED, ("last-event-id", &first)], "");
    bench.responded(12, 200);
    assert_eq!(heard(&mut bench, 12)["id"], 1);
    bench.finished(12);
    let call = bench.called_last();
    assert!(bench.rpc(call)["error"]["message"].as_str().unwrap().contains("no stream"));
}

#[test]
fn that_an_answer_is_lost_is_told_once_to_a_client_that_has_read_it() {
    let (mut bench, stream) = open_as("2025-03-26", |client, _| client.replay_events = 1);
    post(&mut bench, 10, &format!("[{},{},{}]", request("1"), request("2"), request("3")));
    bench.responded(10, 200);
    bench.received(10);
    for call in bench.started() {
        bench.accept(call);
    }
    bench.event(stream, r#"{"jsonrpc":"2.0","method":"notifications/x"}"#);
    let first = event_id(&bench.received(10));
    bench.gone(10);
    bench.event(stream, &answer("1"));
    bench.event(stream, &answer("2"));
    // The stream still runs.
    bench.ask(11, "GET", &[EVENTS, NAMED, ("last-event-id", &first)], "");
    bench.responded(11, 200);
    let lost = event_id(&bench.received(11));
    bench.received(11);
    bench.gone(11);
    bench.event(stream, &answer("3"));
    bench.ask(12, "GET", &[EVENTS, NAMED, ("last-event-id", &lost)], "");
    bench.responded(12, 200);
    let second = bench.received(12);
    assert!(second.contains(r#""id":2,"error""#), "{second}");
    assert_eq!(heard(&mut bench, 12)["id"], 3);
    bench.finished(12);
    // Then it is forgotten.
    running(&mut bench, 13, "4");
    bench.event(stream, &answer("4"));
    bench.received(13);
    bench.finished(13);
    bench.ask(14, "GET", &[EVENTS, NAMED, ("last-event-id", &first)], "");
    bench.responded(14, 200);
    let all = bench.received(14);
    assert_eq!(all.matches("\"error\"").count(), 3, "{all}");
    bench.finished(14);
    bench.ask(15, "GET", &[EVENTS, NAMED, ("last-event-id", &event_id(&all))], "");
    bench.responded(15, 200);
    let rest = bench.received(15);
    assert!(!rest.contains("\"id\":1,") && rest.matches("\"error\"").count() == 2, "{rest}");
    bench.finished(15);
    bench.silent();
}

#[test]
fn what_waits_for_a_stream_goes_to_a_client_that_comes_back_to_its_request() {
    let (mut bench, stream) = open();
    let first = running(&mut bench, 10, "1");
    bench.gone(10);
    bench.event(stream, r#"{"jsonrpc":"2.0","id":"q","method":"roots/list"}"#);
    bench.silent();
    bench.ask(11, "GET", &[EVENTS, NAMED, ("last-event-id", &first)], "");
    bench.responded(11, 200);
    assert_eq!(heard(&mut bench, 11)["id"], "q");
    bench.silent();
}

#[test]
fn nothing_is_kept_of_requests_that_were_cancelled_after_their_connection_was_lost() {
    let (mut bench, _) = open();
    let mut held = Vec::new();
    for round in 0..20 {
        running(&mut bench, 10 + 2 * round, "1");
        bench.gone(10 + 2 * round);
        let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;
        post(&mut bench, 11 + 2 * round, cancel);
        bench.responded(11 + 2 * round, 202);
        bench.finished(11 + 2 * round);
        let call = bench.called("POST notifications/cancelled");
        bench.accept(call);
        bench.silent();
        held.push(format!("{:?}", bench.proxy).len());
    }
    // Only numbers grow.
    assert!(held[19] < held[0] + 100, "{held:?}");
}
