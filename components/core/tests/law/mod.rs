//! What the laws are tested with.

#![allow(dead_code, reason = "each test file uses its part")]
#![allow(unreachable_pub, reason = "a test crate has no public surface")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::wildcard_enum_match_arm,
    reason = "a test fails by panicking"
)]

pub mod client;
pub mod flood;
pub mod message;
pub mod record;
pub mod recording;
pub mod script;
pub mod stage;
pub mod watch;
