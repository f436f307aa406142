//! HTTP+SSE of 2024-11-05: the stream that names the endpoint, messages that
//! are posted there, answers that come on the stream, and its loss.

mod common;

use common::sse::{asked, endpoint, open, open_with, sse};
use common::*;
use mcp_proxy_core::{CallError, CallId, Exit, Note, Why};
use std::time::Duration;

/// The machine opens a second session of its own accord; returns its stream.
fn reopen(bench: &mut Bench, stream: CallId) {
    endpoint(bench, stream, "/messages?s=2");
    let initialize = bench.called("POST initialize ours");
    bench.accept(initialize);
    let id = bench.rpc_id(initialize);
    bench.event(stream, &initialize_result(&id, "2024-11-05"));
    let initialized = bench.called("POST notifications/initialized");
    assert_eq!(bench.uri(initialized), "http://server.test/messages?s=2");
    bench.accept(initialized);
}

#[test]
fn messages_are_posted_to_the_endpoint_and_answered_on_the_stream() {
    let (mut bench, stream) = open();
    assert_eq!(bench.uri(stream), URL);
    assert_eq!(bench.header(stream, "accept"), Some("text/event-stream"));
    let call = bench.calls("1");
    assert_eq!((bench.uri(call), bench.sent(call)), ("http://server.test/messages?s=1".to_owned(), tool("1").as_str()));
    bench.head(call, 200, &[("mcp-session-id", "no")]);
    bench.body(call, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"not this\"}");
    bench.silent();
    bench.chunk(stream, format!("event: message\r\ndata: {}\r\n\r\n", result("1")));
    bench.wrote(&result("1"));
    bench.eof();
    bench.cancelled(stream);
    bench.exited(Exit::Drained);
}

#[test]
fn an_answer_may_overtake_the_response_to_its_post() {
    let (mut bench, stream) = open();
    let call = bench.calls("1");
    bench.event(stream, &result("1"));
    bench.wrote(&result("1"));
    bench.accept(call);
    bench.event(stream, &result("1"));
    bench.silent();
    assert_eq!(bench.noted(|note| *note == Note::LateAnswer), 1);
}

#[test]
fn any_success_will_do_for_a_post() {
    for status in [200, 201, 202, 204] {
        let (mut bench, stream) = open();
        let call = bench.calls("1");
        bench.status(call, status, "whatever");
        bench.event(stream, &result("1"));
        bench.wrote(&result("1"));
    }
}

#[test]
fn a_post_that_never_returns_is_given_up_alone() {
    let (mut bench, stream) = open_with(|config| config.first_byte_timeout = Some(Duration::from_secs(60)));
    let first = bench.calls("1");
    let second = bench.calls("2");
    bench.accept(second);
    assert_eq!(bench.wait_for_deadline(), (60_000, Why::FirstByte));
    bench.cancelled(first);
    let error = bench.error_delivered("1", "maybe");
    assert!(
        error["message"]
            .as_str()
            .unwrap()
            .contains("60 s; the request may have been carried out (--first-byte-timeout)"),
        "{error}"
    );
    bench.called("POST notifications/cancelled");
    bench.event(stream, &result("2"));
    bench.wrote(&result("2"));
    bench.silent();
}

#[test]
fn a_request_that_is_never_answered_is_given_up_however_lively_the_stream_is() {
    let (mut bench, stream) = open();
    let call = bench.calls("1");
    bench.accept(call);
    for _ in 0..30 {
        bench.wait(9_999);
        bench.chunk(stream, ": ping\n\n");
        bench.silent();
    }
    bench.wait(100);
    bench.error_delivered("1", "maybe");
    bench.called("POST notifications/cancelled");
    bench.silent();
}

#[test]
fn a_server_that_pings_the_client_keeps_no_lost_request_open() {
    let (mut bench, stream) = open();
    let call = bench.calls("1");
    bench.accept(call);
    for round in 0..30 {
        let ping = request(&format!("\"p{round}\""), "ping");
        bench.event(stream, &ping);
        bench.wrote(&ping);
        bench.wait(9_999);
        bench.say(&result(&format!("\"p{round}\"")));
        let answer = bench.called_last();
        bench.accept(answer);
    }
    bench.wait(100);
    bench.error_delivered("1", "maybe");
    bench.called("POST notifications/cancelled");
    bench.silent();
}

