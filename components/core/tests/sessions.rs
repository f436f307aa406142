//! The handshake, the session headers, and a session that the server forgets.

mod common;

use common::*;
use mcp_proxy_core::{CallError, Note, Transport, Why};

#[test]
fn initialize_carries_neither_session_nor_version() {
    let (mut bench, call) = Bench::initializing();
    assert_eq!(bench.sent(call), INITIALIZE);
    assert_eq!((bench.header(call, "mcp-session-id"), bench.header(call, "mcp-protocol-version")), (None, None));
    assert_eq!(bench.header(call, "accept"), Some("application/json, text/event-stream"));
    assert_eq!(bench.header(call, "content-type"), Some("application/json"));
    bench.silent();
}

#[test]
fn later_calls_carry_the_session_and_the_negotiated_version() {
    let (mut bench, initialize) = Bench::initializing();
    bench.opened(initialize, "0", "s1", "2025-03-26");
    bench.say(INITIALIZED);
    let initialized = bench.called("POST notifications/initialized");
    bench.accept(initialized);
    let listen = bench.called("GET");
    bench.say(&list("1"));
    let list = bench.called("POST tools/list 1");
    for call in [initialized, listen, list] {
        assert_eq!(bench.header(call, "mcp-session-id"), Some("s1"));
        assert_eq!(bench.header(call, "mcp-protocol-version"), Some("2025-03-26"));
    }
    assert_eq!(bench.header(listen, "accept"), Some("text/event-stream"));
    bench.silent();
}

#[test]
fn a_server_without_sessions_gets_no_session_header_and_no_delete() {
    let (mut bench, initialize) = Bench::initializing();
    bench.json(initialize, &initialize_result("0", "2025-06-18"));
    bench.wrote(&initialize_result("0", "2025-06-18"));
    bench.say(&list("1"));
    let list = bench.called("POST tools/list 1");
    assert_eq!(bench.header(list, "mcp-session-id"), None);
    assert_eq!(bench.header(list, "mcp-protocol-version"), Some("2025-06-18"));
    bench.json(list, &result("1"));
    bench.wrote(&result("1"));
    bench.eof();
    bench.exited(mcp_proxy_core::Exit::Drained);
}

#[test]
fn requests_wait_for_the_answer_to_initialize() {
    let (mut bench, initialize) = Bench::initializing();
    bench.say(&list("1"));
    bench.silent();
    bench.opened(initialize, "0", "s1", "2025-11-25");
    let list = bench.called("POST tools/list 1");
    assert_eq!(bench.header(list, "mcp-session-id"), Some("s1"));
    bench.silent();
}

#[test]
fn requests_wait_for_initialized_but_not_for_ever() {
    let (mut bench, initialize) = Bench::initializing();
    bench.opened(initialize, "0", "s1", "2025-11-25");
    bench.say(INITIALIZED);
    bench.called("POST notifications/initialized");
    bench.say(&list("1"));
    bench.silent();
    assert_eq!(bench.wait_for_deadline(), (5000, Why::Greeting));
    let mut seen = [bench.called_any(), bench.called_any()];
    seen.sort();
    assert_eq!(seen, ["GET", "POST tools/list 1"], "the listening stream is opened all the same");
    bench.silent();
}

#[test]
fn a_refused_initialized_does_not_cost_the_listening_stream() {
    let (mut bench, initialize) = Bench::initializing();
    bench.opened(initialize, "0", "s1", "2025-11-25");
    bench.say(INITIALIZED);
    let initialized = bench.called("POST notifications/initialized");
    bench.status(initialized, 400, "");
    bench.called("GET");
    bench.silent();
}

