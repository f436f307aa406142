//! What the client may write: broken lines, batches, ids in use, blank lines.

mod common;

use common::*;
use mcp_proxy_core::{Exit, Input, Note, Side};

#[test]
fn a_broken_request_is_answered_and_the_session_goes_on() {
    let cases = [
        (r#"{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{]}"#, -32700),
        (r#"{"jsonrpc":"2.0","id":5,"method":7}"#, -32600),
    ];
    for (line, code) in cases {
        let mut bench = Bench::open();
        bench.say(line);
        assert_eq!(bench.error_delivered("5", "no")["code"], code);
        bench.say(&list("6"));
        bench.called("POST tools/list 6");
        bench.silent();
    }
}

#[test]
fn noise_is_noted_and_nothing_is_said() {
    for line in ["nonsense", "{}", "7", "[]", r#"{"id":4}"#, r#"{"id":null,"result":{}}"#, "[1,2", "\u{0}"] {
        let mut bench = Bench::open();
        bench.say(line);
        bench.silent();
        assert!(!bench.notes.is_empty(), "{line}");
    }
}

#[test]
fn a_line_that_is_not_utf8_is_refused_by_its_id() {
    let mut bench = Bench::open();
    bench.fact(Input::Bytes(Side::Client, b"{\"id\":3,\"method\":\"x\",\"params\":\"\xFF\"}\n"));
    assert_eq!(bench.error("3")["code"], -32700);
    bench.silent();
}

#[test]
fn an_id_in_use_is_refused_and_the_first_request_goes_on() {
    let (mut bench, call) = Bench::calling();
    bench.say(&tool("1"));
    assert_eq!(bench.error_delivered("1", "no")["code"], -32600);
    bench.silent();
    bench.json(call, &result("1"));
    bench.wrote(&result("1"));
    bench.say(&tool("1"));
    bench.called("POST tools/call 1");
    bench.silent();
}

#[test]
fn a_batch_line_is_taken_apart() {
    let mut bench = Bench::open();
    bench.say(&format!("[{}, {},{},7]", tool("1"), note("notifications/x"), list("2")));
    bench.called("POST tools/call 1");
    bench.called("POST notifications/x");
    bench.called("POST tools/list 2");
    bench.silent();
    assert_eq!(bench.noted(|note| matches!(note, Note::BadMembers { count: Some(1), .. })), 1);
}

#[test]
fn blank_lines_line_ends_and_a_byte_order_mark_do_no_harm() {
    let mut bench = Bench::new();
    bench.fact(Input::Bytes(Side::Client, format!("\u{feff}{}\r\n\r\n\n  \n{}\r\n", list("1"), list("2")).as_bytes()));
    bench.called("POST tools/list 1");
    bench.called("POST tools/list 2");
    bench.silent();
    assert_eq!(bench.noted(|note| matches!(note, Note::BadLine(_))), 0);
}

#[test]
fn a_last_line_without_its_end_counts() {
    let mut bench = Bench::new();
    bench.fact(Input::Bytes(Side::Client, list("1").as_bytes()));
    bench.silent();
    bench.eof();
    let call = bench.called("POST tools/list 1");
    bench.json(call, &result("1"));
    bench.wrote(&result("1"));
    bench.exited(Exit::Drained);
}
