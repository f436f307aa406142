//! Requests and their one answer: ids, bytes, both response forms, what the
//! server asks meanwhile, and responses that are no answer.

mod common;

use common::*;
use mcp_proxy_core::{CallError, Note, Outcome};

#[test]
fn an_answer_is_relayed_byte_for_byte() {
    let mut bench = Bench::open();
    let ask = r#"{"z":1,"jsonrpc":"2.0","params":{"n":9007199254740993,"f":1.50},"method":"tools/call","id":9007199254740993}"#;
    let answer = r#"{ "result":{"big":12345678901234567890,"f":1.0e2}, "x":[],"jsonrpc":"2.0","id":9007199254740993 }"#;
    bench.say(ask);
    let call = bench.called("POST tools/call 9007199254740993");
    assert_eq!(bench.sent(call), ask);
    bench.json(call, answer);
    bench.wrote(answer);
    bench.silent();
}

#[test]
fn an_event_stream_brings_notifications_then_the_answer() {
    let (mut bench, call) = Bench::streaming();
    bench.event(call, &note("notifications/message"));
    bench.wrote(&note("notifications/message"));
    bench.event(call, &result("1"));
    bench.wrote(&result("1"));
    bench.end(call);
    bench.silent();
}

#[test]
fn string_and_number_ids_are_different_requests() {
    let mut bench = Bench::open();
    let text = bench.calls("\"1\"");
    let number = bench.calls("1");
    bench.json(number, &result("1"));
    bench.wrote(&result("1"));
    bench.json(text, &result("\"1\""));
    bench.wrote(&result("\"1\""));
    bench.silent();
}

