//! One run from its seed: how much happens in it, and what came of it.

use crate::tape::{Recording, Tape};
use crate::trace::Trace;
use crate::weather::Weather;
use crate::world::World;

/// How much happens in a run.
#[derive(Debug, Clone, Copy)]
pub struct Size {
    /// Requests of the client.
    pub requests: u64,
    /// Faults of network and server, each.
    pub faults: u64,
}

impl Default for Size {
    fn default() -> Self {
        Self { requests: 8, faults: 10 }
    }
}

impl Size {
    pub(crate) fn smaller(self) -> Vec<Self> {
        let fewer = |count: u64| [count / 2, count.saturating_sub(1)].into_iter().filter(move |less| *less < count);
        let faults = fewer(self.faults).map(|faults| Self { faults, ..self });
        faults.chain(fewer(self.requests).map(|requests| Self { requests, ..self })).collect()
    }
}

/// What a run amounted to.
#[derive(Debug, Default)]
pub struct Stats {
    /// Requests of the client.
    pub requests: u64,
    /// Faults of network and server.
    pub faults: u64,
    /// Virtual milliseconds.
    pub lasted: u64,
    /// What happened, if it was to be logged.
    pub log: String,
}

/// A run that broke a rule.
#[derive(Debug)]
pub struct Failure {
    /// Its seed.
    pub seed: u64,
    /// Its size.
    pub size: Size,
    /// The rules that were broken.
    pub reasons: Vec<String>,
    /// What happened.
    pub log: String,
}

/// Plays one run and records it.
pub(crate) fn record(seed: u64) -> Option<Recording> {
    let weather = Weather::of(seed);
    let mut world = World::new(seed, Size::default(), &weather, Trace::off())?;
    world.tape = Tape::on(&weather.config()?, seed);
    world.play();
    world.tape.recording()
}

/// Plays one run.
///
/// # Errors
/// If a rule was broken.
pub(crate) fn run(seed: u64, size: Size, trace: Trace) -> Result<Stats, Box<Failure>> {
    let weather = Weather::of(seed);
    let Some(mut world) = World::new(seed, size, &weather, trace) else { return Ok(Stats::default()) };
    world.trace.line(0, format_args!("seed {seed}, {size:?}, {weather:?}"));
    world.play();
    world.model.judge(&world.server);
    let log = world.trace.text();
    if world.model.reproaches.is_empty() {
        let faults = world.network.harmed + world.server.moods;
        return Ok(Stats { requests: world.model.asked, faults, lasted: world.now, log });
    }
    Err(Box::new(Failure { seed, size, reasons: world.model.reproaches, log }))
}