#[test]
fn a_post_that_is_refused_is_an_error_for_its_request_alone() {
    let (mut bench, stream) = open();
    let call = bench.calls("1");
    bench.status(call, 400, "Invalid message");
    assert_eq!(bench.error("1")["data"]["body"], "Invalid message");
    bench.say(&tool("2"));
    bench.called("POST tools/call 2");
    bench.event(stream, &result("2"));
    bench.wrote(&result("2"));
    bench.silent();
}

#[test]
fn an_endpoint_on_another_origin_is_refused_and_nothing_is_sent_there() {
    let (mut bench, stream) = asked(|_| {});
    endpoint(&mut bench, stream, "https://evil.example/m");
    bench.cancelled(stream);
    let error = bench.error_delivered("0", "no");
    assert!(error["message"].as_str().unwrap().contains("https://evil.example"), "{error}");
    bench.silent();
}

#[test]
fn an_endpoint_of_only_a_query_belongs_to_the_stream() {
    let (mut bench, stream) = asked(|_| {});
    endpoint(&mut bench, stream, "?sessionId=1");
    let call = bench.called("POST initialize 0");
    assert_eq!(bench.uri(call), "http://server.test/mcp?sessionId=1");
}

#[test]
fn a_stream_that_names_no_endpoint_is_given_up() {
    let (mut bench, stream) = asked(|_| {});
    bench.sse(stream);
    bench.chunk(stream, ": welcome\n\n");
    assert_eq!(bench.wait_for_deadline(), (10_000, Why::Endpoint));
    bench.cancelled(stream);
    let error = bench.error_delivered("0", "no");
    assert!(error["message"].as_str().unwrap().contains("10 s (--endpoint-timeout)"), "{error}");
    bench.silent();
}

#[test]
fn a_stream_that_begins_with_something_else_is_no_http_sse() {
    let (mut bench, stream) = asked(|_| {});
    bench.sse(stream);
    bench.event(stream, &result("0"));
    bench.cancelled(stream);
    let error = bench.error_delivered("0", "no");
    assert!(error["message"].as_str().unwrap().contains("`message`"), "{error}");
    bench.silent();
}

#[test]
fn a_stream_that_cannot_be_opened_is_an_error_and_the_next_request_tries_again() {
    let (mut bench, stream) = asked(|_| {});
    bench.status(stream, 401, "who are you");
    let error = bench.error_delivered("0", "no");
    assert_eq!((&error["data"]["httpStatus"], &error["data"]["body"]), (&401.into(), &"who are you".into()));
    bench.say(INITIALIZE);
    let stream = bench.called("GET");
    for _ in 0..3 {
        bench.fail(stream, CallError::Refused);
    }
    bench.silent();
    let mut stream = stream;
    for wait in [100, 200, 400] {
        let (waited, why) = bench.wait_for_deadline();
        assert!((wait..=wait + wait / 10).contains(&waited) && why == Why::Reconnect, "{waited}");
        stream = bench.called("GET");
        bench.fail(stream, CallError::Refused);
    }
    bench.error_delivered("0", "no");
    bench.fail(stream, CallError::Refused);
    bench.silent();
}

#[test]
fn a_gateway_that_strips_the_path_is_found_out_once() {
    let mut bench = Bench::at("http://server.test/team/a/sse", sse);
    bench.say(INITIALIZE);
    let stream = bench.called("GET");
    endpoint(&mut bench, stream, "/messages?s=1");
    let first = bench.called("POST initialize 0");
    assert_eq!(bench.uri(first), "http://server.test/messages?s=1");
    bench.head(first, 404, &[]);
    bench.cancelled(first);
    let second = bench.called("POST initialize 0");
    assert_eq!(bench.uri(second), "http://server.test/team/a/messages?s=1");
    bench.accept(second);
    bench.event(stream, &initialize_result("0", "2024-11-05"));
    bench.wrote(&initialize_result("0", "2024-11-05"));
    bench.say(INITIALIZED);
    let initialized = bench.called("POST notifications/initialized");
    assert_eq!(bench.uri(initialized), "http://server.test/team/a/messages?s=1");
    bench.accept(initialized);
    bench.end(stream);
    bench.say(&tool("1"));
    let stream = bench.called("GET");
    endpoint(&mut bench, stream, "/messages?s=2");
    let again = bench.called("POST initialize ours");
    assert_eq!(bench.uri(again), "http://server.test/team/a/messages?s=2");
    bench.silent();
}

