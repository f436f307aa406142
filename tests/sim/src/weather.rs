//! What kind of day it is: the traits of one run, drawn once from its seed.

use crate::dice::Dice;
use mcp_proxy_core::Config;
use std::time::Duration;

#[derive(Debug, Clone)]
pub(crate) struct Weather {
    /// The server issues session ids.
    pub(crate) sessions: bool,
    /// The server has a listening stream.
    pub(crate) listens: bool,
    /// Percent of answers that come by event stream.
    pub(crate) streams: u64,
    /// Its streams carry event ids and can be resumed.
    pub(crate) resumable: bool,
    /// Percent of calls to which the network or the server does harm.
    pub(crate) harm: u64,
    /// Percent of messages at which the server forgets its sessions.
    pub(crate) amnesia: u64,
    /// Percent of tool calls that ask the client something.
    pub(crate) asks: u64,
    /// Longest delay of the network, one way.
    pub(crate) latency: u64,
    /// Longest time that stdout takes over a piece.
    pub(crate) stdout: u64,
    /// Some answers are large.
    pub(crate) large: bool,
    /// The client writes everything without waiting for `initialize`.
    pub(crate) hasty: bool,
    pub(crate) end: End,
    pub(crate) request_timeout: u64,
}

/// How the client leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// When it has all its answers.
    Content,
    /// At this time, whatever is open.
    At(u64),
    /// At this time it is gone altogether.
    Gone(u64),
}

impl Weather {
    pub(crate) fn of(seed: u64) -> Self {
        let mut dice = Dice::new(seed, 1);
        let end = match dice.between(0, 9) {
            0..=5 => End::Content,
            6..=8 => End::At(dice.between(0, 20_000)),
            _ => End::Gone(dice.between(0, 20_000)),
        };
        Self {
            sessions: dice.chance(85),
            listens: dice.chance(70),
            streams: dice.pick(&[0, 30, 70, 100], 50),
            resumable: dice.chance(60),
            harm: dice.pick(&[0, 5, 20, 50], 20),
            amnesia: dice.pick(&[0, 0, 3, 15], 0),
            asks: dice.pick(&[0, 20, 60], 20),
            latency: dice.pick(&[1, 20, 300, 3000], 20),
            stdout: dice.pick(&[0, 0, 5, 2000], 0),
            large: dice.chance(4),
            hasty: dice.chance(40),
            end,
            request_timeout: dice.pick(&[2_000, 20_000, 300_000], 20_000),
        }
    }

    /// The configuration of the machine on such a day.
    pub(crate) fn config(&self) -> Option<Config> {
        let mut config = Config::new("http://server.test/mcp").ok()?;
        config.request_timeout = Some(Duration::from_millis(self.request_timeout));
        config.max_message = 1 << 20;
        Some(config)
    }
}
