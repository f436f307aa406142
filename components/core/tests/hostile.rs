//! Peers that want to hurt: batches, ids, header values and streams that cost
//! them little and us much. How many bytes that takes is asserted in
//! `tests/fuzz`; here every request is answered and the session lives on.

mod common;

use common::*;
use mcp_proxy_core::{Blame, Input, Note, Side, Sink};

/// A tool call that is answered: the session lives.
fn lives(bench: &mut Bench) {
    let call = bench.calls("\"after\"");
    bench.json(call, &result("\"after\""));
    bench.wrote(&result("\"after\""));
    bench.silent();
}

fn numbers(count: usize) -> String {
    format!("[{}1]", "1,".repeat(count - 1))
}

fn bad_members(bench: &Bench, wanted: &Note) -> usize {
    bench.noted(|note| matches!(note, Note::BadMembers { .. }) && note == wanted)
}

// ----- batches -----------------------------------------------------------------------

#[test]
fn a_batch_of_a_million_numbers_is_one_error_and_one_note() {
    let (mut bench, call) = Bench::calling();
    bench.json(call, &numbers(1_000_000));
    bench.error("1");
    assert_eq!(bad_members(&bench, &Note::BadMembers { from: Blame::Server, count: None }), 1);
    lives(&mut bench);
}

#[test]
fn a_batch_event_of_numbers_is_one_note_and_the_answer_still_counts() {
    let (mut bench, call) = Bench::calling();
    bench.sse(call);
    bench.event(call, &numbers(500));
    bench.event(call, &result("1"));
    bench.wrote(&result("1"));
    assert_eq!(bad_members(&bench, &Note::BadMembers { from: Blame::Server, count: Some(500) }), 1);
    bench.end(call);
    lives(&mut bench);
}

#[test]
fn a_client_s_batch_with_too_many_members_is_carried_out_in_part_and_answered_whole() {
    let mut bench = Bench::open();
    let members: Vec<String> = (0..5000).map(|id| list(&id.to_string())).collect();
    bench.say(&format!("[{},7]", members.join(",")));
    for _ in 0..1000 {
        bench.called_last();
    }
    let mut refused = 0;
    while bench.next_is_a_line() {
        refused += bench.line().matches("\"code\":-32600").count();
    }
    assert_eq!(refused, 4000);
    assert_eq!(bad_members(&bench, &Note::BadMembers { from: Blame::Client, count: Some(1) }), 1);
}

#[test]
fn a_client_s_batch_of_numbers_is_one_note() {
    let mut bench = Bench::open();
    bench.say(&numbers(100_000));
    bench.silent();
    assert_eq!(bad_members(&bench, &Note::BadMembers { from: Blame::Client, count: Some(100_000) }), 1);
    lives(&mut bench);
}

// ----- what becomes a header ---------------------------------------------------------

#[test]
fn a_protocol_version_that_is_too_long_is_shown_to_the_client_and_not_sent_back() {
    let (mut bench, call) = Bench::initializing();
    bench.opened(call, "0", "s1", &"9".repeat(200_000));
    let call = bench.calls("1");
    assert_eq!(bench.header(call, "mcp-session-id"), Some("s1"));
    assert_eq!(bench.header(call, "mcp-protocol-version"), None);
}

#[test]
fn a_session_id_that_is_too_long_is_an_error_that_names_it() {
    let (mut bench, call) = Bench::initializing();
    let long = "s".repeat(150_000);
    bench.head(call, 200, &[("content-type", "application/json"), ("mcp-session-id", &long)]);
    bench.cancelled(call);
    let error = bench.error("0");
    assert!(error["message"].as_str().unwrap().contains("session id is longer than 8192 bytes"), "{error}");
    bench.say(INITIALIZE);
    bench.called("POST initialize 0");
}

