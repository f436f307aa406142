//! Bytes ⇄ pieces. Framing, size bounds and partial input live here, and the
//! envelope scan of JSON-RPC messages. Time, peers, sessions, MCP semantics
//! and [`Output`](crate::Output) must not enter.

pub mod batch;
#[cfg(test)]
pub(crate) mod cuts;
pub(crate) mod lines;
pub mod message;
mod scan;
pub(crate) mod sse;
pub mod text;
