//! How the machine finds out what is behind a URL: with the client's own
//! first message, and with nothing thrown away.

mod common;

use common::*;
use mcp_proxy_core::{CallId, Transport};

const JSON_RPC: &str = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32602,"message":"Bad Request: no"}}"#;

/// The machine's first POST was refused like this; what does it do?
fn refused(status: u16, body: &str) -> (Bench, CallId) {
    let (mut bench, call) = Bench::initializing();
    bench.status(call, status, body);
    (bench, call)
}

#[test]
fn a_refusal_that_an_old_server_would_give_leads_to_its_stream() {
    for status in [400, 404, 405, 406, 415, 501] {
        let (mut bench, _) = refused(status, "<html>");
        let stream = bench.called("GET");
        bench.silent();
        bench.sse(stream);
        bench.chunk(stream, "event: endpoint\ndata: /m\n\n");
        let call = bench.called("POST initialize 0");
        assert_eq!((bench.uri(call), bench.sent(call)), ("http://server.test/m".to_owned(), INITIALIZE));
        bench.accept(call);
        bench.event(stream, &initialize_result("0", "2024-11-05"));
        bench.wrote(&initialize_result("0", "2024-11-05"));
        bench.say(&tool("1"));
        assert_eq!(bench.called_any(), "POST tools/call 1");
        bench.silent();
    }
}

#[test]
fn the_verdict_outlives_the_session() {
    let (mut bench, _) = refused(405, "");
    let stream = bench.called("GET");
    bench.sse(stream);
    bench.chunk(stream, "event: endpoint\ndata: /m\n\n");
    let call = bench.called("POST initialize 0");
    bench.accept(call);
    bench.event(stream, &initialize_result("0", "2024-11-05"));
    bench.wrote(&initialize_result("0", "2024-11-05"));
    bench.end(stream);
    bench.say(&tool("1"));
    bench.called("GET");
    bench.silent();
}

#[test]
fn a_refusal_in_json_rpc_is_the_servers_answer() {
    for status in [400, 406, 415, 501] {
        let (mut bench, _) = refused(status, JSON_RPC);
        assert_eq!(bench.error("0")["message"], "Bad Request: no");
        bench.silent();
    }
}

#[test]
fn credentials_and_broken_servers_decide_nothing() {
    for status in [401, 403, 407, 429, 500, 502, 503, 504] {
        let (mut bench, _) = refused(status, "");
        assert_eq!(bench.error("0")["data"]["httpStatus"], status);
        bench.silent();
        bench.say(INITIALIZE);
        bench.called("POST initialize 0");
        bench.silent();
    }
}

#[test]
fn time_that_runs_out_decides_nothing() {
    let (mut bench, call) = Bench::initializing();
    bench.wait_for_deadline();
    bench.cancelled(call);
    bench.error_delivered("0", "maybe");
    bench.say(INITIALIZE);
    bench.called("POST initialize 0");
    bench.silent();
}

#[test]
fn nothing_found_is_told_with_every_attempt() {
    type Ending = fn(&mut Bench, CallId);
    let endings: [(&str, Ending); 3] = [
        ("HTTP 404 Not Found", |bench, stream| bench.status(stream, 404, "<h1>gone</h1>")),
        ("it is no event stream", |bench, stream| bench.json(stream, "{}")),
        ("begins with `message`", |bench, stream| {
            bench.sse(stream);
            bench.event(stream, "{}");
            bench.cancelled(stream);
        }),
    ];
    for (words, ending) in endings {
        let (mut bench, _) = refused(404, "<html>\n no </html>");
        let stream = bench.called("GET");
        ending(&mut bench, stream);
        let error = bench.error_delivered("0", "no");
        let text = error["message"].as_str().unwrap();
        assert!(text.contains("POST: the server answered HTTP 404 Not Found: <html> no </html>; GET: "), "{text}");
        assert!(text.contains(words), "{text}");
        let attempts = &error["data"]["attempts"];
        assert_eq!((&attempts[0]["method"], &attempts[1]["method"]), (&"POST".into(), &"GET".into()));
        assert_eq!((&attempts[0]["httpStatus"], &attempts[0]["body"]), (&404.into(), &"<html>\n no </html>".into()));
        assert!(attempts[1]["httpStatus"].is_number(), "{error}");
        bench.silent();
        bench.say(INITIALIZE);
        bench.called("POST initialize 0");
        bench.silent();
    }
}

#[test]
fn a_server_that_has_answered_is_not_doubted_again() {
    let (mut bench, call) = Bench::calling();
    bench.status(call, 405, "<html>");
    bench.error("1");
    bench.silent();
}

#[test]
fn a_transport_that_was_asked_for_is_not_doubted() {
    let mut bench = Bench::with(|config| config.transport = Transport::StreamableHttp);
    bench.say(INITIALIZE);
    let call = bench.called("POST initialize 0");
    bench.status(call, 405, "");
    bench.error("0");
    bench.silent();
}
