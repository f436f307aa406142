//! The core as a bare module for wasm32-unknown-unknown. It needs no imports, and `cargo
//! xtask test component` checks that on this build.

use mcp_proxy_core::{Config, Input, Proxy, Side, Time};

/// Drives a session that gets no response and counts what the core asks for.
/// The seed keeps the compiler from doing the work beforehand.
#[expect(unsafe_code, reason = "an export needs its plain name; nothing here is unsafe")]
#[unsafe(no_mangle)]
pub extern "C" fn drive(seed: u64) -> u64 {
    let Ok(config) = Config::new("http://127.0.0.1/mcp") else { return 0 };
    let mut proxy = Proxy::new(&config, seed, Time(seed));
    let line = format!("{{\"jsonrpc\":\"2.0\",\"id\":{seed},\"method\":\"tools/list\"}}\n");
    proxy.handle(Time(seed), Input::Bytes(Side::Client, line.as_bytes()));
    proxy.handle(Time(seed), Input::Eof(Side::Client));
    while let Some(deadline) = proxy.deadline() {
        proxy.handle(deadline.at, Input::Tick);
    }
    std::iter::from_fn(|| proxy.poll()).map(|_| 1).sum()
}
