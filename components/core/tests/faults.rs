//! The network and the server at their worst: failed connections, statuses
//! that ask for patience, redirects, silence.

mod common;

use common::*;
use mcp_proxy_core::{CallError, Note, Why};

#[test]
fn a_connection_that_fails_is_tried_again_after_100_200_and_400_ms() {
    for error in [CallError::Refused, CallError::Unresolved, CallError::ConnectTimeout] {
        let (mut bench, mut call) = Bench::calling();
        for wait in [100, 200, 400] {
            bench.fail(call, error);
            let (waited, why) = bench.wait_for_deadline();
            assert!((wait..=wait + wait / 10).contains(&waited) && why == Why::Retry, "{waited} {why:?}");
            call = bench.called("POST tools/call 1");
        }
        bench.fail(call, error);
        let failure = bench.error_delivered("1", "no");
        let data = &failure["data"];
        assert_eq!(
            (&data["phase"], &data["attempt"], &data["retrySafe"]),
            (&"connect".into(), &4.into(), &true.into())
        );
        bench.silent();
    }
}

#[test]
fn a_retry_that_gets_through_is_nobodys_business() {
    let (mut bench, call) = Bench::calling();
    bench.fail(call, CallError::Refused);
    bench.wait(110);
    let call = bench.called("POST tools/call 1");
    bench.json(call, &result("1"));
    bench.wrote(&result("1"));
    bench.silent();
}

#[test]
fn what_will_not_get_better_is_not_tried_again() {
    for error in [CallError::Tls, CallError::Denied] {
        let (mut bench, call) = Bench::calling();
        bench.fail(call, error);
        bench.error_delivered("1", "no");
        bench.silent();
    }
}

#[test]
fn a_tool_call_that_may_have_arrived_is_not_sent_again() {
    for error in [CallError::Reset, CallError::Protocol] {
        let (mut bench, call) = Bench::calling();
        bench.fail(call, error);
        let failure = bench.error_delivered("1", "maybe");
        assert_eq!(failure["data"]["retrySafe"], false);
        bench.wait(1_000_000);
        bench.silent();
    }
}

#[test]
fn a_list_that_may_have_arrived_is_sent_again() {
    let mut bench = Bench::open();
    bench.say(&list("1"));
    let call = bench.called("POST tools/list 1");
    bench.fail(call, CallError::Reset);
    bench.wait(110);
    bench.called("POST tools/list 1");
    bench.silent();
}

#[test]
fn an_attempt_that_may_have_arrived_is_not_forgotten() {
    let mut bench = Bench::open();
    bench.say(&list("1"));
    for error in [CallError::Reset, CallError::Refused, CallError::Refused, CallError::Refused] {
        bench.wait(1000);
        let call = bench.called("POST tools/list 1");
        bench.fail(call, error);
    }
    bench.error_delivered("1", "maybe");
    bench.silent();
}

#[test]
fn a_notification_that_cannot_be_brought_is_noted() {
    let mut bench = Bench::open();
    bench.say(&note("notifications/x"));
    let call = bench.called("POST notifications/x");
    bench.fail(call, CallError::Reset);
    bench.silent();
    assert_eq!(bench.noted(|note| *note == Note::Undelivered { status: None }), 1);
}

// ----- come back later --------------------------------------------------------------

#[test]
fn a_server_that_asks_to_come_back_is_obeyed() {
    for status in [429, 503] {
        let (mut bench, call) = Bench::calling();
        bench.head(call, status, &[("retry-after", "7")]);
        bench.cancelled(call);
        assert_eq!(bench.wait_for_deadline(), (7000, Why::Retry));
        bench.called("POST tools/call 1");
        bench.silent();
    }
}

#[test]
fn a_wait_beyond_the_time_limit_is_an_error_now() {
    let (mut bench, call) = Bench::calling();
    bench.head(call, 429, &[("retry-after", "301")]);
    bench.cancelled(call);
    assert_eq!(bench.error_delivered("1", "no")["data"]["httpStatus"], 429);
    bench.silent();
}

#[test]
fn a_server_that_always_asks_to_come_back_is_given_up() {
    let (mut bench, mut call) = Bench::calling();
    for _ in 0..3 {
        bench.head(call, 503, &[("retry-after", "1")]);
        bench.cancelled(call);
        bench.wait(1000);
        call = bench.called("POST tools/call 1");
    }
    bench.head(call, 503, &[("retry-after", "1")]);
    bench.cancelled(call);
    assert_eq!(bench.error("1")["data"]["attempt"], 4);
    bench.silent();
}

#[test]
fn without_retry_after_a_503_is_the_answer() {
    let (mut bench, call) = Bench::calling();
    bench.status(call, 503, "down");
    bench.error_delivered("1", "maybe");
    bench.silent();
}

// ----- redirects ----------------------------------------------------------------------

#[test]
fn a_redirect_on_the_same_origin_is_followed() {
    let (mut bench, call) = Bench::calling();
    bench.head(call, 307, &[("location", "/mcp/")]);
    bench.cancelled(call);
    let next = bench.called("POST tools/call 1");
    assert_eq!(bench.uri(next), "http://server.test/mcp/");
    assert_eq!(bench.header(next, "mcp-session-id"), Some("s1"));
    bench.json(next, &result("1"));
    bench.wrote(&result("1"));
    bench.say(&list("2"));
    let other = bench.called("POST tools/list 2");
    assert_eq!(bench.uri(other), "http://server.test/mcp/", "the detour is taken once");
    bench.silent();
}

