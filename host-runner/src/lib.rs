//! The native host of mcp-proxy. It runs the same component as `wasmtime run` and adds
//! what a sandbox cannot have: pooled connections, the system's TLS roots, proxies, an
//! egress policy, and credentials, which it adds after a request has left the sandbox.
//!
//! Protocol knowledge does not belong here: the host never looks into a message.

#[cfg(feature = "host")]
pub mod auth;
#[cfg(feature = "host")]
pub mod command;
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
