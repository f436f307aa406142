//! Every quirk, on and off: what real peers get wrong is borne by default, and
//! each tolerance can be switched off alone.

mod common;

use common::*;
use mcp_proxy_core::wire::message::Fault;
use mcp_proxy_core::{Note, Quirks, Transport};

fn open(set: fn(&mut Quirks)) -> Bench {
    Bench::open_with(|config| set(&mut config.quirks))
}

#[test]
fn any_success_confirms_a_notification() {
    for status in [200, 204] {
        for (on, undelivered) in [(true, 0), (false, 1)] {
            let mut bench = if on { open(|_| {}) } else { open(|quirks| quirks.any_success = false) };
            bench.say(&note("notifications/roots/list_changed"));
            let call = bench.called("POST notifications/roots/list_changed");
            bench.status(call, status, "{\"jsonrpc\":\"2.0\",\"result\":{}}");
            bench.silent();
            assert_eq!(bench.noted(|note| matches!(note, Note::Undelivered { .. })), undelivered, "{status} {on}");
        }
    }
}

#[test]
fn an_error_body_without_id_is_the_answer_to_its_request() {
    let body = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Bad Request"}}"#;
    let ask = |mut bench: Bench| {
        let call = bench.calls("7");
        bench.status(call, 400, body);
        bench.error("7")["message"].as_str().unwrap().to_owned()
    };
    assert_eq!(ask(open(|_| {})), "Bad Request");
    let ours = ask(open(|quirks| quirks.null_id = false));
    assert!(ours.starts_with("the server answered HTTP 400 Bad Request: {"), "{ours}");
}

#[test]
fn blank_lines_and_crlf_are_nothing_to_talk_about() {
    for (bench, noise) in [(open(|_| {}), 0), (open(|quirks| quirks.blank_lines = false), 2)] {
        let mut bench = bench;
        bench.say("\n\r");
        bench.say(&format!("{}\r", list("1")));
        bench.called("POST tools/list 1");
        bench.silent();
        assert_eq!(bench.noted(|note| matches!(note, Note::BadLine(_))), noise);
    }
}

#[test]
fn a_byte_order_mark_before_the_first_line_is_passed_over() {
    let mut bench = Bench::new();
    bench.say(&format!("\u{feff}{INITIALIZE}"));
    bench.called("POST initialize 0");
    let mut bench = Bench::with(|config| config.quirks.byte_order_mark = false);
    bench.say(&format!("\u{feff}{INITIALIZE}"));
    bench.error("0");
    bench.silent();
}

#[test]
fn json_on_several_data_lines_becomes_one_line() {
    let event = "data: {\"jsonrpc\":\"2.0\",\ndata: \"id\":1,\ndata: \"result\":{}}\n\n";
    for (bench, read) in [(open(|_| {}), true), (open(|quirks| quirks.pretty_json = false), false)] {
        let mut bench = bench;
        let call = bench.calls("1");
        bench.sse(call);
        bench.chunk(call, event);
        if read {
            bench.wrote("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}");
        }
        bench.silent();
        assert_eq!(bench.noted(|note| *note == Note::BadMessage(Fault::Syntax)), usize::from(!read));
    }
}

