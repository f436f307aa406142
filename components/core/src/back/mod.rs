//! The server's face: calls and their fate. One state per call, the meaning of
//! status and content type, repeats and resumption. The client's bytes and the
//! choice of ids must not enter.

mod call;
mod calls;
pub(crate) mod challenge;
mod channel;
mod cookies;
mod detect;
mod fate;
mod gone;
pub(crate) mod http;
mod meaning;
mod pulse;
mod refusals;
mod reopen;
mod request;
mod said;
mod trace;
