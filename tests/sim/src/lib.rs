//! The deterministic simulator: the real [`Proxy`](mcp_proxy_core::Proxy)
//! between a simulated client, server and network, on virtual time and seeded
//! dice. A reference model knows every open request, and checks the run after every step
//! (safety) and at the end (liveness). The same seed gives the same run, so a failure is
//! reported by its seed and replayed with a log.

mod caller;
mod calls;
mod channel;
mod client;
mod dice;
mod event;
mod exchange;
mod habit;
mod labour;
mod ledger;
mod luck;
mod manners;
mod model;
mod modern;
mod network;
mod respond;
mod restart;
mod run;
mod server;
mod shell;
mod story;
mod stream;
mod streamable;
mod tape;
mod trace;
mod visit;
mod wait;
mod weather;
mod world;

use dice::Chance;
use run::run;
pub use run::{Failure, Size, Stats};
pub use tape::Recording;
use trace::Trace;

/// Runs a seed. If it fails, looks for a smaller run that also fails.
///
/// # Errors
/// The smallest failing run that was found, with its log.
pub fn check(seed: u64) -> Result<Stats, Box<Failure>> {
    checked(Chance::Seed(seed))
}

/// The same for a run whose dice are these bytes, as long as they last.
///
/// # Errors
/// The smallest failing run that was found, with its log.
pub fn check_bytes(bytes: &[u8]) -> Result<Stats, Box<Failure>> {
    checked(Chance::Bytes(bytes))
}

/// Runs a seed and returns the recording.
#[must_use]
pub fn record(seed: u64, size: Size) -> Option<Recording> {
    run::record(Chance::Seed(seed), size)
}

/// Runs a seed with this size and returns the log.
#[must_use]
pub fn replay(seed: u64, size: Size) -> String {
    match run(Chance::Seed(seed), size, Trace::on()) {
        Ok((_, log)) => log,
        Err(failure) => failure.to_string(),
    }
}

fn checked(chance: Chance<'_>) -> Result<Stats, Box<Failure>> {
    let mut size = Size::default();
    let mut failure = match run(chance, size, Trace::off()) {
        Ok((stats, _)) => return Ok(stats),
        Err(failure) => failure,
    };
    let fails = |size: &Size| run(chance, *size, Trace::off()).is_err();
    while let Some(smaller) = size.smaller().into_iter().find(fails) {
        size = smaller;
    }
    if let Err(smallest) = run(chance, size, Trace::on()) {
        failure = smallest;
    }
    Err(failure)
}
