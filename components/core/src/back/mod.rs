//! The server side: calls and their recovery, with one state per call, response
//! classification, retries and resumption. The client's bytes and the choice of ids do
//! not belong here.

mod call;
mod calls;
pub(crate) mod challenge;
mod classify;
mod cookies;
mod detect;
mod exchanges;
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
