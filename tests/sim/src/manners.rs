//! The behaviour of an HTTP client, and the machine's limits for such a client. The
//! client's messages are in `client`.

use crate::dice::Dice;
use http::HeaderValue;
use mcp_proxy_core::HttpTransport;
use std::time::Duration;

#[derive(Debug, Clone)]
pub(crate) struct Manners {
    pub(crate) keeps: Keeps,
    /// How long after its session is open it opens a listening stream.
    pub(crate) listens: Vec<u64>,
    /// The longest time that it takes to read a piece of a response.
    pub(crate) slowness: u64,
    /// The percentage of responses whose end it does not read.
    pub(crate) harm: u64,
    /// The percentage of its requests before which it sends one that must be refused.
    pub(crate) faulty: u64,
    /// When another machine replaces the current one.
    pub(crate) restarts: Vec<u64>,
    /// The machine replaces a lost session with the server.
    pub(crate) recovers: bool,
    /// How long the machine lets a response wait for the answer.
    pub(crate) hold: u64,
}

/// The limits on what the machine keeps for the client.
#[derive(Debug, Clone)]
pub(crate) struct Keeps {
    pub(crate) open: usize,
    pub(crate) queue_bytes: usize,
    pub(crate) events: usize,
    pub(crate) bytes: usize,
}

/// The id of the client's session.
pub(crate) const SESSION: &str = "a-session-of-the-machine";

impl Manners {
    pub(crate) fn of(dice: &mut Dice) -> Self {
        let times = |count, dice: &mut Dice| (0..count).map(|_| dice.between(0, 30_000)).collect();
        let (listens, restarts) = (dice.pick(&[0, 1, 1, 1, 2, 3], 1), dice.pick(&[0, 0, 0, 0, 1, 2], 0));
        Self {
            keeps: Keeps {
                open: dice.pick(&[256, 256, 256, 4, 1], 256),
                queue_bytes: dice.pick(&[1 << 20, 1 << 20, 400], 1 << 20),
                events: dice.pick(&[512, 512, 512, 8, 2, 1, 0], 512),
                bytes: dice.pick(&[1 << 20, 1 << 20, 1 << 20, 600], 1 << 20),
            },
            listens: times(listens, dice),
            slowness: dice.pick(&[0, 5, 50, 2000], 5),
            harm: dice.pick(&[0, 10, 40, 80], 20),
            faulty: dice.pick(&[0, 10, 30], 10),
            restarts: times(restarts, dice),
            recovers: dice.chance(85),
            hold: dice.pick(&[250, 250, 250, 250, 0, 1, 20, 5000], 250),
        }
    }

    pub(crate) fn client(&self) -> HttpTransport {
        let Keeps { open, queue_bytes, events, bytes } = self.keeps;
        HttpTransport {
            most_open: open,
            queue_bytes,
            replay_events: events,
            replay_bytes: bytes,
            recovers: self.recovers,
            hold: Duration::from_millis(self.hold),
            ..HttpTransport::new(HeaderValue::from_static(SESSION))
        }
    }
}
