//! The deterministic simulator: the real [`Proxy`](mcp_proxy_core::Proxy)
//! between a simulated client, server and network, on virtual time and seeded
//! dice. A reference model knows what is owed to whom; it is asked after every
//! step (safety) and at the end (liveness). The same seed gives the same run,
//! so a failure is told by its seed and played again with a log.

mod client;
mod dice;
mod labour;
mod model;
mod network;
mod run;
mod server;
mod stream;
mod tape;
mod trace;
mod weather;
mod world;

use run::run;
pub use run::{Failure, Size, Stats};
pub use tape::Recording;

/// Plays a seed and, if it fails, looks for a smaller run that fails too.
///
/// # Errors
/// The smallest failing run that was found, with its log.
pub fn check(seed: u64) -> Result<Stats, Box<Failure>> {
    let mut size = Size::default();
    let mut failure = match run(seed, size, trace::Trace::off()) {
        Ok(stats) => return Ok(stats),
        Err(failure) => failure,
    };
    while let Some((smaller, found)) = size.smaller().into_iter().find_map(|smaller| {
        let found = run(seed, smaller, trace::Trace::off()).err()?;
        Some((smaller, found))
    }) {
        size = smaller;
        failure = found;
    }
    Err(run(seed, size, trace::Trace::on()).err().unwrap_or(failure))
}

/// Plays a seed and returns its recording.
#[must_use]
pub fn record(seed: u64) -> Option<Recording> {
    run::record(seed)
}

/// Plays a seed and returns its log.
#[must_use]
pub fn replay(seed: u64) -> String {
    match run(seed, Size::default(), trace::Trace::on()) {
        Ok(stats) => stats.log,
        Err(failure) => format!("{}\n{}", failure.log, failure.reasons.join("\n")),
    }
}