#[test]
fn line_separators_inside_json_are_escaped() {
    let text = "a\u{2028}b\u{2029}c";
    for (bench, want) in [(open(|_| {}), "a\\u2028b\\u2029c"), (open(|quirks| quirks.line_separators = false), text)] {
        let mut bench = bench;
        let call = bench.calls("1");
        bench.json(call, &format!(r#"{{"jsonrpc":"2.0","id":1,"result":"{text}"}}"#));
        bench.wrote(&format!(r#"{{"jsonrpc":"2.0","id":1,"result":"{want}"}}"#));
    }
}

#[test]
fn a_late_answer_to_a_cancelled_request_is_dropped() {
    for (bench, passed) in [(open(|_| {}), false), (open(|quirks| quirks.late_answers = false), true)] {
        let mut bench = bench;
        let call = bench.calls("1");
        bench.sse(call);
        bench.say(&cancel("1"));
        bench.called("POST notifications/cancelled");
        bench.event(call, &result("1"));
        if passed {
            bench.wrote(&result("1"));
        }
        bench.silent();
    }
}

#[test]
fn a_cookie_goes_back_to_the_origin_that_set_it() {
    for (bench, want) in [(open(|_| {}), Some("AWSALB=x")), (open(|quirks| quirks.cookies = false), None)] {
        let mut bench = bench;
        let call = bench.calls("1");
        assert_eq!(bench.header(call, "cookie"), None);
        let headers = [("content-type", "application/json"), ("set-cookie", "AWSALB=x; Path=/; HttpOnly")];
        bench.head(call, 200, &headers);
        bench.body(call, &result("1"));
        bench.wrote(&result("1"));
        let call = bench.calls("2");
        assert_eq!(bench.header(call, "cookie"), want);
    }
}

#[test]
fn a_session_that_is_gone_in_another_shape_than_404_is_replaced_too() {
    let gone = |message: &str| format!(r#"{{"jsonrpc":"2.0","id":1,"error":{{"code":-32600,"message":"{message}"}}}}"#);
    let shapes = [
        (400, gone("Bad Request: No valid session ID provided")),
        (400, gone("Bad Request: Server not initialized")),
        (401, "Unauthorized: Session not found".to_owned()),
        (410, String::new()),
        (503, "session not found".to_owned()),
        (200, gone("Session expired")),
    ];
    for (status, body) in shapes {
        let refuse = |mut bench: Bench| {
            let call = bench.calls("1");
            bench.head(call, status, &[("content-type", "application/json")]);
            bench.body(call, &body);
            bench
        };
        let mut bench = refuse(open(|_| {}));
        let call = bench.called("POST initialize ours");
        bench.reopened(call, "s2");
        bench.called("POST notifications/initialized");
        bench.silent();
        let mut bench = refuse(open(|quirks| quirks.session_gone = false));
        bench.error("1");
        bench.silent();
    }
}

#[test]
fn a_body_of_known_length_may_say_that_the_session_is_gone() {
    let (mut bench, call) = Bench::calling();
    let body = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32001,"message":"Session not found"}}"#;
    let length = body.len().to_string();
    bench.head(call, 200, &[("content-type", "application/json"), ("content-length", &length)]);
    bench.body(call, body);
    bench.called("POST initialize ours");
    bench.silent();
}

#[test]
fn a_prefix_that_a_gateway_strips_is_put_back() {
    for (on, second) in [(true, true), (false, false)] {
        let mut bench = Bench::at("http://server.test/team/sse", |config| {
            config.transport = Transport::Sse;
            config.quirks.stripped_prefix = on;
        });
        bench.say(INITIALIZE);
        let stream = bench.called("GET");
        bench.sse(stream);
        bench.chunk(stream, "event: endpoint\ndata: /m\n\n");
        let call = bench.called("POST initialize 0");
        bench.status(call, 404, "");
        if second {
            bench.cancelled(call);
            let call = bench.called("POST initialize 0");
            assert_eq!(bench.uri(call), "http://server.test/team/m");
        } else {
            bench.error("0");
        }
        bench.silent();
    }
}

#[test]
fn a_late_answer_to_a_request_of_ours_never_reaches_the_client() {
    let mut bench = Bench::open_with(|config| {
        config.quirks.late_answers = false;
        config.keep_alive = mcp_proxy_core::KeepAlive::Every(std::time::Duration::from_secs(5));
    });
    bench.wait(5_000);
    let ping = bench.called("POST ping ours");
    let id = bench.rpc_id(ping);
    bench.sse(ping);
    bench.event(ping, &result(&id));
    bench.event(ping, &result(&id));
    bench.silent();
}
