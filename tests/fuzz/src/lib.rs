//! Fuzz targets as plain functions: bytes in, a panic if a law is broken. A
//! fuzzer calls them (`libfuzzer/`), and so does a plain test, on any
//! toolchain (`tests/corpus.rs`).
//!
//! The readers of the core's `wire` room are not public and need not become
//! so: the room depends on nothing but itself, so its sources are compiled
//! into this crate as they stand. A target that no longer builds says that
//! something has entered the room that must not.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a target fails by panicking"
)]

mod cut;
mod driver;
mod front;
mod hostile;
mod lines;
mod message;
mod proxy;
mod refusals;
/// For the room's own tests, which the linter looks at here too.
#[cfg(test)]
#[path = "../../../components/core/src/rng.rs"]
mod rng;
mod sse;
mod visits;
#[path = "../../../components/core/src/wire/mod.rs"]
#[allow(dead_code, unreachable_pub, reason = "the core uses all of it, and shows some")]
mod wire;

/// Takes any bytes; panics if a law is broken.
pub type Target = fn(&[u8]);

/// All targets, by name.
pub const TARGETS: [(&str, Target); 6] = [
    ("lines", lines::lines),
    ("sse", sse::sse),
    ("message", message::message),
    ("proxy", proxy::proxy),
    ("front", front::front),
    ("refusals", refusals::refusals),
];

/// The target that counts the bytes of the whole process, and so needs one of
/// its own.
pub fn hostile_target(data: &[u8]) {
    hostile::hostile(data);
}

/// How many bytes of the process are in use after so many calls in one session.
#[must_use]
pub fn in_use_after(calls: usize) -> usize {
    hostile::in_use_after(calls)
}

/// Runs a target by name.
pub fn run(name: &str, data: &[u8]) {
    let hostile: (&str, Target) = ("hostile", hostile_target);
    let target = TARGETS.iter().chain([&hostile]).find(|(known, _)| *known == name);
    target.unwrap_or_else(|| panic!("no such target: {name}")).1(data);
}
