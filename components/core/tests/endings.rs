//! The end of a run: EOF, the drain, goodbye, a client that is gone.

mod common;

use common::*;
use mcp_proxy_core::{CallError, Exit, Input, Why};

#[test]
fn at_eof_an_idle_machine_ends_the_session_and_leaves() {
    let mut bench = Bench::open();
    bench.eof();
    let goodbye = bench.called("DELETE");
    assert_eq!(bench.header(goodbye, "mcp-session-id"), Some("s1"));
    bench.silent();
    bench.head(goodbye, 204, &[]);
    bench.exited(Exit::Drained);
    assert_eq!(bench.deadline(), None);
}

#[test]
fn eof_before_anything_else_is_an_exit() {
    let mut bench = Bench::new();
    bench.eof();
    bench.exited(Exit::Drained);
}

#[test]
fn at_eof_open_requests_are_still_answered() {
    let (mut bench, listen) = Bench::listening();
    let call = bench.calls("1");
    bench.eof();
    assert!(!bench.wants_client());
    bench.silent();
    bench.json(call, &result("1"));
    bench.wrote(&result("1"));
    bench.cancelled(listen);
    let goodbye = bench.called("DELETE");
    bench.accept(goodbye);
    bench.exited(Exit::Drained);
}

#[test]
fn what_the_drain_time_does_not_bring_is_answered_by_us() {
    let (mut bench, call) = Bench::calling();
    bench.eof();
    assert_eq!(bench.wait_for_deadline(), (5000, Why::Drain));
    assert_eq!(bench.error_delivered("1", "maybe")["data"]["phase"], "drain");
    bench.cancelled(call);
    bench.called("DELETE");
    bench.silent();
}

#[test]
fn requests_held_for_the_session_at_the_end_of_the_drain_were_not_delivered() {
    let mut bench = Bench::new();
    bench.say(INITIALIZE);
    bench.called("POST initialize 0");
    bench.say(&tool("1"));
    bench.eof();
    bench.wait(5000);
    bench.error_delivered("0", "maybe");
    bench.error_delivered("1", "no");
    bench.cancelled_any();
    bench.exited(Exit::Drained);
}

#[test]
fn limits_that_are_hit_together_at_the_end_are_one_exit() {
    let mut bench = Bench::open_with(|config| config.request_timeout = Some(std::time::Duration::from_secs(2)));
    bench.eof();
    let goodbye = bench.called("DELETE");
    bench.wait(2000);
    bench.cancelled(goodbye);
    bench.exited(Exit::Drained);
}

#[test]
fn a_request_that_expires_at_the_end_of_the_drain_knows_that_it_was_sent() {
    let mut bench = Bench::open_with(|config| config.request_timeout = Some(std::time::Duration::from_secs(5)));
    bench.say(&tool("1"));
    bench.called("POST tools/call 1");
    bench.eof();
    bench.wait(5000);
    bench.cancelled_any();
    assert_eq!(bench.error_delivered("1", "maybe")["data"]["attempt"], 1);
}

#[test]
fn a_server_that_does_not_confirm_the_end_is_waited_for_two_seconds() {
    let mut bench = Bench::open();
    bench.eof();
    let goodbye = bench.called("DELETE");
    assert_eq!(bench.wait_for_deadline(), (2000, Why::Leave));
    bench.cancelled(goodbye);
    bench.exited(Exit::Drained);
}

#[test]
fn any_answer_to_the_goodbye_will_do() {
    for status in [200, 202, 400, 404, 405, 500] {
        let mut bench = Bench::open();
        bench.eof();
        let goodbye = bench.called("DELETE");
        bench.status(goodbye, status, "");
        bench.exited(Exit::Drained);
    }
    let mut bench = Bench::open();
    bench.eof();
    let goodbye = bench.called("DELETE");
    bench.fail(goodbye, CallError::Reset);
    bench.exited(Exit::Drained);
}

#[test]
fn at_eof_the_servers_open_questions_are_refused_for_the_client() {
    let (mut bench, listen) = Bench::listening();
    bench.event(listen, &request("\"q\"", "sampling/createMessage"));
    bench.wrote(&request("\"q\"", "sampling/createMessage"));
    bench.eof();
    let answer = bench.called("POST answer \"q\"");
    assert!(bench.rpc(answer)["error"]["code"].is_i64());
    bench.silent();
    bench.head(answer, 202, &[]);
    let cancelled = [bench.cancelled_any(), bench.cancelled_any()];
    assert_eq!(cancelled, [listen, answer]);
    bench.called("DELETE");
    bench.silent();
}

#[test]
fn questions_during_the_drain_are_refused_for_the_client() {
    let (mut bench, call) = Bench::streaming();
    bench.eof();
    bench.event(call, &request("8", "roots/list"));
    let answer = bench.called("POST answer 8");
    assert!(bench.rpc(answer)["error"].is_object());
    bench.silent();
}

#[test]
fn eof_waits_for_notifications_that_are_under_way() {
    let mut bench = Bench::open();
    bench.say(&note("notifications/x"));
    let call = bench.called("POST notifications/x");
    bench.eof();
    bench.silent();
    bench.head(call, 202, &[]);
    bench.cancelled(call);
    bench.called("DELETE");
    bench.silent();
}

