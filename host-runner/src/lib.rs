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
#[cfg(feature = "host")]
pub mod config;
#[cfg(feature = "host")]
pub mod doctor;
pub mod engine;
#[cfg(feature = "host")]
pub mod guest;
#[cfg(feature = "host")]
pub mod http;
#[cfg(feature = "host")]
pub mod journal;
#[cfg(feature = "host")]
pub mod manual;
pub mod note;
#[cfg(feature = "host")]
pub mod record;
#[cfg(feature = "host")]
pub mod runner;
#[cfg(feature = "host")]
pub mod signal;
#[cfg(feature = "host")]
pub mod stdio;
