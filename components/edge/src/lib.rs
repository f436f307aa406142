//! What an HTTP front decides about a request before a machine sees it: which
//! server it is for, whether its origin, host and credentials may come in, which
//! session it names, what a refusal looks like, and what clients learn about tokens.
//!
//! Everything here is pure. A shell reads a [`Request`], asks [`Edge::judge`],
//! and carries the [`Verdict`] out. Rate limits, counts of sessions and the
//! sessions themselves belong to the shell; JSON-RPC messages belong to the
//! machine.

#![forbid(unsafe_code)]

mod access;
pub mod challenge;
mod client;
pub mod cors;
mod endpoint;
mod origin;
mod refusal;
mod request;
pub mod resource;
pub mod session_id;
mod verdict;

pub use access::Access;
pub use client::network;
pub use endpoint::path_of;
pub use origin::OriginPolicy;
pub use refusal::Refusal;
pub use request::Request;
pub use verdict::{Edge, Verdict};
