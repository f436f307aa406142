//! The native host of mcp-proxy: runs the same component as `wasmtime run`,
//! and gives it what a sandbox cannot have: pooled connections, the system's
//! TLS roots, proxies, an egress policy, and credentials that are added after
//! a request has left the sandbox.
//!
//! Protocol knowledge must not enter: the host never looks into a message.

#[cfg(feature = "host")]
pub mod component;
pub mod engine;
#[cfg(feature = "host")]
pub mod guest;
#[cfg(feature = "host")]
pub mod http;
#[cfg(feature = "host")]
pub mod journal;
pub mod note;
#[cfg(feature = "host")]
pub mod record;
#[cfg(feature = "host")]
pub mod runner;
#[cfg(feature = "host")]
pub mod signal;
#[cfg(feature = "host")]
pub mod stdio;
