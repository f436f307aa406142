//! What kind of day it is: the traits of one run, drawn once from its dice.
//! Those of the server are in `habit`.

use crate::dice::{Chance, Dice, Owner};
use crate::habit::Habits;
use crate::manners::Manners;
use mcp_proxy_core::{ClientTransport, Config, KeepAlive, Quirks, Transport};
use std::time::Duration;

#[derive(Debug, Clone)]
pub(crate) struct Weather {
    pub(crate) server: Habits,
    /// What the machine was told of the server.
    pub(crate) transport: Transport,
    /// Percent of calls to which the network does harm; the server has fewer
    /// bad moods.
    pub(crate) harm: u64,
    /// Longest delay of the network, one way.
    pub(crate) latency: u64,
    /// Longest time that stdout takes over a piece.
    pub(crate) stdout: u64,
    /// Some messages are large.
    pub(crate) large: bool,
    /// The client writes everything without waiting for `initialize`.
    pub(crate) hasty: bool,
    pub(crate) end: End,
    pub(crate) limits: Limits,
    /// The network closes a response that has been silent for so long.
    pub(crate) idle_cut: Option<u64>,
    /// Once, the machine sleeps: when, and for how long.
    pub(crate) sleep: Option<(u64, u64)>,
    pub(crate) keep_alive: KeepAlive,
    pub(crate) quirks: Quirks,
    /// How the client behaves, if it speaks HTTP.
    pub(crate) caller: Option<Manners>,
}

/// How the client leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// So long after it had all its answers.
    Content(u64),
    /// At this time, whatever is open.
    At(u64),
    /// At this time it is gone altogether.
    Gone(u64),
}

/// The limits of time, in milliseconds.
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
        Self {
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
            caller: dice.chance(50).then(|| Manners::of(&mut dice)),
        }
    }

    /// The configuration of the machine on such a day.
    pub(crate) fn config(&self) -> Option<Config> {
        let mut config = Config::new(&format!("http://server.test{}", self.server.path())).ok()?;
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

/// Now and then something is not put up with. Late answers always are: the
/// model has no word for them.
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

/// Mostly to be found out, else what the server speaks, and now and then not.
fn transport(server: &Habits, dice: &mut Dice) -> Transport {
    match dice.between(0, 19) {
        0..=13 => Transport::Auto,
        14..=18 => server.speaks(),
        _ => dice.pick(&[Transport::StreamableHttp, Transport::Sse], Transport::Auto),
    }
}