#[test]
fn the_loss_of_the_stream_answers_what_may_have_run_and_repeats_what_only_reads() {
    let (mut bench, stream) = open();
    for line in [tool("1"), list("2")] {
        bench.say(&line);
        let call = bench.called_last();
        bench.accept(call);
    }
    bench.fail(stream, CallError::Reset);
    bench.error_delivered("1", "maybe");
    let stream = bench.called("GET");
    reopen(&mut bench, stream);
    let call = bench.called("POST tools/list 2");
    bench.accept(call);
    bench.event(stream, &result("2"));
    bench.wrote(&result("2"));
    bench.silent();
}

#[test]
fn what_is_being_posted_when_the_stream_ends_may_yet_say_that_it_did_not_run() {
    let posted = || {
        let (mut bench, stream) = open();
        let call = bench.calls("1");
        bench.end(stream);
        bench.silent();
        (bench, call)
    };
    let moves_on = |mut bench: Bench| {
        let stream = bench.called("GET");
        reopen(&mut bench, stream);
        bench.called("POST tools/call 1");
        bench.silent();
    };
    let (mut bench, call) = posted();
    bench.head(call, 404, &[]);
    bench.cancelled(call);
    moves_on(bench);
    let (mut bench, call) = posted();
    bench.fail(call, CallError::Refused);
    moves_on(bench);
    let (mut bench, call) = posted();
    bench.fail(call, CallError::Reset);
    bench.error_delivered("1", "maybe");
    bench.silent();
    let (mut bench, call) = posted();
    bench.head(call, 202, &[]);
    bench.cancelled(call);
    bench.error_delivered("1", "maybe");
    bench.silent();
    let (mut bench, call) = posted();
    bench.wait(4_999);
    bench.skip();
    bench.wait(1);
    bench.cancelled(call);
    bench.error_delivered("1", "maybe");
}

#[test]
fn an_answer_of_the_client_stays_in_the_session_of_its_question() {
    let (mut bench, stream) = open();
    bench.event(stream, &request("9", "roots/list"));
    bench.wrote(&request("9", "roots/list"));
    bench.say(&result("9"));
    let answer = bench.called("POST answer 9");
    bench.head(answer, 404, &[]);
    bench.cancelled(answer);
    bench.silent();
    assert_eq!(bench.noted(|note| matches!(note, Note::Undelivered { .. })), 1);
}

#[test]
fn progress_shows_that_a_post_has_arrived() {
    let (mut bench, stream) = open_with(|config| config.first_byte_timeout = Some(Duration::from_secs(10)));
    bench.say(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"progressToken":7}}}"#);
    bench.called("POST tools/call 1");
    for _ in 0..5 {
        bench.wait(9_000);
        bench.event(stream, &progress("7"));
        bench.wrote(&progress("7"));
    }
    bench.silent();
}

#[test]
fn the_end_of_input_before_the_endpoint_came_is_an_error_for_what_never_left() {
    let (mut bench, stream) = asked(|_| {});
    bench.eof();
    bench.wait(5_000);
    bench.error_delivered("0", "no");
    bench.cancelled(stream);
    bench.exited(Exit::Drained);
}

#[test]
fn the_next_request_after_a_loss_finds_a_new_session() {
    let (mut bench, stream) = open();
    bench.end(stream);
    bench.silent();
    bench.say(&tool("1"));
    let stream = bench.called("GET");
    bench.silent();
    reopen(&mut bench, stream);
    let call = bench.called("POST tools/call 1");
    assert_eq!(bench.uri(call), "http://server.test/messages?s=2");
    bench.accept(call);
    bench.event(stream, &result("1"));
    bench.wrote(&result("1"));
    bench.silent();
}

