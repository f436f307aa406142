//! The shell waits for a person, who logs in: no time limit ends the requests that wait,
//! and a client that asked for progress learns the reason.

mod common;

use common::modern::{calling, discovered, probing};
use common::*;
use mcp_proxy_core::{Input, Why};

const WHY: &str = "waiting for you to log in";

fn tool_with_progress(id: &str, token: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"t","_meta":{{"progressToken":{token}}}}}}}"#
    )
}

fn reason(token: &str) -> String {
    let params = format!(r#"{{"progressToken":{token},"progress":0,"message":"{WHY}"}}"#);
    format!(r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{params}}}"#)
}

#[test]
fn the_time_limit_of_a_request_does_not_run_meanwhile() {
    let (mut bench, call) = Bench::calling();
    for _ in 0..200 {
        bench.wait(3000);
        bench.fact(Input::Waiting(""));
        bench.silent();
    }
    bench.wait(299_999);
    bench.silent();
    assert_eq!(bench.wait_for_deadline(), (1, Why::Quiet));
    bench.cancelled(call);
    bench.error_delivered("1", "maybe");
}

#[test]
fn a_client_that_asked_for_progress_learns_the_reason_once() {
    let mut bench = Bench::open();
    bench.say(&tool_with_progress("1", "\"t\""));
    let first = bench.called_last();
    bench.say(&tool("2"));
    bench.called("POST tools/call 2");
    bench.fact(Input::Waiting(WHY));
    bench.wrote(&reason("\"t\""));
    bench.fact(Input::Waiting(""));
    bench.silent();
    bench.json(first, &result("1"));
    bench.wrote(&result("1"));
    bench.fact(Input::Waiting(WHY));
    bench.silent();
}

#[test]
fn a_modern_server_is_waited_for_and_found() {
    let (mut bench, probe) = probing();
    for _ in 0..20 {
        bench.wait(3000);
        bench.fact(Input::Waiting(WHY));
        bench.silent();
    }
    discovered(&mut bench, probe, "{}");
    bench.line();
    let (mut bench, _) = calling();
    bench.fact(Input::Waiting(WHY));
    bench.silent();
}
