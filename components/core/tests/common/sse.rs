//! A server of HTTP+SSE: the steps that its tests share.

use super::{Bench, INITIALIZE, INITIALIZED, initialize_result};
use mcp_proxy_core::{CallId, Config, Transport};

/// The settings for a server of HTTP+SSE.
pub fn sse(config: &mut Config) {
    config.transport = Transport::Sse;
}

/// A machine whose client has said `initialize`, and the stream it opened.
pub fn asked(set: impl FnOnce(&mut Config)) -> (Bench, CallId) {
    let mut bench = Bench::with(|config| {
        sse(config);
        set(config);
    });
    bench.say(INITIALIZE);
    let stream = bench.called("GET");
    bench.silent();
    (bench, stream)
}

/// The stream begins, and names the endpoint.
pub fn endpoint(bench: &mut Bench, stream: CallId, data: &str) {
    bench.sse(stream);
    bench.chunk(stream, format!("event: endpoint\ndata: {data}\n\n"));
}

/// A machine with an open session, and its stream.
pub fn open_with(set: impl FnOnce(&mut Config)) -> (Bench, CallId) {
    let (mut bench, stream) = asked(set);
    endpoint(&mut bench, stream, "/messages?s=1");
    let initialize = bench.called("POST initialize 0");
    bench.accept(initialize);
    bench.event(stream, &initialize_result("0", "2024-11-05"));
    bench.wrote(&initialize_result("0", "2024-11-05"));
    bench.say(INITIALIZED);
    let initialized = bench.called("POST notifications/initialized");
    bench.accept(initialized);
    bench.silent();
    (bench, stream)
}

pub fn open() -> (Bench, CallId) {
    open_with(|_| {})
}
