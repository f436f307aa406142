//! The target `refusals` for cargo-fuzz.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| mcp_proxy_fuzz::run("refusals", data));
