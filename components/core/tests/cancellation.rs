//! A client that waits no longer.

mod common;

use common::*;
use mcp_proxy_core::{CallError, CallId};

#[test]
fn a_cancelled_request_is_cancelled_at_the_server_and_its_answer_dropped() {
    let mut bench = Bench::open();
    let call = bench.calls("\"a\"");
    bench.say(&cancel("\"a\""));
    let notification = bench.called("POST notifications/cancelled");
    assert_eq!(bench.sent(notification), cancel("\"a\""));
    bench.accept(notification);
    bench.json(call, &result("\"a\""));
    bench.wait(1_000_000);
    bench.silent();
}

#[test]
fn a_late_answer_on_an_open_stream_is_dropped() {
    let (mut bench, call) = Bench::streaming();
    bench.say(&cancel("1"));
    let notification = bench.called("POST notifications/cancelled");
    bench.accept(notification);
    bench.event(call, &result("1"));
    bench.end(call);
    bench.wait(1_000_000);
    bench.silent();
}

#[test]
fn a_held_request_that_is_cancelled_never_leaves() {
    let (mut bench, initialize) = Bench::initializing();
    bench.say(&tool("1"));
    bench.say(&cancel("1"));
    bench.opened(initialize, "0", "s1", "2025-11-25");
    bench.silent();
}

#[test]
fn a_request_waiting_for_its_retry_that_is_cancelled_never_leaves() {
    let (mut bench, call) = Bench::calling();
    bench.fail(call, CallError::Refused);
    bench.say(&cancel("1"));
    bench.wait(1_000_000);
    bench.silent();
}

#[test]
fn a_stream_waiting_to_be_resumed_is_let_go_on_cancel() {
    let (mut bench, call) = Bench::streaming();
    bench.chunk(call, "id: e1\ndata: \n\n");
    bench.end(call);
    bench.say(&cancel("1"));
    let notification = bench.called("POST notifications/cancelled");
    bench.accept(notification);
    bench.wait(1_000_000);
    bench.silent();
}

type Fate = fn(&mut Bench, CallId);

#[test]
fn whatever_becomes_of_a_cancelled_call_it_is_not_sent_again() {
    let fates: [(&str, Fate); 5] = [
        ("refused", |bench, call| bench.fail(call, CallError::Refused)),
        ("ended", |bench, call| bench.end(call)),
        ("later", |bench, call| bench.head(call, 429, &[("retry-after", "1")])),
        ("redirect", |bench, call| bench.head(call, 307, &[("location", "/x")])),
        ("session gone", |bench, call| bench.head(call, 404, &[])),
    ];
    for (name, fate) in fates {
        let (mut bench, call) = Bench::calling();
        bench.say(&cancel("1"));
        let notification = bench.called("POST notifications/cancelled");
        bench.accept(notification);
        fate(&mut bench, call);
        bench.wait(100_000);
        assert!(bench.posts().is_empty(), "{name}: {:?}", bench.posts());
    }
}

#[test]
fn a_cancel_of_an_unknown_request_is_passed_on() {
    let mut bench = Bench::open();
    bench.say(&cancel("99"));
    bench.called("POST notifications/cancelled");
    bench.silent();
}

#[test]
fn a_cancelled_id_can_be_used_again() {
    let (mut bench, first) = Bench::calling();
    bench.say(&cancel("1"));
    bench.called("POST notifications/cancelled");
    let second = bench.calls("1");
    bench.head(first, 500, &[]);
    bench.cancelled(first);
    bench.silent();
    bench.json(second, &result("1"));
    bench.wrote(&result("1"));
    bench.silent();
}
