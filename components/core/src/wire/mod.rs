//! Bytes ⇄ pieces: framing, size limits, partial input, and the envelope scan of JSON-RPC
//! messages. Time, peers, sessions, MCP semantics and [`Output`](crate::Output) do not
//! belong here.

pub mod batch;
#[cfg(test)]
pub(crate) mod cuts;
pub(crate) mod lines;
pub mod message;
mod scan;
pub(crate) mod sse;
pub mod text;
