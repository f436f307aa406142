//! What one machine has found out about a server, another one is told: it does not ask
//! again, and corrects itself if the server has changed.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests fail by panicking")]

mod common;

use ::http::HeaderValue;
use common::http::{BOTH, SESSION, TYPE};
use common::modern::{JSON, discovered};
use common::*;
use mcp_proxy_core::{ClientTransport, Config, Detection, Era, Found, HttpTransport, Input, Transport};

const STREAMABLE: Found = Found { era: Era::Legacy, transport: Transport::StreamableHttp };
const SSE: Found = Found { era: Era::Legacy, transport: Transport::Sse };
const MODERN: Found = Found { era: Era::Modern, transport: Transport::StreamableHttp };

/// A machine that detects the server, unless it was told.
fn told(found: Option<Found>, set: impl FnOnce(&mut Config)) -> Bench {
    Bench::with(|config| {
        config.era = Era::Auto;
        set(config);
        let client = HttpTransport::new(HeaderValue::from_static(SESSION));
        config.client = ClientTransport::Http(HttpTransport { found, ..client });
    })
}

/// A client opens a session.
fn opens(bench: &mut Bench, exchange: u64) {
    bench.ask(exchange, "POST", &[BOTH, TYPE], INITIALIZE);
}

/// A modern client, which needs no session of its own, asks for the tools.
fn asks(bench: &mut Bench, exchange: u64) {
    let meta =
        r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;
    let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{{"_meta":{meta}}}}}"#);
    let headers = [BOTH, TYPE, ("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/list")];
    bench.ask(exchange, "POST", &headers, &body);
}

#[test]
fn a_machine_that_was_told_opens_the_session_at_once() {
    for (found, first) in [
        (None, "POST server/discover ours"),
        (Some(MODERN), "POST server/discover ours"),
        (Some(STREAMABLE), "POST initialize 0"),
        (Some(SSE), "GET"),
    ] {
        let mut bench = told(found, |_| {});
        opens(&mut bench, 1);
        bench.called(first);
        bench.silent();
    }
}

#[test]
fn what_the_user_has_set_comes_first() {
    let mut bench = told(Some(SSE), |config| config.transport = Transport::StreamableHttp);
    opens(&mut bench, 1);
    bench.called("POST server/discover ours");
    let mut bench = told(Some(STREAMABLE), |config| config.era = Era::Modern);
    opens(&mut bench, 1);
    bench.called("POST server/discover ours");
}

#[test]
fn a_machine_says_what_it_has_found() {
    let mut bench = told(None, |_| {});
    assert_eq!(bench.proxy.detection(), Detection::Unknown);
    opens(&mut bench, 1);
    let probe = bench.called("POST server/discover ours");
    assert_eq!(bench.proxy.detection(), Detection::Unknown);
    discovered(&mut bench, probe, "{}");
    assert_eq!(bench.proxy.detection(), Detection::Found(MODERN));

    let mut bench = told(Some(STREAMABLE), |_| {});
    opens(&mut bench, 1);
    assert_eq!(bench.proxy.detection(), Detection::Assumed);
    let initialize = bench.called("POST initialize 0");
    bench.json(initialize, &initialize_result("0", "2025-11-25"));
    assert_eq!(bench.proxy.detection(), Detection::Found(STREAMABLE));
}

#[test]
fn a_server_that_has_changed_is_asked_again() {
    let mut bench = told(Some(STREAMABLE), |_| {});
    opens(&mut bench, 1);
    let initialize = bench.called("POST initialize 0");
    bench.head(initialize, 400, &[JSON]);
    let error = r#"{"code":-32022,"message":"Unsupported protocol version","data":{"supported":["2026-07-28"]}}"#;
    bench.body(initialize, &format!(r#"{{"jsonrpc":"2.0","id":0,"error":{error}}}"#));
    bench.response(1);
    bench.received(1);
    bench.finished(1);
    assert_eq!(bench.proxy.detection(), Detection::Unknown);

    let mut bench = told(Some(SSE), |_| {});
    opens(&mut bench, 1);
    let stream = bench.called("GET");
    bench.status(stream, 405, "");
    bench.response(1);
    bench.received(1);
    bench.finished(1);
    assert_eq!(bench.proxy.detection(), Detection::Unknown);

    let mut bench = told(Some(SSE), |_| {});
    asks(&mut bench, 1);
    let stream = bench.called("GET");
    bench.status(stream, 405, "");
    bench.response(1);
    bench.received(1);
    bench.finished(1);
    assert_eq!(bench.proxy.detection(), Detection::Unknown);
    asks(&mut bench, 2);
    bench.called("POST server/discover ours");
}

#[test]
fn a_machine_tells_requests_apart_once_it_knows_the_transport() {
    let mut bench = told(None, |_| {});
    assert_eq!(bench.proxy.tells_apart(), Some(true));
    asks(&mut bench, 1);
    assert_eq!(bench.proxy.tells_apart(), None);
    let probe = bench.called("POST server/discover ours");
    bench.status(probe, 400, "");
    let initialize = bench.called("POST initialize ours");
    assert_eq!(bench.proxy.tells_apart(), None);
    let id = bench.rpc_id(initialize);
    bench.json(initialize, &initialize_result(&id, "2025-11-25"));
    let initialized = bench.called("POST notifications/initialized");
    bench.accept(initialized);
    assert_eq!(bench.proxy.tells_apart(), Some(true));

    let mut bench = told(Some(SSE), |_| {});
    asks(&mut bench, 1);
    assert_eq!(bench.proxy.tells_apart(), Some(false));
    bench.fact(Input::Tick);
    assert_eq!(bench.proxy.tells_apart(), Some(false));
}

#[test]
fn a_session_that_a_lost_machine_has_left_open_is_ended() {
    let mut bench = told(None, |config| config.era = Era::Legacy);
    opens(&mut bench, 1);
    let initialize = bench.called("POST initialize 0");
    assert!(bench.proxy.session().is_empty());
    bench.head(initialize, 200, &[("content-type", "application/json"), ("mcp-session-id", "s1")]);
    bench.body(initialize, &initialize_result("0", "2025-11-25"));
    let left = bench.proxy.session().to_vec();
    assert_eq!(left.len(), 2, "{left:?}");

    let mut bench = Bench::with(|config| {
        let client = HttpTransport::new(HeaderValue::from_static(SESSION));
        config.client = ClientTransport::Http(HttpTransport { left, ..client });
    });
    opens(&mut bench, 1);
    let goodbye = bench.called("DELETE");
    assert_eq!(bench.header(goodbye, "mcp-session-id"), Some("s1"));
    assert_eq!(bench.header(goodbye, "mcp-protocol-version"), Some("2025-11-25"));
    let initialize = bench.called("POST initialize 0");
    assert_eq!(bench.header(initialize, "mcp-session-id"), None);
    bench.status(goodbye, 404, "");
    bench.json(initialize, &initialize_result("0", "2025-11-25"));
    bench.responded(1, 200);
}
