//! The conditions of one run, drawn once from its dice: the configuration, the network, the
//! client and the time limits. The server's properties are in `habit`.

use crate::dice::{Chance, Dice, Owner};
use crate::habit::{Habits, Kind};
use crate::manners::Manners;
use mcp_proxy_core::{ClientTransport, Config, Era, KeepAlive, Quirks, Transport};
use std::time::Duration;

#[derive(Debug, Clone)]
pub(crate) struct Weather {
    pub(crate) server: Habits,
    /// The transport that the user configured.
    pub(crate) transport: Transport,
    /// The percentage of calls with a network fault. The server refuses at random less
    /// often.
    pub(crate) harm: u64,
    /// The longest delay of the network in one direction.
    pub(crate) latency: u64,
    /// The longest time until stdout accepts a piece.
    pub(crate) stdout: u64,
    /// Some messages are large.
    pub(crate) large: bool,
    /// The client writes everything without waiting for `initialize`.
    pub(crate) hasty: bool,
    pub(crate) end: End,
    pub(crate) limits: Limits,
    /// The network closes a response that was silent for this long.
    pub(crate) idle_cut: Option<u64>,
    /// The computer sleeps once: when, and for how long.
    pub(crate) sleep: Option<(u64, u64)>,
    pub(crate) keep_alive: KeepAlive,
    pub(crate) quirks: Quirks,
    pub(crate) era: Era,
    /// The client's behaviour, if it speaks HTTP.
    pub(crate) caller: Option<Manners>,
    /// The client is one of 2026-07-28.
    pub(crate) modern: bool,
}

/// How the client leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// This long after it got all its answers.
    Content(u64),
    /// At this time, even with open requests.
    At(u64),
    /// At this time, without a goodbye.
    Gone(u64),
}

/// The time limits, in milliseconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) request: u64,
    pub(crate) total: Option<u64>,
    pub(crate) first_byte: Option<u64>,
}

impl Weather {
    pub(crate) fn of(chance: Chance<'_>) -> Self {
        let mut dice = chance.dice(Owner::Weather);
        let end = match dice.between(0, 9) {
            0..=5 => End::Content(dice.pick(&[0, 0, 90_000, 400_000], 0)),
            6..=8 => End::At(dice.between(0, 40_000)),
            _ => End::Gone(dice.between(0, 20_000)),
        };
        let server = Habits::of(&mut dice);
        let latency = dice.pick(&[1, 20, 300, 3000], 20);
        let era = match server.kind {
            Kind::Modern => dice.pick(&[Era::Auto, Era::Auto, Era::Auto, Era::Modern], Era::Auto),
            Kind::Streamable | Kind::Sse | Kind::Nothing => dice.pick(&[Era::Auto, Era::Legacy], Era::Auto),
        };
        let mut weather = Self {
            transport: transport(&server, &mut dice),
            server,
            harm: dice.pick(&[0, 5, 20, 50], 20),
            latency,
            stdout: dice.pick(&[0, 0, 5, 2000], 0),
            large: dice.chance(4),
            hasty: dice.chance(40),
            end,
            limits: Limits {
                request: dice.pick(&[2_000, 20_000, 300_000], 20_000) + 4 * latency,
                total: dice.pick(&[None, None, None, Some(30_000)], None),
                first_byte: dice.pick(&[None, None, None, Some(5_000)], None),
            },
            idle_cut: dice.pick(&[None, None, Some(8_000), Some(60_000)], None),
            sleep: dice.chance(10).then(|| (dice.between(0, 60_000), dice.between(0, 400_000))),
            keep_alive: dice.pick(&[KeepAlive::Auto, KeepAlive::Auto, KeepAlive::Off, PULSE], KeepAlive::Auto),
            quirks: quirks(&mut dice),
            era,
            caller: dice.chance(50).then(|| Manners::of(&mut dice)),
            modern: false,
        };
        weather.modern = weather.caller.is_none() && dice.chance(45);
        weather
    }

    /// The machine's configuration under these conditions.
    pub(crate) fn config(&self) -> Option<Config> {
        let mut config = Config::new(&format!("http://server.test{}", self.server.path())).ok()?;
        config.era = self.era;
        config.transport = self.transport;
        config.request_timeout = Some(Duration::from_millis(self.limits.request));
        config.total_timeout = self.limits.total.map(Duration::from_millis);
        config.first_byte_timeout = self.limits.first_byte.map(Duration::from_millis);
        config.max_message = LONGEST;
        config.keep_alive = self.keep_alive;
        config.quirks = self.quirks;
        if let Some(manners) = &self.caller {
            config.client = ClientTransport::Http(manners.client());
        }
        Some(config)
    }
}

/// The longest message.
pub(crate) const LONGEST: usize = 256 << 10;
const PULSE: KeepAlive = KeepAlive::Every(Duration::from_secs(5));

/// Sometimes switches a tolerance off. Never the one for late answers, which the model
/// cannot judge.
fn quirks(dice: &mut Dice) -> Quirks {
    let mut quirks = Quirks::default();
    match dice.between(0, 29) {
        0 => quirks.any_success = false,
        1 => quirks.null_id = false,
        2 => quirks.blank_lines = false,
        3 => quirks.pretty_json = false,
        4 => quirks.cookies = false,
        5 => quirks.session_gone = false,
        6 => quirks.stripped_prefix = false,
        _ => {}
    }
    quirks
}

/// Mostly `auto`, otherwise the server's transport, and sometimes the wrong one.
fn transport(server: &Habits, dice: &mut Dice) -> Transport {
    match dice.between(0, 19) {
        0..=13 => Transport::Auto,
        14..=18 => server.speaks(),
        _ => dice.pick(&[Transport::StreamableHttp, Transport::Sse], Transport::Auto),
    }
}
