//! The side of the server: calls and their recovery. One state per call, the meaning of
//! status and content type, repeats and resumption. The client's bytes and the
//! choice of ids must not enter.

mod call;
mod calls;
pub(crate) mod challenge;
mod classify;
mod cookies;
mod detect;
pub(crate) mod http;
mod keep_alive;
mod recovery;
mod refusals;
mod reopen;
mod request;
mod said;
mod session_lost;
mod sse_session;
mod trace;