#[test]
fn a_whole_run_in_one_pipe_is_answered_before_the_exit() {
    let mut bench = Bench::new();
    for line in [INITIALIZE, INITIALIZED, &list("1"), &tool("2")] {
        bench.say(line);
    }
    bench.eof();
    let initialize = bench.called("POST initialize 0");
    bench.opened(initialize, "0", "s1", "2025-11-25");
    let initialized = bench.called("POST notifications/initialized");
    bench.silent();
    bench.accept(initialized);
    let listen = bench.called("GET");
    let list = bench.called("POST tools/list 1");
    let tool = bench.called("POST tools/call 2");
    bench.json(list, &result("1"));
    bench.json(tool, &result("2"));
    bench.wrote(&result("1"));
    bench.wrote(&result("2"));
    bench.cancelled(listen);
    bench.called("DELETE");
    bench.silent();
}

// ----- gone ------------------------------------------------------------------------

#[test]
fn a_client_that_is_gone_gets_nothing_and_the_session_is_ended_quickly() {
    let (mut bench, listen) = Bench::listening();
    let call = bench.calls("1");
    bench.shutdown();
    let cancelled = [bench.cancelled_any(), bench.cancelled_any()];
    assert_eq!(cancelled, [listen, call]);
    let goodbye = bench.called("DELETE");
    assert_eq!(bench.wait_for_deadline(), (500, Why::Leave));
    bench.cancelled(goodbye);
    bench.exited(Exit::Stopped);
}

#[test]
fn shutdown_without_a_session_is_an_exit() {
    let mut bench = Bench::new();
    let call = bench.calls("1");
    bench.shutdown();
    bench.cancelled(call);
    bench.exited(Exit::Stopped);
}

#[test]
fn nothing_held_is_sent_after_shutdown() {
    let (mut bench, initialize) = Bench::initializing();
    bench.opened(initialize, "0", "s1", "2025-11-25");
    bench.say(INITIALIZED);
    let initialized = bench.called("POST notifications/initialized");
    bench.say(&tool("1"));
    bench.wait(4_800);
    bench.shutdown();
    bench.cancelled(initialized);
    bench.called("DELETE");
    bench.wait(300);
    bench.silent();
}

#[test]
fn nothing_held_is_sent_after_the_drain() {
    let mut bench = Bench::with(|config| config.drain_timeout = std::time::Duration::from_millis(100));
    bench.say(INITIALIZE);
    let initialize = bench.called("POST initialize 0");
    bench.opened(initialize, "0", "s1", "2025-11-25");
    bench.say(INITIALIZED);
    let initialized = bench.called("POST notifications/initialized");
    bench.say(&note("notifications/x"));
    bench.wait(4_000);
    bench.eof();
    bench.wait(100);
    bench.cancelled(initialized);
    bench.called("DELETE");
    bench.wait(1_500);
    bench.silent();
}

#[test]
fn a_second_shutdown_changes_nothing() {
    let mut bench = Bench::open();
    bench.shutdown();
    bench.called("DELETE");
    bench.wait(400);
    bench.shutdown();
    bench.silent();
    bench.wait(100);
    bench.cancelled_any();
    bench.exited(Exit::Stopped);
}

#[test]
fn shutdown_during_the_goodbye_says_no_second_one() {
    let mut bench = Bench::open();
    bench.eof();
    let goodbye = bench.called("DELETE");
    bench.shutdown();
    bench.silent();
    bench.accept(goodbye);
    bench.exited(Exit::Drained);
}

#[test]
fn after_the_exit_no_fact_matters() {
    let mut bench = Bench::new();
    let call = bench.calls("1");
    bench.shutdown();
    bench.cancelled(call);
    bench.exited(Exit::Stopped);
    bench.say(&tool("2"));
    bench.json(call, &result("1"));
    bench.eof();
    bench.shutdown();
    bench.wait(1_000_000);
    bench.silent();
    assert!(!bench.wants_client() && !bench.wants(call) && bench.deadline().is_none());
}

#[test]
fn a_stop_answers_what_is_open_and_gives_the_server_a_second() {
    let (mut bench, listen) = Bench::listening();
    let call = bench.calls("1");
    bench.fact(Input::Stop);
    let error = bench.error_delivered("1", "maybe");
    assert_eq!(
        error["message"],
        "the proxy was told to stop before the answer came; the request may have been carried out"
    );
    let stopped = [bench.cancelled_any(), bench.cancelled_any()];
    assert!(stopped.contains(&listen) && stopped.contains(&call));
    let goodbye = bench.called("DELETE");
    assert_eq!(bench.wait_for_deadline(), (1000, Why::Leave));
    bench.cancelled(goodbye);
    bench.exited(Exit::Drained);
}

#[test]
fn a_stop_ends_the_drain_and_shortens_a_goodbye_that_is_under_way() {
    let (mut bench, call) = Bench::calling();
    bench.eof();
    bench.fact(Input::Stop);
    bench.error_delivered("1", "maybe");
    bench.cancelled(call);
    bench.called("DELETE");

    let mut bench = Bench::open();
    bench.eof();
    bench.called("DELETE");
    bench.wait(500);
    bench.fact(Input::Stop);
    assert_eq!(bench.wait_for_deadline(), (1000, Why::Leave));
    bench.cancelled_any();
    bench.exited(Exit::Drained);
}

#[test]
fn a_stop_before_anything_else_is_an_exit_and_a_second_one_is_nothing() {
    let mut bench = Bench::new();
    bench.fact(Input::Stop);
    bench.exited(Exit::Drained);
    bench.fact(Input::Stop);
    bench.silent();
}