#[test]
fn a_body_in_the_answer_to_initialized_is_not_relayed() {
    let (mut bench, initialize) = Bench::initializing();
    bench.opened(initialize, "0", "s1", "2025-11-25");
    bench.say(INITIALIZED);
    let initialized = bench.called("POST notifications/initialized");
    bench.json(initialized, r#"{"jsonrpc":"2.0","result":{}}"#);
    bench.called("GET");
    bench.silent();
}

#[test]
fn initialize_by_event_stream_opens_the_session_too() {
    let (mut bench, initialize) = Bench::initializing();
    bench.head(initialize, 200, &[("content-type", "text/event-stream"), ("mcp-session-id", "s9")]);
    bench.event(initialize, &initialize_result("0", "2025-11-25"));
    bench.wrote(&initialize_result("0", "2025-11-25"));
    bench.say(&list("1"));
    let list = bench.called("POST tools/list 1");
    assert_eq!(bench.header(list, "mcp-session-id"), Some("s9"));
}

#[test]
fn a_failed_initialize_fails_what_waited_for_it() {
    let mut bench = Bench::with(|config| config.retries = 0);
    bench.say(INITIALIZE);
    let initialize = bench.called("POST initialize 0");
    bench.say(&list("1"));
    bench.say(&tool("2"));
    bench.fail(initialize, CallError::Refused);
    bench.error_delivered("0", "no");
    for id in ["1", "2"] {
        let error = bench.error_delivered(id, "no");
        assert_eq!((&error["data"]["phase"], &error["data"]["attempt"]), (&"session".into(), &0.into()));
    }
    bench.silent();
}

#[test]
fn an_error_to_initialize_is_relayed_and_a_second_attempt_works() {
    let (mut bench, initialize) = Bench::initializing();
    bench.say(&list("1"));
    let refusal = r#"{"jsonrpc":"2.0","id":0,"error":{"code":-32602,"message":"version"}}"#;
    bench.json(initialize, refusal);
    bench.wrote(refusal);
    bench.error_delivered("1", "no");
    bench.handshake();
    bench.silent();
}

#[test]
fn initialize_is_not_cancelled() {
    let (mut bench, initialize) = Bench::initializing();
    bench.say(&cancel("0"));
    bench.silent();
    bench.opened(initialize, "0", "s1", "2025-11-25");
    assert_eq!(bench.noted(|note| *note == Note::InitializeCancelled), 1);
}

#[test]
fn a_message_over_the_limit_after_the_answer_does_not_undo_initialize() {
    let mut bench = Bench::with(|config| config.max_message = 300);
    bench.say(INITIALIZE);
    let initialize = bench.called("POST initialize 0");
    bench.say(&list("1"));
    bench.sse(initialize);
    let answer = initialize_result("0", "2025-11-25");
    bench.chunk(initialize, format!("data: {answer}\n\ndata: {}\n\n", "x".repeat(400)));
    bench.wrote(&answer);
    bench.called("POST tools/list 1");
    bench.silent();
}

#[test]
fn an_answer_to_initialize_on_another_stream_opens_the_session() {
    let mut bench = Bench::new();
    bench.say(&list("1"));
    let list_call = bench.called("POST tools/list 1");
    bench.say(INITIALIZE);
    bench.called("POST initialize 0");
    bench.say(&list("2"));
    bench.sse(list_call);
    bench.event(list_call, &initialize_result("0", "2025-11-25"));
    bench.wrote(&initialize_result("0", "2025-11-25"));
    bench.called("POST tools/list 2");
    bench.silent();
}

// ----- a lost session ----------------------------------------------------------

/// The server forgets the session at `tools/list 1`; returns our `initialize`.
fn lose(bench: &mut Bench) -> mcp_proxy_core::CallId {
    bench.say(&list("1"));
    let first = bench.called("POST tools/list 1");
    bench.head(first, 404, &[]);
    bench.cancelled(first);
    bench.called("POST initialize ours")
}

#[test]
fn a_lost_session_is_replaced_and_the_client_notices_nothing() {
    let mut bench = Bench::open();
    let initialize = lose(&mut bench);
    assert_eq!(
        (bench.header(initialize, "mcp-session-id"), bench.header(initialize, "mcp-protocol-version")),
        (None, None)
    );
    assert_eq!(bench.rpc(initialize)["params"]["clientInfo"]["name"], "c");
    bench.reopened(initialize, "s2");
    let initialized = bench.called("POST notifications/initialized");
    assert_eq!(bench.header(initialized, "mcp-session-id"), Some("s2"));
    bench.silent();
    bench.accept(initialized);
    bench.called("GET");
    let again = bench.called("POST tools/list 1");
    assert_eq!(bench.header(again, "mcp-session-id"), Some("s2"));
    bench.json(again, &result("1"));
    bench.wrote(&result("1"));
    bench.silent();
}

#[test]
fn a_tool_call_refused_with_a_dead_session_is_sent_again_once() {
    let mut bench = Bench::open();
    let first = bench.calls("5");
    bench.head(first, 404, &[]);
    bench.cancelled(first);
    let initialize = bench.called("POST initialize ours");
    bench.reopened(initialize, "s2");
    let initialized = bench.called("POST notifications/initialized");
    bench.accept(initialized);
    bench.called("GET");
    let second = bench.called("POST tools/call 5");
    bench.head(second, 404, &[]);
    bench.cancelled(second);
    let error = bench.error_delivered("5", "no");
    assert_eq!((&error["data"]["phase"], &error["data"]["httpStatus"]), (&"session".into(), &404.into()));
    bench.silent();
}

#[test]
fn calls_that_lose_the_session_together_open_one_new_session() {
    let mut bench = Bench::open();
    bench.say(&list("1"));
    let one = bench.called("POST tools/list 1");
    let two = bench.calls("2");
    bench.head(one, 404, &[]);
    bench.cancelled(one);
    let initialize = bench.called("POST initialize ours");
    bench.head(two, 404, &[]);
    bench.cancelled(two);
    bench.silent();
    bench.reopened(initialize, "s2");
    let initialized = bench.called("POST notifications/initialized");
    bench.accept(initialized);
    bench.called("GET");
    bench.called("POST tools/list 1");
    bench.called("POST tools/call 2");
    bench.silent();
}

#[test]
fn the_new_session_gets_the_log_level_and_the_subscriptions_back() {
    let mut bench = Bench::open();
    let settings = [
        r#"{"jsonrpc":"2.0","id":10,"method":"logging/setLevel","params":{"level":"debug"}}"#,
        r#"{"jsonrpc":"2.0","id":11,"method":"resources/subscribe","params":{"uri":"a:1"}}"#,
        r#"{"jsonrpc":"2.0","id":12,"method":"resources/subscribe","params":{"uri":"a:2"}}"#,
        r#"{"jsonrpc":"2.0","id":13,"method":"resources/unsubscribe","params":{"uri":"a:1"}}"#,
    ];
    for (id, setting) in ["10", "11", "12", "13"].iter().zip(settings) {
        bench.say(setting);
        let call = bench.called_last();
        bench.json(call, &result(id));
        bench.wrote(&result(id));
    }
    let initialize = lose(&mut bench);
    bench.reopened(initialize, "s2");
    let initialized = bench.called("POST notifications/initialized");
    bench.accept(initialized);
    bench.called("GET");
    let subscribe = bench.called("POST resources/subscribe ours");
    let level = bench.called("POST logging/setLevel ours");
    assert_eq!(bench.rpc(level)["params"]["level"], "debug");
    assert_eq!(bench.rpc(subscribe)["params"]["uri"], "a:2");
    bench.called("POST tools/list 1");
    bench.silent();
    for call in [level, subscribe] {
        let answer = result(&bench.rpc(call)["id"].to_string());
        bench.json(call, &answer);
    }
    bench.silent();
}

#[test]
fn a_session_that_cannot_be_replaced_is_an_error_and_the_next_request_tries_again() {
    let mut bench = Bench::open();
    let initialize = lose(&mut bench);
    bench.status(initialize, 500, "");
    let error = bench.error_delivered("1", "no");
    assert_eq!(error["data"]["phase"], "session");
    bench.silent();
    bench.say(&list("2"));
    bench.called("POST initialize ours");
    bench.silent();
}

#[test]
fn a_server_that_forgets_every_session_at_once_is_not_asked_for_ever() {
    let mut bench = Bench::open();
    let initialize = lose(&mut bench);
    bench.reopened(initialize, "s2");
    let initialized = bench.called("POST notifications/initialized");
    bench.head(initialized, 404, &[]);
    bench.cancelled(initialized);
    bench.called("GET");
    let again = bench.called("POST tools/list 1");
    bench.head(again, 404, &[]);
    bench.cancelled(again);
    bench.error_delivered("1", "no");
    bench.silent();
}

#[test]
fn a_setting_refused_with_404_does_not_reopen_for_ever() {
    let mut bench = Bench::open();
    bench.say(r#"{"jsonrpc":"2.0","id":10,"method":"logging/setLevel","params":{"level":"debug"}}"#);
    let level = bench.called("POST logging/setLevel 10");
    bench.json(level, &result("10"));
    bench.wrote(&result("10"));
    let initialize = lose(&mut bench);
    bench.reopened(initialize, "s2");
    let initialized = bench.called("POST notifications/initialized");
    bench.accept(initialized);
    bench.called("GET");
    let setting = bench.called("POST logging/setLevel ours");
    let again = bench.called("POST tools/list 1");
    bench.head(setting, 404, &[]);
    bench.cancelled(setting);
    bench.json(again, &result("1"));
    bench.wrote(&result("1"));
    bench.silent();
}

#[test]
fn a_late_404_of_the_old_session_goes_to_the_new_one() {
    let mut bench = Bench::open();
    let slow = bench.calls("2");
    let initialize = lose(&mut bench);
    bench.reopened(initialize, "s2");
    let initialized = bench.called("POST notifications/initialized");
    bench.accept(initialized);
    bench.called("GET");
    bench.called("POST tools/list 1");
    bench.head(slow, 404, &[]);
    bench.cancelled(slow);
    let again = bench.called("POST tools/call 2");
    assert_eq!(bench.header(again, "mcp-session-id"), Some("s2"));
    bench.silent();
}

#[test]
fn a_404_without_a_session_is_the_answer() {
    let mut bench = Bench::with(|config| config.transport = Transport::StreamableHttp);
    bench.say(&list("1"));
    let call = bench.called("POST tools/list 1");
    bench.status(call, 404, "<html>no such page</html>");
    let error = bench.error_delivered("1", "no");
    assert_eq!(
        (&error["data"]["httpStatus"], &error["data"]["body"]),
        (&404.into(), &"<html>no such page</html>".into())
    );
    bench.silent();
}

/// A tool call 2 is streaming when the session is lost and replaced by `s2`.
fn streaming_while_lost(first: &str) -> (Bench, mcp_proxy_core::CallId) {
    let mut bench = Bench::open();
    let stream = bench.calls("2");
    bench.sse(stream);
    bench.chunk(stream, first);
    let initialize = lose(&mut bench);
    bench.reopened(initialize, "s2");
    let initialized = bench.called("POST notifications/initialized");
    bench.accept(initialized);
    bench.called("GET");
    let again = bench.called("POST tools/list 1");
    bench.json(again, &result("1"));
    bench.wrote(&result("1"));
    bench.silent();
    (bench, stream)
}

#[test]
fn a_stream_of_the_lost_session_still_brings_its_answer() {
    let (mut bench, stream) = streaming_while_lost("");
    bench.event(stream, &note("notifications/message"));
    bench.wrote(&note("notifications/message"));
    bench.event(stream, &result("2"));
    bench.wrote(&result("2"));
    bench.silent();
}

#[test]
fn a_call_whose_stream_ends_with_the_lost_session_is_not_sent_into_the_next() {
    let (mut bench, stream) = streaming_while_lost("");
    bench.end(stream);
    bench.error_delivered("2", "maybe");
    bench.wait(1_000_000);
    assert!(bench.posts().is_empty(), "{:?}", bench.posts());

    let (mut bench, stream) = streaming_while_lost("id: e1\nretry: 100\ndata: \n\n");
    bench.end(stream);
    bench.wait(100);
    let resume = bench.called("GET");
    assert_eq!(bench.header(resume, "mcp-session-id"), Some("s1"));
    bench.head(resume, 404, &[]);
    bench.cancelled(resume);
    bench.error_delivered("2", "maybe");
    bench.silent();
}

#[test]
fn answers_to_requests_of_our_own_reach_nobody_however_often_and_late_they_come() {
    let mut bench = Bench::open();
    let initialize = lose(&mut bench);
    let own = bench.rpc_id(initialize);
    bench.head(initialize, 200, &[("content-type", "text/event-stream"), ("mcp-session-id", "s2")]);
    for _ in 0..2 {
        bench.event(initialize, &initialize_result(&own, "2025-11-25"));
    }
    let initialized = bench.called("POST notifications/initialized");
    bench.accept(initialized);
    let listen = bench.called("GET");
    bench.called("POST tools/list 1");
    bench.sse(listen);
    bench.event(listen, &initialize_result(&own, "2025-11-25"));
    bench.silent();
}

#[test]
fn a_client_that_initializes_again_gets_a_session_of_its_own() {
    let (mut bench, old) = Bench::calling();
    bench.say(INITIALIZE);
    let initialize = bench.called("POST initialize 0");
    assert_eq!(bench.header(initialize, "mcp-session-id"), None);
    bench.opened(initialize, "0", "s2", "2025-06-18");
    bench.say(&list("2"));
    let list = bench.called("POST tools/list 2");
    let headers = ["mcp-session-id", "mcp-protocol-version"].map(|name| bench.header(list, name));
    assert_eq!(headers, [Some("s2"), Some("2025-06-18")]);
    bench.json(old, &result("1"));
    bench.wrote(&result("1"));
    bench.silent();
}

const SUBSCRIBE: &str = r#"{"jsonrpc":"2.0","id":10,"method":"resources/subscribe","params":{"uri":"a:1"}}"#;

#[test]
fn a_subscription_that_failed_is_not_restored() {
    let mut bench = Bench::open();
    bench.say(SUBSCRIBE);
    let subscribe = bench.called("POST resources/subscribe 10");
    bench.status(subscribe, 401, "");
    bench.error_delivered("10", "no");
    let initialize = lose(&mut bench);
    bench.reopened(initialize, "s2");
    let initialized = bench.called("POST notifications/initialized");
    bench.accept(initialized);
    bench.called("GET");
    bench.called("POST tools/list 1");
    bench.silent();
}

#[test]
fn a_held_subscription_is_sent_once() {
    let mut bench = Bench::open();
    let initialize = lose(&mut bench);
    bench.say(SUBSCRIBE);
    bench.reopened(initialize, "s2");
    let initialized = bench.called("POST notifications/initialized");
    bench.accept(initialized);
    bench.called("GET");
    bench.called("POST tools/list 1");
    bench.called("POST resources/subscribe 10");
    bench.silent();
}

#[test]
fn an_attempt_before_the_session_was_lost_is_not_forgotten() {
    let mut bench = Bench::open();
    bench.say(&list("1"));
    let first = bench.called("POST tools/list 1");
    bench.fail(first, CallError::Reset);
    bench.wait(110);
    let second = bench.called("POST tools/list 1");
    bench.head(second, 404, &[]);
    bench.cancelled(second);
    let initialize = bench.called("POST initialize ours");
    bench.status(initialize, 500, "");
    let error = bench.error_delivered("1", "maybe");
    assert_eq!(error["data"]["attempt"], 2);
    bench.silent();
}

#[test]
fn a_late_404_of_the_old_greeting_is_dropped() {
    let (mut bench, initialize) = Bench::initializing();
    bench.opened(initialize, "0", "s1", "2025-11-25");
    bench.say(INITIALIZED);
    let greeting = bench.called("POST notifications/initialized");
    bench.wait(5000);
    bench.called("GET");
    let initialize = lose(&mut bench);
    bench.reopened(initialize, "s2");
    let initialized = bench.called("POST notifications/initialized");
    bench.accept(initialized);
    bench.cancelled_any();
    bench.called("GET");
    bench.called("POST tools/list 1");
    bench.head(greeting, 404, &[]);
    bench.cancelled(greeting);
    bench.silent();
}

#[test]
fn a_total_limit_holds_while_a_request_waits_for_its_session() {
    let mut bench = Bench::open_with(|config| config.total_timeout = Some(std::time::Duration::from_secs(20)));
    let call = bench.calls("1");
    bench.wait(1_000);
    bench.head(call, 404, &[]);
    bench.cancelled(call);
    bench.called("POST initialize ours");
    bench.say(&tool("2"));
    assert_eq!(bench.wait_for_deadline(), (19_000, mcp_proxy_core::Why::Total));
    let error = bench.error_delivered("1", "no");
    assert!(error["message"].as_str().unwrap().contains("20 s (--total-timeout)"), "{error}");
    assert_eq!(bench.wait_for_deadline(), (1_000, mcp_proxy_core::Why::Total));
    bench.error_delivered("2", "no");
    bench.silent();
}

#[test]
fn a_lost_session_is_no_sign_of_life_for_what_hangs_in_it() {
    let (mut bench, hanging) = Bench::calling();
    bench.wait(200_000);
    let call = bench.calls("2");
    bench.head(call, 404, &[]);
    bench.cancelled(call);
    let initialize = bench.called("POST initialize ours");
    bench.reopened(initialize, "s2");
    let initialized = bench.called("POST notifications/initialized");
    bench.accept(initialized);
    let listen = bench.called("GET");
    bench.head(listen, 405, &[]);
    let call = bench.called("POST tools/call 2");
    bench.cancelled(listen);
    bench.json(call, &result("2"));
    bench.wrote(&result("2"));
    assert_eq!(bench.wait_for_deadline(), (100_000, mcp_proxy_core::Why::Quiet));
    bench.cancelled(hanging);
    bench.error_delivered("1", "maybe");
}
