//! One run: its size, its result, and the smaller runs to try if it fails. The events of
//! a run are in `world`; the same chance and size always give the same run.

use crate::dice::Chance;
use crate::habit::Kind;
use crate::tape::{Recording, Tape};
use crate::trace::Trace;
use crate::weather::Weather;
use crate::world::World;
use std::fmt;
use std::ops::AddAssign;
use std::str::FromStr;

/// The size of a run. The n-th request or fault happens if its bit is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Requests of the client.
    pub requests: u64,
    /// Faults of the network.
    pub network: u64,
    /// Faults of the server.
    pub server: u64,
    /// Faults of an HTTP client's connections.
    pub caller: u64,
}

impl Default for Size {
    fn default() -> Self {
        Self { requests: 0xfff, network: 0xfff, server: 0xfff, caller: 0xfff }
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x},{:x},{:x},{:x}", self.requests, self.network, self.server, self.caller)
    }
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts: Vec<u64> = text.split(',').filter_map(|part| u64::from_str_radix(part, 16).ok()).collect();
        match *parts.as_slice() {
            [requests, network, server, caller] => Ok(Self { requests, network, server, caller }),
            _ => Err(format!("not a size, such as {}: {text}", Self::default())),
        }
    }
}

impl Size {
    /// Smaller runs: without many requests or faults at first, then without single ones.
    pub(crate) fn smaller(self) -> Vec<Self> {
        let network = without(self.network).map(|network| Self { network, ..self });
        let server = without(self.server).map(|server| Self { server, ..self });
        let requests = without(self.requests).map(|requests| Self { requests, ..self });
        let caller = without(self.caller).map(|caller| Self { caller, ..self });
        network.chain(server).chain(caller).chain(requests).collect()
    }
}

/// The set without all bits, without the upper half of them, or without one.
fn without(bits: u64) -> impl Iterator<Item = u64> {
    let half = bits.checked_ilog2().map_or(0, |top| (1_u64 << (top / 2 + 1)) - 1);
    let ones = (0..u64::BITS).map(move |bit| bits & !(1 << bit));
    [0, bits & half].into_iter().chain(ones).filter(move |fewer| *fewer != bits)
}

/// The totals of many runs.
#[derive(Debug, Default)]
pub struct Stats {
    /// Runs with a Streamable HTTP server, an HTTP+SSE server, a modern server, and none.
    pub servers: [u64; 4],
    /// Requests of the client.
    pub requests: u64,
    /// Requests that the server answered.
    pub served: u64,
    /// Calls of the machine.
    pub calls: u64,
    /// Faults of network, server and an HTTP client's connections.
    pub faults: u64,
    /// For HTTP clients: the runs, the exchanges, the responses that were one JSON answer,
    /// the returns for the rest of a stream, and those of them to another machine.
    pub http: [u64; 5],
    /// Virtual milliseconds.
    pub lasted: u64,
    /// Runs with a client of 2026-07-28, how many of its requests were answered by
    /// questions, how many it repeated, and how many of those the server answered.
    pub modern: [u64; 4],
}

impl AddAssign for Stats {
    fn add_assign(&mut self, other: Self) {
        self.servers.iter_mut().zip(other.servers).for_each(|(sum, more)| *sum += more);
        self.modern.iter_mut().zip(other.modern).for_each(|(sum, more)| *sum += more);
        self.http.iter_mut().zip(other.http).for_each(|(sum, more)| *sum += more);
        self.requests += other.requests;
        self.served += other.served;
        self.calls += other.calls;
        self.faults += other.faults;
        self.lasted += other.lasted;
    }
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            servers: [streamable, sse, modern, none],
            requests,
            served,
            calls,
            faults,
            http,
            lasted,
            modern: modern_clients,
        } = self;
        writeln!(f, "{streamable} Streamable HTTP, {sse} HTTP+SSE, {modern} modern, {none} without a server")?;
        let [clients, exchanges, whole, resumptions, restarts] = http;
        writeln!(
            f,
            "{clients} HTTP clients, {exchanges} exchanges ({whole} with nothing but the answer), {resumptions} resumptions, {restarts} restarts of the machine"
        )?;
        let [clients, parked, repeated, concluded] = modern_clients;
        writeln!(
            f,
            "{clients} modern clients, {parked} requests answered by questions, {repeated} repeated, {concluded} of them answered"
        )?;
        let hours = lasted / 3_600_000;
        write!(f, "{requests} requests ({served} served), {calls} calls, {faults} faults, {hours} virtual hours")
    }
}

/// A run that broke a rule.
#[derive(Debug)]
pub struct Failure {
    /// Its seed.
    pub seed: u64,
    /// Its size.
    pub size: Size,
    /// The broken rules.
    pub reasons: Vec<String>,
    /// The log.
    pub log: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}\n{}", self.log, self.reasons.join("\n"))?;
        let (seed, size) = (self.seed, self.size);
        write!(f, "SIM_SEED={seed} SIM_SIZE={size} cargo test -p mcp-proxy-sim one_seed -- --nocapture")
    }
}

/// Runs once and records.
pub(crate) fn record(chance: Chance<'_>, size: Size) -> Option<Recording> {
    let weather = Weather::of(chance);
    let mut world = World::new(chance, size, &weather, Trace::off())?;
    world.tape = Tape::on(&weather.config()?, chance.seed());
    world.play();
    world.tape.recording()
}

/// Runs once.
///
/// # Errors
/// If the run broke a rule.
pub(crate) fn run(chance: Chance<'_>, size: Size, trace: Trace) -> Result<(Stats, String), Box<Failure>> {
    let weather = Weather::of(chance);
    let Some(mut world) = World::new(chance, size, &weather, trace) else { return Ok(Default::default()) };
    world.trace.line(0, format_args!("seed {}, size {size}, {weather:?}", chance.seed()));
    world.play();
    world.model.judge(&world.server.ledger, &world.calls);
    let log = std::mem::take(&mut world.trace).text();
    if !world.model.reproaches.is_empty() {
        return Err(Box::new(Failure { seed: chance.seed(), size, reasons: world.model.reproaches, log }));
    }
    let kind = world.server.habits.kind;
    let servers = [Kind::Streamable, Kind::Sse, Kind::Modern, Kind::Nothing].map(|one| u64::from(one == kind));
    let caller = world.caller.as_ref();
    let resumptions = caller.map_or(0, |caller| caller.resumptions);
    let stats = Stats {
        http: [u64::from(caller.is_some()), world.exchanges.begun, world.exchanges.whole, resumptions, world.machine],
        servers,
        requests: world.model.asked,
        served: world.model.served,
        calls: world.calls.started,
        faults: world.network.luck.struck + world.server.luck.struck + caller.map_or(0, |caller| caller.luck.struck),
        lasted: world.now,
        modern: [u64::from(weather.modern), world.model.rounds[0], world.model.rounds[1], world.model.rounds[2]],
    };
    Ok((stats, log))
}
