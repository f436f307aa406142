//! The client's face: its bytes ⇄ messages. Retries and the server's session
//! must not enter.

pub(crate) mod lines;