#[test]
fn a_session_that_cannot_be_opened_again_is_an_error_and_the_next_request_tries() {
    let (mut bench, stream) = open();
    bench.end(stream);
    bench.say(&tool("1"));
    let stream = bench.called("GET");
    bench.status(stream, 403, "");
    let error = bench.error_delivered("1", "no");
    assert_eq!(error["data"]["httpStatus"], 403, "{error}");
    bench.silent();
    bench.say(&tool("2"));
    let stream = bench.called("GET");
    reopen(&mut bench, stream);
    bench.called("POST tools/call 2");
    bench.silent();
}

#[test]
fn a_stream_lost_during_the_handshake_is_opened_once_more() {
    let (mut bench, mut stream) = asked(|_| {});
    for _ in 0..2 {
        endpoint(&mut bench, stream, "/messages");
        let call = bench.called("POST initialize 0");
        bench.accept(call);
        bench.end(stream);
        if bench.next_is_a_line() {
            break;
        }
        stream = bench.called("GET");
    }
    bench.error_delivered("0", "maybe");
    bench.silent();
}

#[test]
fn a_post_that_the_server_does_not_know_the_session_of_opens_a_new_one() {
    let (mut bench, old) = open();
    let call = bench.calls("1");
    bench.head(call, 404, &[]);
    bench.cancelled(call);
    bench.cancelled(old);
    let stream = bench.called("GET");
    reopen(&mut bench, stream);
    let call = bench.called("POST tools/call 1");
    bench.head(call, 404, &[]);
    bench.cancelled(call);
    bench.error_delivered("1", "no");
    bench.silent();
}

#[test]
fn a_cancelled_request_is_cancelled_at_the_endpoint_and_its_answer_dropped() {
    let (mut bench, stream) = open();
    let call = bench.calls("1");
    bench.accept(call);
    bench.say(&cancel("1"));
    let cancel = bench.called("POST notifications/cancelled");
    assert_eq!(bench.uri(cancel), "http://server.test/messages?s=1");
    bench.event(stream, &result("1"));
    bench.silent();
}

#[test]
fn requests_of_the_server_are_answered_at_the_endpoint() {
    let (mut bench, stream) = open();
    bench.event(stream, &request("\"q\"", "sampling/createMessage"));
    bench.wrote(&request("\"q\"", "sampling/createMessage"));
    bench.say(&result("\"q\""));
    let answer = bench.called("POST answer \"q\"");
    assert_eq!(bench.uri(answer), "http://server.test/messages?s=1");
    bench.silent();
}