#[test]
fn a_permanent_redirect_is_remembered() {
    let (mut bench, call) = Bench::calling();
    bench.head(call, 308, &[("location", "https://server.test/mcp")]);
    bench.cancelled(call);
    let next = bench.called("POST tools/call 1");
    bench.json(next, &result("1"));
    bench.wrote(&result("1"));
    bench.say(&list("2"));
    let other = bench.called("POST tools/list 2");
    assert_eq!(bench.uri(other), "https://server.test/mcp");
    bench.silent();
}

#[test]
fn a_redirect_into_nowhere_is_not_where_the_next_request_goes() {
    let (mut bench, call) = Bench::calling();
    bench.head(call, 307, &[("location", "/nowhere")]);
    bench.cancelled(call);
    let next = bench.called("POST tools/call 1");
    bench.status(next, 500, "no");
    bench.error("1");
    bench.say(&list("2"));
    let other = bench.called("POST tools/list 2");
    assert_eq!(bench.uri(other), "http://server.test/mcp");
}

#[test]
fn a_redirect_to_another_origin_is_an_error_that_names_it() {
    for status in [301, 302, 307, 308] {
        let (mut bench, call) = Bench::calling();
        bench.head(call, status, &[("location", "https://evil.example:444/x?secret")]);
        bench.cancelled(call);
        let error = bench.error_delivered("1", "no");
        let message = error["message"].as_str().unwrap();
        assert!(message.contains("https://evil.example:444") && !message.contains("secret"), "{message}");
        bench.silent();
    }
}

#[test]
fn redirects_in_a_circle_end() {
    let (mut bench, mut call) = Bench::calling();
    for _ in 0..5 {
        bench.head(call, 307, &[("location", URL)]);
        bench.cancelled(call);
        call = bench.called("POST tools/call 1");
    }
    bench.head(call, 307, &[("location", URL)]);
    bench.cancelled(call);
    bench.error("1");
    bench.silent();
}

#[test]
fn the_listening_stream_follows_a_redirect_too() {
    let mut bench = Bench::new();
    let listen = bench.handshake();
    bench.head(listen, 307, &[("location", "/mcp/")]);
    bench.cancelled(listen);
    let next = bench.called("GET");
    assert_eq!(bench.uri(next), "http://server.test/mcp/");
    bench.silent();
}

// ----- silence --------------------------------------------------------------------------

#[test]
fn a_request_without_any_sign_of_life_is_given_up_and_cancelled_at_the_server() {
    let (mut bench, call) = Bench::calling();
    assert_eq!(bench.wait_for_deadline(), (300_000, Why::Quiet));
    bench.cancelled(call);
    let error = bench.error_delivered("1", "maybe");
    assert!(
        error["message"].as_str().unwrap().contains("300 s; the request may have been carried out (--request-timeout)"),
        "{error}"
    );
    let cancel = bench.called("POST notifications/cancelled");
    assert_eq!(bench.rpc(cancel)["params"]["requestId"], 1);
    bench.silent();
}

#[test]
fn bytes_on_its_stream_keep_a_request_alive() {
    let (mut bench, call) = Bench::calling();
    bench.sse(call);
    for _ in 0..10 {
        bench.wait(299_999);
        bench.chunk(call, ":\n");
    }
    bench.silent();
    bench.wait(300_000);
    bench.cancelled(call);
}

#[test]
fn no_time_limit_means_none() {
    let mut bench = Bench::open_with(|config| config.request_timeout = None);
    let call = bench.calls("1");
    bench.wait(u64::MAX / 2);
    bench.silent();
    bench.json(call, &result("1"));
    bench.wrote(&result("1"));
}

#[test]
fn the_clock_stands_while_the_client_owes_an_answer() {
    let (mut bench, call) = Bench::calling();
    bench.sse(call);
    bench.event(call, &request("\"q\"", "elicitation/create"));
    bench.wrote(&request("\"q\"", "elicitation/create"));
    bench.wait(3_600_000);
    bench.silent();
    bench.say(&result("\"q\""));
    let answer = bench.called("POST answer \"q\"");
    bench.accept(answer);
    bench.wait(299_999);
    bench.silent();
    bench.wait(1);
    bench.cancelled(call);
}

#[test]
fn the_clock_starts_anew_when_the_server_takes_its_question_back() {
    let (mut bench, call) = Bench::calling();
    bench.say(&tool("2"));
    bench.called("POST tools/call 2");
    bench.sse(call);
    bench.event(call, &request("\"q\"", "elicitation/create"));
    bench.wrote(&request("\"q\"", "elicitation/create"));
    bench.wait(3_600_000);
    bench.event(call, &cancel("\"q\""));
    bench.wrote(&cancel("\"q\""));
    bench.wait(299_999);
    bench.silent();
}

#[test]
fn a_late_tick_does_not_send_a_request_only_to_give_it_up() {
    let mut bench = Bench::open_with(|config| config.request_timeout = Some(std::time::Duration::from_millis(500)));
    let call = bench.calls("1");
    bench.fail(call, CallError::Refused);
    bench.now += 60_000;
    bench.fact(mcp_proxy_core::Input::Tick);
    assert!(bench.deadline().is_none_or(|deadline| deadline.at.0 > bench.now), "{:?}", bench.deadline());
}

#[test]
fn a_stalled_notification_is_given_up_after_a_minute() {
    let mut bench = Bench::open();
    bench.say(&note("notifications/x"));
    let call = bench.called("POST notifications/x");
    assert_eq!(bench.wait_for_deadline(), (60_000, Why::Quiet));
    bench.cancelled(call);
    bench.silent();
}
