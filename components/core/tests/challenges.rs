//! The server gets the client's own credentials, and refuses them: the client gets the
//! status and the challenge, and no answer with status 200.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests fail by panicking")]

mod common;

use ::http::HeaderMap;
use common::http::{BOTH, TYPE, answer, front, heard, open_as, post, request};
use common::{Bench, INITIALIZE, tool};
use mcp_proxy_core::{CallId, Era, Transport, Why};
use serde_json::Value;
use std::time::Duration;

const CHALLENGE: &str = r#"Bearer error="invalid_token", scope="a b""#;

/// A session whose server gets the client's own credentials, and its stream.
fn session() -> (Bench, CallId) {
    open_as("2025-11-25", |client, _| client.challenges = true)
}

/// The response refuses the request `id`; returns its headers.
#[track_caller]
fn denied(bench: &mut Bench, exchange: u64, status: u16, id: u64) -> HeaderMap {
    let headers = bench.responded(exchange, status);
    assert_eq!(headers["content-type"], "application/json");
    let body: Value = serde_json::from_str(&bench.received(exchange)).unwrap();
    bench.finished(exchange);
    assert_eq!((&body["id"], &body["error"]["data"]["httpStatus"]), (&id.into(), &status.into()));
    headers
}

#[track_caller]
fn refuse(bench: &mut Bench, call: CallId, status: u16, headers: &[(&str, &str)], body: &str) {
    bench.head(call, status, headers);
    bench.body(call, body);
}

#[test]
fn a_client_whose_session_is_refused_gets_the_status_and_the_challenge() {
    let mut bench = front(|client, _| client.challenges = true);
    bench.ask(1, "POST", &[BOTH, TYPE], INITIALIZE);
    let stream = bench.called("GET");
    refuse(&mut bench, stream, 401, &[("www-authenticate", CHALLENGE)], "");
    assert_eq!(denied(&mut bench, 1, 401, 0)["www-authenticate"], CHALLENGE);
}

#[test]
fn a_client_without_a_session_gets_them_too() {
    let version = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28""#;
    let envelope = format!(r#"{{{version},"io.modelcontextprotocol/clientCapabilities":{{}},"progressToken":1}}"#);
    let body = format!(r#"{{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{{"_meta":{envelope}}}}}"#);
    let named = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/list")];
    let mut bench = front(|client, config| {
        client.challenges = true;
        (config.transport, config.era) = (Transport::StreamableHttp, Era::Auto);
    });
    for exchange in 1..=2 {
        bench.ask(exchange, "POST", &[BOTH, TYPE, named[0], named[1]], &body);
        let probe = bench.called_last();
        assert_eq!(bench.rpc(probe)["method"], "server/discover");
        bench.wait(1_000);
        refuse(&mut bench, probe, 401, &[("www-authenticate", CHALLENGE)], "");
        assert_eq!(denied(&mut bench, exchange, 401, 7)["www-authenticate"], CHALLENGE);
    }
}

#[test]
fn each_refusal_of_credentials_has_its_status() {
    let error = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"no"}}"#;
    let bearer = Some(CHALLENGE);
    for (status, challenge, body, expected) in [
        (401, bearer, "", 401),
        (401, bearer, error, 401),
        (401, Some("Basic realm=x"), "", 401),
        (401, None, "", 401),
        (401, None, error, 401),
        (403, Some("Digest, bearer scope=a"), "", 403),
        (403, Some("Basic realm=bearers"), "", 200),
        (403, None, error, 200),
        (400, bearer, "", 200),
        (500, bearer, "", 200),
    ] {
        for body_of_client in [tool("1"), request("1")] {
            let (mut bench, _) = session();
            post(&mut bench, 10, &body_of_client);
            let call = bench.called("POST tools/call 1");
            let headers: Vec<_> = challenge.map(|text| ("www-authenticate", text)).into_iter().collect();
            refuse(&mut bench, call, status, &headers, body);
            let given = bench.responded(10, expected);
            let relayed = given.get("www-authenticate").map(|text| text.to_str().unwrap());
            assert_eq!(relayed, challenge.filter(|_| expected != 200), "{status} {challenge:?}");
        }
    }
}

#[test]
fn credentials_of_the_proxy_are_no_business_of_the_client() {
    let (mut bench, _) = open_as("2025-11-25", |_, _| {});
    post(&mut bench, 10, &tool("1"));
    let call = bench.called("POST tools/call 1");
    refuse(&mut bench, call, 401, &[("www-authenticate", CHALLENGE)], "");
    assert!(!bench.responded(10, 200).contains_key("www-authenticate"));
}

#[test]
fn no_response_becomes_a_stream_before_the_server_has_admitted_its_request() {
    let (mut bench, stream) = session();
    for (exchange, body) in [(10, tool("1")), (11, request("2"))] {
        post(&mut bench, exchange, &body);
    }
    let (first, second) = (bench.called("POST tools/call 1"), bench.called("POST tools/call 2"));
    bench.wait(5_000);
    bench.silent();
    refuse(&mut bench, first, 401, &[("www-authenticate", CHALLENGE)], "");
    denied(&mut bench, 10, 401, 1);
    bench.accept(second);
    bench.wait(0);
    assert_eq!(bench.responded(11, 200)["content-type"], "text/event-stream");
    let begun = bench.received(11);
    bench.took(11, begun.len());
    bench.event(stream, &answer("2"));
    assert_eq!(heard(&mut bench, 11)["id"], 2);
    bench.finished(11);
}

#[test]
fn a_response_that_is_to_stream_at_once_waits_for_that_too() {
    let (mut bench, _) = open_as("2025-11-25", |client, _| (client.challenges, client.hold) = (true, Duration::ZERO));
    post(&mut bench, 10, &tool("1"));
    post(&mut bench, 11, &tool("2"));
    let (first, second) = (bench.called("POST tools/call 1"), bench.called("POST tools/call 2"));
    bench.silent();
    refuse(&mut bench, first, 401, &[], "");
    denied(&mut bench, 10, 401, 1);
    bench.accept(second);
    bench.wait(0);
    assert_eq!(bench.responded(11, 200)["content-type"], "text/event-stream");
}

#[test]
fn a_server_that_says_nothing_does_not_keep_a_response_for_ever() {
    let (mut bench, _) = session();
    post(&mut bench, 10, &tool("1"));
    bench.called("POST tools/call 1");
    assert_eq!(bench.wait_for_deadline(), (10_000, Why::Heartbeat));
    assert_eq!(bench.responded(10, 200)["content-type"], "text/event-stream");
}