#[test]
fn an_answer_over_the_limit_is_an_error_for_its_request_and_the_stream_goes_on() {
    let (mut bench, stream) = open_with(|config| config.max_message = 1000);
    for id in ["1", "2"] {
        bench.say(&tool(id));
        let call = bench.called_last();
        bench.accept(call);
    }
    bench.event(stream, &format!(r#"{{"jsonrpc":"2.0","result":"{}","id":1}}"#, "x".repeat(1000)));
    let error = bench.error("1");
    assert!(error["message"].as_str().unwrap().contains("--max-message-bytes"), "{error}");
    bench.event(stream, &result("2"));
    bench.wrote(&result("2"));
    bench.silent();
}

#[test]
fn an_answer_to_initialize_over_the_limit_holds_nothing_back_for_ever() {
    let (mut bench, stream) = asked(|config| config.max_message = 1000);
    endpoint(&mut bench, stream, "/messages");
    let call = bench.called("POST initialize 0");
    bench.accept(call);
    bench.say(&tool("1"));
    bench.event(stream, &format!(r#"{{"jsonrpc":"2.0","result":"{}","id":0}}"#, "x".repeat(1000)));
    bench.error_delivered("0", "yes");
    bench.error_delivered("1", "no");
    bench.say(&tool("2"));
    bench.called("POST tools/call 2");
    bench.silent();
}

#[test]
fn a_client_that_initializes_again_gets_a_stream_of_its_own() {
    let (mut bench, old) = open();
    bench.say(&tool("1"));
    let call = bench.called_last();
    bench.accept(call);
    bench.say(INITIALIZE);
    bench.cancelled(old);
    bench.error_delivered("1", "maybe");
    let second = bench.called("GET");
    endpoint(&mut bench, second, "/m");
    let initialize = bench.called("POST initialize 0");
    bench.accept(initialize);
    bench.event(second, &initialize_result("0", "2024-11-05"));
    bench.wrote(&initialize_result("0", "2024-11-05"));
    bench.say(INITIALIZE);
    bench.cancelled(second);
    bench.called("GET");
    bench.silent();
}

#[test]
fn a_second_endpoint_changes_nothing() {
    let (mut bench, stream) = open();
    let call = bench.calls("1");
    bench.accept(call);
    bench.chunk(stream, "event: endpoint\ndata: https://evil.example/m\n\n");
    bench.chunk(stream, "event: endpoint\ndata: /moved\n\n");
    let call = bench.calls("2");
    assert_eq!(bench.uri(call), "http://server.test/messages?s=1");
    bench.event(stream, &result("1"));
    bench.wrote(&result("1"));
    bench.silent();
    assert_eq!(bench.noted(|note| *note == Note::SecondEndpoint), 2);
}

#[test]
fn a_redirected_post_is_followed_and_is_no_stripped_prefix() {
    let (mut bench, stream) = open();
    let call = bench.calls("1");
    bench.head(call, 307, &[("location", "/elsewhere")]);
    bench.cancelled(call);
    let call = bench.called("POST tools/call 1");
    bench.accept(call);
    bench.event(stream, &result("1"));
    bench.wrote(&result("1"));
    bench.end(stream);
    bench.say(&tool("2"));
    let stream = bench.called("GET");
    reopen(&mut bench, stream);
}

#[test]
fn a_servers_reconnection_time_is_respected() {
    let (mut bench, stream) = open();
    bench.chunk(stream, "retry: 5000\n\n");
    bench.end(stream);
    assert_eq!(bench.wait_for_deadline(), (5_000, Why::Reopen));
}

#[test]
fn messages_before_a_handshake_go_to_the_endpoint_too() {
    let mut bench = Bench::with(sse);
    bench.say(&list("1"));
    let stream = bench.called("GET");
    bench.say(&cancel("1"));
    bench.say(&list("2"));
    bench.silent();
    endpoint(&mut bench, stream, "/messages");
    let call = bench.called("POST tools/list 2");
    bench.accept(call);
    bench.end(stream);
    let error = bench.error_delivered("2", "maybe");
    assert_eq!(error["data"]["retrySafe"], true);
    bench.silent();
}

#[test]
fn a_total_limit_holds_however_lively_the_request_is() {
    let (mut bench, stream) = open_with(|config| config.total_timeout = Some(Duration::from_secs(20)));
    bench.say(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"progressToken":7}}}"#);
    let call = bench.called_last();
    bench.accept(call);
    for _ in 0..3 {
        bench.wait(6_000);
        bench.event(stream, &progress("7"));
        bench.wrote(&progress("7"));
    }
    assert_eq!(bench.wait_for_deadline(), (2_000, Why::Total));
    let error = bench.error_delivered("1", "maybe");
    assert!(
        error["message"].as_str().unwrap().contains("20 s; the request may have been carried out (--total-timeout)"),
        "{error}"
    );
    bench.called("POST notifications/cancelled");
    bench.silent();
}

#[test]
fn a_stream_that_is_redirected_away_is_given_up_at_once() {
    let (mut bench, stream) = asked(|_| {});
    bench.head(stream, 302, &[("location", "https://login.example/")]);
    bench.cancelled(stream);
    let error = bench.error_delivered("0", "no");
    assert!(error["message"].as_str().unwrap().contains("https://login.example"), "{error}");
    bench.silent();
    bench.say(INITIALIZE);
    let mut stream = bench.called("GET");
    for _ in 0..5 {
        bench.head(stream, 307, &[("location", "/mcp")]);
        bench.cancelled(stream);
        stream = bench.called("GET");
    }
    bench.head(stream, 307, &[("location", "/mcp")]);
    bench.cancelled(stream);
    let error = bench.error_delivered("0", "no");
    assert!(error["message"].as_str().unwrap().contains("circle"), "{error}");
    bench.silent();
}
