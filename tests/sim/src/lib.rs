//! The deterministic simulator: the real [`Proxy`](mcp_proxy_core::Proxy)
//! between a simulated client, server and network, on virtual time and seeded
//! dice. A reference model knows what is owed to whom; it is asked after every
//! step (safety) and at the end (liveness). The same seed gives the same run,
//! so a failure is told by its seed and played again with a log.

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

/// Plays a seed and, if it fails, looks for a smaller run that fails too.
///
/// # Errors
/// The smallest failing run that was found, with its log.
pub fn check(seed: u64) -> Result<Stats, Box<Failure>> {
    checked(Chance::Seed(seed))
}

/// The same for a run whose dice are these bytes, as far as they go.
///
/// # Errors
/// The smallest failing run that was found, with its log.
pub fn check_bytes(bytes: &[u8]) -> Result<Stats, Box<Failure>> {
    checked(Chance::Bytes(bytes))
}

/// Plays a seed and returns its recording.
#[must_use]
pub fn record(seed: u64, size: Size) -> Option<Recording> {
    run::record(Chance::Seed(seed), size)
}

/// Plays a seed in that size and returns its log.
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
