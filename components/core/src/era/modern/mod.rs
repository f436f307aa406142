//! Revision 2026-07-28 against the revisions before it: translation tables, text in and
//! text out. They keep every byte that they do not have to change. State, time, sessions
//! and IO do not belong here: the callers have them.

pub(crate) mod capabilities;
pub(crate) mod discover;
pub(crate) mod edit;
pub(crate) mod envelope;
pub(crate) mod errors;
pub(crate) mod mirror;
pub(crate) mod results;
pub(crate) mod rounds;
mod schema;
pub(crate) mod subscriptions;

#[cfg(all(test, not(all(target_arch = "wasm32", target_os = "unknown"))))]
mod laws;