#[test]
fn cookies_that_are_too_long_together_are_not_all_sent_back() {
    let (mut bench, call) = Bench::calling();
    let cookies: Vec<String> = (0..32).map(|n| format!("c{n}={}", "x".repeat(4000))).collect();
    let mut headers = vec![("content-type", "application/json")];
    headers.extend(cookies.iter().map(|cookie| ("set-cookie", cookie.as_str())));
    bench.head(call, 200, &headers);
    bench.body(call, &result("1"));
    bench.wrote(&result("1"));
    let call = bench.calls("2");
    let sent = bench.header(call, "cookie").unwrap_or_default();
    assert!(sent.starts_with("c0=") && sent.len() < 10_000, "{} bytes", sent.len());
}

#[test]
fn an_endpoint_or_a_redirect_that_is_too_long_is_an_error() {
    let (mut bench, call) = Bench::calling();
    bench.head(call, 307, &[("location", &format!("/{}", "x".repeat(20_000)))]);
    bench.cancelled(call);
    bench.error("1");
    lives(&mut bench);
}

// ----- ids ---------------------------------------------------------------------------

#[test]
fn a_request_with_a_long_id_is_refused_by_it() {
    let mut bench = Bench::open();
    let long = format!("\"{}\"", "i".repeat(1 << 20));
    bench.say(&tool(&long));
    let error = bench.error(&long);
    assert!(error["message"].as_str().unwrap().contains("longer than 1024 bytes"), "{error}");
    lives(&mut bench);
}

#[test]
fn a_question_with_a_long_id_is_dropped() {
    let (mut bench, call) = Bench::calling();
    bench.sse(call);
    for n in 0..100 {
        bench.event(call, &request(&format!("\"{n}{}\"", "q".repeat(10_000)), "ping"));
    }
    bench.silent();
    assert_eq!(bench.noted(|note| *note == Note::AskDropped), 100);
    bench.event(call, &result("1"));
    bench.wrote(&result("1"));
}

#[test]
fn a_server_that_asks_on_and_takes_no_answer_gets_no_more() {
    let (mut bench, call) = Bench::calling();
    bench.sse(call);
    for id in 0..12_000 {
        bench.event(call, &request(&id.to_string(), "sampling/createMessage"));
        while bench.next_is_a_line() {
            let written = bench.line().len();
            bench.fact(Input::Flushed(Sink::Side(Side::Client), written));
        }
    }
    assert_eq!(bench.started().len(), 1000);
    assert_eq!(bench.noted(|note| *note == Note::AskDropped), 1000);
}

#[test]
fn a_client_is_not_read_while_the_server_takes_none_of_its_notifications() {
    let mut bench = Bench::open();
    let mut said = 0;
    while bench.wants_client() {
        bench.say(&note("notifications/roots/list_changed"));
        said += 1;
        assert!(said <= 1000, "no end of notifications");
    }
    let calls = bench.started();
    bench.accept(calls[0]);
    assert!(bench.wants_client());
}

// ----- streams -----------------------------------------------------------------------

#[test]
fn a_stream_that_asks_to_be_reopened_at_once_is_reopened_ever_more_slowly() {
    let (mut bench, call) = Bench::calling();
    bench.sse(call);
    let mut stream = call;
    let mut waits = Vec::new();
    for n in 0..6 {
        bench.chunk(stream, format!("id: {n}\nretry: 0\ndata:\n\n"));
        bench.end(stream);
        waits.push(bench.wait_for_deadline().0);
        stream = bench.called("GET");
        bench.sse(stream);
    }
    assert_eq!(waits, [100, 200, 400, 800, 1000, 1000]);
    bench.event(stream, &note("notifications/message"));
    bench.wrote(&note("notifications/message"));
    bench.chunk(stream, "retry: 0\n\n");
    bench.end(stream);
    assert_eq!(bench.wait_for_deadline().0, 100, "a message makes a stream worth its while");
}

#[test]
fn a_listening_stream_that_is_closed_at_once_is_not_reopened_in_a_tight_loop() {
    let (mut bench, mut listen) = Bench::listening();
    let mut waits = Vec::new();
    for n in 0..5 {
        bench.chunk(listen, format!("id: {n}\nretry: 0\ndata:\n\n"));
        bench.end(listen);
        waits.push(bench.wait_for_deadline().0);
        listen = bench.called("GET");
        bench.sse(listen);
    }
    assert_eq!(waits, [100, 200, 400, 800, 1000]);
}
