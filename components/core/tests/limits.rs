//! Message limits and backpressure: over a limit the asker gets an error and
//! the session lives; what is held stays bounded however slow a peer is.

mod common;

use common::*;
use mcp_proxy_core::{Exit, Input, Side, Sink};

/// The longest message of these tests.
const MAX: usize = 400;

fn small() -> Bench {
    Bench::open_with(|config| config.max_message = MAX)
}

fn padded(id: &str, length: usize) -> String {
    let empty = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":""}}"#);
    empty.replace("\"\"", &format!("\"{}\"", "x".repeat(length - empty.len())))
}

fn padded_result(id: &str, length: usize) -> String {
    let empty = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":""}}"#);
    empty.replace("\"\"", &format!("\"{}\"", "x".repeat(length - empty.len())))
}

#[test]
fn a_line_at_the_limit_passes_and_one_over_it_is_refused_by_its_id() {
    let mut bench = small();
    bench.say(&padded("1", MAX));
    bench.called("POST tools/call 1");
    bench.say(&padded("2", MAX + 1));
    let error = bench.error_delivered("2", "no");
    assert!(error["message"].as_str().unwrap().contains("400"), "{error}");
    bench.say(&padded("3", MAX * 100));
    bench.error_delivered("3", "no");
    bench.say(&list("4"));
    bench.called("POST tools/list 4");
    bench.silent();
}

#[test]
fn an_event_over_the_limit_is_an_error_for_its_request() {
    let mut bench = small();
    let call = bench.calls("1");
    bench.sse(call);
    bench.event(call, &padded_result("1", MAX + 1));
    let error = bench.error_delivered("1", "yes");
    assert!(error["message"].as_str().unwrap().contains("400"), "{error}");
    bench.cancelled(call);
    let call = bench.calls("2");
    bench.sse(call);
    bench.event(call, &padded_result("2", MAX));
    bench.wrote(&padded_result("2", MAX));
    bench.silent();
}

#[test]
fn a_body_over_the_limit_is_an_error_for_its_request() {
    let mut bench = small();
    let call = bench.calls("1");
    bench.head(call, 200, &[("content-type", "application/json")]);
    bench.chunk(call, &padded_result("1", MAX + 1)[..300]);
    bench.silent();
    bench.chunk(call, &padded_result("1", MAX + 1)[300..]);
    bench.error_delivered("1", "yes");
    bench.cancelled(call);
    let call = bench.calls("2");
    bench.json(call, &padded_result("2", MAX));
    bench.wrote(&padded_result("2", MAX));
    bench.silent();
}

#[test]
fn an_event_of_empty_data_lines_is_bounded_too() {
    let mut bench = small();
    let call = bench.calls("1");
    bench.sse(call);
    bench.chunk(call, format!("data: {}\n", result("1")));
    for _ in 0..MAX {
        bench.chunk(call, "data:\n");
    }
    bench.chunk(call, "\n");
    bench.error_delivered("1", "yes");
    bench.cancelled(call);
    bench.silent();
}

#[test]
fn an_event_over_the_limit_on_the_listening_stream_costs_only_itself() {
    let mut bench = Bench::with(|config| config.max_message = MAX);
    let listen = bench.handshake();
    bench.sse(listen);
    bench.event(listen, &"x".repeat(MAX + 1));
    bench.event(listen, &note("notifications/x"));
    bench.wrote(&note("notifications/x"));
    bench.silent();
}

#[test]
fn a_large_message_passes() {
    let (mut bench, call) = Bench::streaming();
    let answer = padded_result("1", 9 << 20);
    for chunk in format!("data: {answer}\n\n").as_bytes().chunks(1 << 16) {
        assert!(bench.wants(call));
        bench.chunk(call, chunk);
    }
    assert_eq!(bench.line().len(), answer.len() + 1);
    bench.silent();
}

#[test]
fn the_server_is_not_read_while_stdout_is_full() {
    let (mut bench, listen) = Bench::listening();
    let message = note(&"n".repeat(1 << 16));
    let mut unwritten = 0;
    while bench.wants(listen) {
        bench.event(listen, &message);
        unwritten += bench.line().len();
        assert!(unwritten < 2 << 20, "no end of reading");
    }
    assert!(bench.wants_client(), "the client is still read");
    bench.fact(Input::Flushed(Sink::Side(Side::Client), unwritten));
    assert!(bench.wants(listen));
}

#[test]
fn a_request_does_not_expire_because_the_client_does_not_read() {
    let (mut bench, listen) = Bench::listening();
    let call = bench.calls("1");
    bench.sse(call);
    bench.event(listen, &note(&"n".repeat(2 << 20)));
    let unwritten = bench.line().len();
    assert!(!bench.wants(call));
    bench.wait(3_600_000);
    bench.fact(Input::Flushed(Sink::Side(Side::Client), unwritten));
    bench.wait(1_000);
    bench.silent();
    bench.event(call, &result("1"));
    bench.wrote(&result("1"));
}

#[test]
fn many_unfinished_messages_are_finished_one_at_a_time() {
    let mut bench = Bench::open();
    let calls: Vec<_> = (0..4)
        .map(|id| {
            bench.say(&tool(&id.to_string()));
            let call = bench.called_last();
            bench.sse(call);
            bench.chunk(call, format!("data: {}", "x".repeat(5 << 20)));
            call
        })
        .collect();
    let wanted: Vec<bool> = calls.iter().map(|call| bench.wants(*call)).collect();
    assert_eq!(wanted, [true, false, false, false]);
}

#[test]
fn the_client_is_not_read_while_too_much_waits_for_the_server() {
    let mut bench = Bench::open_with(|config| config.max_message = 1 << 20);
    let mut sent = 0;
    while bench.wants_client() {
        bench.say(&padded(&sent.to_string(), 1 << 20));
        sent += 1;
        assert!(sent < 30, "no end of reading");
    }
    assert!(sent >= 2);
    let call = bench.called_last();
    bench.sse(call);
    assert!(bench.wants_client(), "the server has taken one");
}

#[test]
fn refusals_do_not_pile_up_before_a_client_that_does_not_read() {
    let mut bench = Bench::open_with(|config| config.max_message = 1 << 20);
    let long = format!("\"{}\"", "i".repeat(1 << 18));
    let mut unwritten = 0;
    while bench.wants_client() {
        bench.say(&tool(&long));
        unwritten += bench.line().len();
        assert!(unwritten < 20 << 20, "no end of reading");
    }
    bench.fact(Input::Flushed(Sink::Side(Side::Client), unwritten));
    assert!(bench.wants_client());
}

#[test]
fn questions_of_the_server_without_end_are_refused() {
    let (mut bench, listen) = Bench::listening();
    for id in 0..20_000 {
        bench.event(listen, &request(&id.to_string(), "ping"));
        if !bench.next_is_a_line() {
            let answer = bench.called_last();
            assert!(bench.rpc(answer)["error"].is_object());
            return;
        }
        let written = bench.line().len();
        bench.fact(Input::Flushed(Sink::Side(Side::Client), written));
    }
    panic!("no end of questions");
}

#[test]
fn a_stalled_stdout_does_not_stop_the_exit() {
    let (mut bench, call) = Bench::calling();
    bench.json(call, &padded_result("1", 2 << 20));
    bench.line();
    bench.eof();
    bench.called("DELETE");
    bench.wait(2000);
    bench.cancelled_any();
    bench.exited(Exit::Drained);
}