#[test]
fn the_answer_has_the_id_in_the_clients_spelling() {
    let mut bench = Bench::open();
    bench.say(&tool(r#""\u0061""#));
    let call = bench.called("POST tools/call \"a\"");
    bench.json(call, &result("\"a\""));
    bench.wrote(&result(r#""\u0061""#));
    bench.silent();
}

#[test]
fn answers_come_in_any_order() {
    let mut bench = Bench::open();
    let calls: Vec<_> = (1..11)
        .map(|id| {
            bench.say(&tool(&id.to_string()));
            bench.called(&format!("POST tools/call {id}"))
        })
        .collect();
    for (id, call) in (1..11).zip(calls).rev() {
        bench.json(call, &result(&id.to_string()));
        bench.wrote(&result(&id.to_string()));
    }
    bench.silent();
}

#[test]
fn an_answer_on_another_stream_is_taken_and_its_own_stream_forgotten() {
    let (mut bench, listen) = Bench::listening();
    let call = bench.calls("1");
    bench.event(listen, &result("1"));
    bench.wrote(&result("1"));
    bench.json(call, &result("1"));
    bench.silent();
    assert_eq!(bench.noted(|note| *note == Note::LateAnswer), 0, "a 202 or 200 after the answer is nothing new");
}

#[test]
fn a_second_answer_is_dropped() {
    let (mut bench, call) = Bench::streaming();
    bench.event(call, &result("1"));
    bench.wrote(&result("1"));
    bench.event(call, &result("1"));
    bench.silent();
    assert_eq!(bench.noted(|note| *note == Note::LateAnswer), 1);
}

#[test]
fn an_error_body_without_id_answers_the_request_that_was_posted() {
    let mut bench = Bench::open();
    let call = bench.calls("7");
    bench.status(call, 400, r#"{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request"},"id":null}"#);
    let error = bench.error("7");
    assert_eq!((&error["code"], &error["message"]), (&(-32000).into(), &"Bad Request".into()));
    bench.silent();
}

#[test]
fn an_error_event_without_id_answers_the_request_of_its_stream() {
    let mut bench = Bench::open();
    let call = bench.calls("7");
    bench.sse(call);
    bench.event(call, r#"{"jsonrpc":"2.0","error":{"code":-1,"message":"m"},"id":null}"#);
    assert_eq!(bench.error("7")["code"], -1);
    bench.silent();
}

#[test]
fn no_line_with_a_null_id_reaches_the_client() {
    let (mut bench, listen) = Bench::listening();
    bench.event(listen, r#"{"jsonrpc":"2.0","error":{"code":-1,"message":"m"},"id":null}"#);
    bench.silent();
    bench.event(listen, r#"{"jsonrpc":"2.0","method":"notifications/message","id":null}"#);
    while bench.next_is_a_line() {
        let line = bench.line();
        assert!(!line.contains("\"id\""), "{line}");
    }
    bench.silent();
}

#[test]
fn other_statuses_become_errors_that_name_them() {
    let cases = [(401, "no"), (403, "no"), (405, "no"), (409, "yes"), (500, "maybe"), (502, "maybe"), (503, "maybe")];
    for (status, delivered) in cases {
        let (mut bench, call) = Bench::calling();
        bench.status(call, status, "<p>no</p>");
        let error = bench.error_delivered("1", delivered);
        assert_eq!(error["data"]["httpStatus"], status);
        assert_eq!(error["data"]["body"], "<p>no</p>");
        assert_eq!(error["data"]["retrySafe"], delivered == "no");
        bench.silent();
    }
}

#[test]
fn media_types_are_compared_without_case_and_parameters() {
    let (mut bench, call) = Bench::calling();
    bench.head(call, 200, &[("content-type", "Application/JSON; charset=utf-8")]);
    bench.body(call, &result("1"));
    bench.wrote(&result("1"));
    let call = bench.calls("2");
    bench.head(call, 200, &[("content-type", "Text/Event-Stream;charset=UTF-8")]);
    bench.event(call, &result("2"));
    bench.wrote(&result("2"));
    bench.silent();
}

#[test]
fn a_success_that_is_no_answer_is_an_error() {
    for body in ["<html>login</html>", "", "{}", "[]", r#"{"jsonrpc":"2.0","method":"n"}"#] {
        let (mut bench, call) = Bench::calling();
        bench.head(call, 200, &[("content-type", "text/html")]);
        bench.body(call, body);
        if body.contains("method") {
            bench.wrote(body);
        }
        bench.error_delivered("1", "yes");
        bench.silent();
    }
}

#[test]
fn an_answer_with_a_null_result_is_an_answer() {
    let (mut bench, call) = Bench::calling();
    bench.json(call, r#"{"jsonrpc":"2.0","id":1,"result":null}"#);
    bench.wrote(r#"{"jsonrpc":"2.0","id":1,"result":null}"#);
    bench.silent();
}

#[test]
fn an_array_body_brings_several_answers() {
    let (mut bench, one) = Bench::calling();
    bench.say(&tool("2"));
    bench.called("POST tools/call 2");
    bench.json(one, &format!("[{},{}]", result("2"), result("1")));
    bench.wrote(&result("2"));
    bench.wrote(&result("1"));
    bench.silent();
}

// ----- what the server asks ------------------------------------------------------

#[test]
fn a_request_of_the_server_inside_a_call_goes_to_the_client_and_its_answer_back() {
    let (mut bench, call) = Bench::streaming();
    bench.event(call, &request("\"q\"", "sampling/createMessage"));
    bench.wrote(&request("\"q\"", "sampling/createMessage"));
    bench.say(&result("\"q\""));
    let answer = bench.called("POST answer \"q\"");
    assert_eq!(bench.header(answer, "mcp-session-id"), Some("s1"));
    bench.accept(answer);
    bench.event(call, &result("1"));
    bench.wrote(&result("1"));
    bench.silent();
}

#[test]
fn a_request_of_the_server_may_have_the_id_of_an_open_call() {
    let (mut bench, listen) = Bench::listening();
    let call = bench.calls("1");
    bench.event(listen, &request("1", "ping"));
    bench.wrote(&request("1", "ping"));
    bench.say(&result("1"));
    bench.called("POST answer 1");
    bench.json(call, &result("1"));
    bench.wrote(&result("1"));
    bench.silent();
}

#[test]
fn the_clients_answer_has_the_id_in_the_servers_spelling() {
    let (mut bench, listen) = Bench::listening();
    bench.event(listen, &request(r#""\u0061""#, "ping"));
    bench.wrote(&request(r#""\u0061""#, "ping"));
    bench.say(&result("\"a\""));
    let answer = bench.called("POST answer \"a\"");
    assert_eq!(bench.sent(answer), result(r#""\u0061""#));
    bench.silent();
}

#[test]
fn a_request_asked_twice_reaches_the_client_once() {
    let (mut bench, listen) = Bench::listening();
    bench.event(listen, &request("\"q\"", "ping"));
    bench.wrote(&request("\"q\"", "ping"));
    bench.event(listen, &request("\"q\"", "ping"));
    bench.silent();
    assert_eq!(bench.noted(|note| *note == Note::RepeatedAsk), 1);
}

#[test]
fn an_answer_that_nobody_asked_for_goes_nowhere() {
    let mut bench = Bench::open();
    bench.say(&result("99"));
    bench.silent();
    assert_eq!(bench.noted(|note| *note == Note::StrayAnswer), 1);
}

#[test]
fn an_ask_that_the_server_cancelled_is_not_answered() {
    let (mut bench, listen) = Bench::listening();
    bench.event(listen, &request("5", "ping"));
    bench.wrote(&request("5", "ping"));
    bench.event(listen, &cancel("5"));
    bench.wrote(&cancel("5"));
    bench.say(&result("5"));
    bench.silent();
}

#[test]
fn notifications_of_the_client_are_posted_and_their_refusal_only_noted() {
    let mut bench = Bench::open();
    bench.say(&note("notifications/roots/list_changed"));
    let call = bench.called("POST notifications/roots/list_changed");
    bench.status(call, 400, r#"{"jsonrpc":"2.0","error":{"code":-1,"message":"m"},"id":null}"#);
    bench.silent();
    assert_eq!(bench.noted(|note| matches!(note, Note::Undelivered { .. })), 1);
}

#[test]
fn progress_under_token_zero_is_relayed_and_counts_as_a_sign_of_life() {
    let (mut bench, listen) = Bench::listening();
    bench.say(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"progressToken":0}}}"#);
    bench.called("POST tools/call 1");
    for _ in 0..5 {
        bench.wait(200_000);
        bench.event(listen, &progress("0"));
        bench.wrote(&progress("0"));
    }
    bench.silent();
    bench.wait(300_000);
    bench.cancelled_any();
    bench.error_delivered("1", "maybe");
    bench.called("POST notifications/cancelled");
    bench.silent();
}

#[test]
fn configured_headers_go_with_every_call_but_cannot_displace_ours() {
    let mut bench = Bench::with(|config| {
        config.headers.insert("authorization", "Bearer x".parse().unwrap());
        config.headers.insert("accept", "nothing".parse().unwrap());
    });
    let listen = bench.handshake();
    bench.eof();
    let names = ["authorization", "accept"].map(|name| bench.header(listen, name));
    assert_eq!(names, [Some("Bearer x"), Some("text/event-stream")]);
    bench.cancelled(listen);
    let goodbye = bench.called("DELETE");
    assert_eq!(bench.header(goodbye, "authorization"), Some("Bearer x"));
}

#[test]
fn a_body_of_known_length_is_the_answer_before_its_end_is_told() {
    let (mut bench, call) = Bench::calling();
    let body = br#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
    let length = body.len().to_string();
    bench.head(call, 200, &[("content-type", "application/json"), ("content-length", &length)]);
    let (first, rest) = body.split_at(10);
    bench.chunk(call, first);
    bench.silent();
    bench.chunk(call, rest);
    bench.wrote(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
    assert!(bench.wants(call), "a call is read until it ends or is cancelled");
    bench.end(call);
    assert!(!bench.wants(call));
    bench.silent();
}

#[test]
fn bytes_beyond_the_announced_length_do_not_belong_to_the_body() {
    let answer = result("1");
    for pieces in [vec![format!("{answer}{answer}")], vec![answer.clone(), answer.clone()]] {
        let (mut bench, call) = Bench::calling();
        let length = answer.len().to_string();
        bench.head(call, 200, &[("content-type", "application/json"), ("content-length", &length)]);
        pieces.iter().for_each(|piece| bench.chunk(call, piece));
        bench.wrote(&answer);
        bench.silent();
    }
}

#[test]
fn the_announced_length_of_an_encoded_body_is_not_that_of_the_message() {
    let (mut bench, call) = Bench::calling();
    bench.head(
        call,
        200,
        &[("content-type", "application/json"), ("content-encoding", "gzip"), ("content-length", "9")],
    );
    bench.body(call, &result("1"));
    bench.wrote(&result("1"));
    bench.silent();
}

// ----- answers that are none -------------------------------------------------------------

#[test]
fn an_error_that_is_not_one_of_json_rpc_is_answered_by_us() {
    let bodies = [
        r#"{"error":"invalid_token","error_description":"expired"}"#,
        r#"{"jsonrpc":"2.0","id":1,"error":"invalid_token"}"#,
        r#"{"jsonrpc":"2.0","id":1,"error":{"message":"no code"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"error":{"code":"x","message":"m"}}"#,
    ];
    for (status, body) in [200, 400, 401, 403, 500].into_iter().flat_map(|status| bodies.map(|body| (status, body))) {
        let (mut bench, call) = Bench::calling();
        bench.status(call, status, body);
        let error = bench.error("1");
        assert!(error["code"].is_i64() && error["message"].is_string(), "{status} {body}: {error}");
        assert!(error["data"]["body"].as_str().is_some_and(|text| body.starts_with(text)), "{status} {body}: {error}");
        assert!(error["message"].as_str().unwrap().contains(body), "{status} {body}: {error}");
    }
}

#[test]
fn an_answer_that_lacks_its_version_or_says_too_much_is_put_right() {
    let bodies = [
        r#"{"id":1,"result":{"a":1}}"#,
        r#"{"jsonrpc":"1.0","id":1,"result":{"a":1}}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{"a":1},"error":null}"#,
    ];
    for body in bodies {
        let (mut bench, call) = Bench::calling();
        bench.json(call, body);
        let line: serde_json::Value = serde_json::from_str(&bench.line()).unwrap();
        assert_eq!(line, serde_json::json!({ "jsonrpc": "2.0", "id": 1, "result": { "a": 1 } }), "{body}");
    }
}

#[test]
fn a_challenge_is_told_in_words_and_whole() {
    let challenge = r#"Bearer error="invalid_token", error_description="It expired", scope="a b""#;
    for status in [401, 403] {
        let (mut bench, call) = Bench::calling();
        bench.head(call, status, &[("www-authenticate", challenge)]);
        bench.body(call, "");
        let error = bench.error_delivered("1", "no");
        let message = error["message"].as_str().unwrap();
        assert!(message.contains("(It expired; error: invalid_token; scope: a b)"), "{message}");
        assert_eq!(error["data"]["challenge"], challenge);
    }
}

/// The error of the server says nothing of what its user has to do.
#[test]
fn a_challenge_comes_before_the_error_in_the_body() {
    let (mut bench, call) = Bench::calling();
    bench.head(call, 401, &[("www-authenticate", r#"Bearer scope="a b""#)]);
    bench.body(call, r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Unauthorized"}}"#);
    let error = bench.error_delivered("1", "no");
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("scope: a b") && message.contains("Unauthorized"), "{message}");
}

#[test]
fn a_byte_order_mark_before_the_body_of_a_refusal_is_ignored() {
    let (mut bench, call) = Bench::calling();
    let error = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"no such tool"}}"#;
    bench.status(call, 400, &format!("\u{feff}{error}"));
    bench.wrote(error);
    let mut bench = Bench::open_with(|config| config.quirks.byte_order_mark = false);
    let call = bench.calls("1");
    bench.status(call, 400, &format!("\u{feff}{error}"));
    assert_eq!(bench.error("1")["data"]["httpStatus"], 400);
}

#[test]
fn a_stream_that_breaks_is_an_error_that_names_the_server() {
    let (mut bench, call) = Bench::streaming();
    bench.fail(call, CallError::Reset);
    let message = bench.error_delivered("1", "maybe")["message"].as_str().unwrap().to_owned();
    assert!(message.ends_with("(server.test)"), "{message}");
}

#[test]
fn every_exchange_is_noted_once_where_that_is_asked_for() {
    let mut bench = Bench::open_with(|config| config.trace = true);
    let call = bench.calls("7");
    bench.wait(12);
    bench.json(call, &result("7"));
    bench.wrote(&result("7"));
    let call = bench.calls("8");
    bench.fail(call, CallError::Reset);
    bench.error("8");
    let noted = |method: &str, status: Option<u16>, outcome: &Outcome| {
        bench.noted(|note| {
            let Note::Exchange(exchange) = note else { return false };
            let same = (exchange.method.as_str(), exchange.status.map(|status| status.as_u16()));
            same == (method, status) && exchange.path == "/mcp" && exchange.outcome == *outcome
        })
    };
    let took = std::time::Duration::from_millis;
    assert_eq!(noted("POST", Some(200), &Outcome::Ended(result("7").len(), took(12))), 1);
    assert_eq!(noted("POST", None, &Outcome::Failed(CallError::Reset, took(0))), 1);
}
