//! The connections of an HTTP client: the unread part of each response, and which
//! connections it loses or stops reading. Its messages are in `client`, the streams that it
//! reads in `story`.

use crate::dice::{Chance, Dice, Owner};
use crate::exchange::Purpose;
use crate::luck::Luck;
use crate::manners::Manners;
use mcp_proxy_core::ExchangeId;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

#[derive(Debug)]
pub(crate) struct Caller {
    pub(crate) dice: Dice,
    pub(crate) luck: Luck,
    pub(crate) manners: Manners,
    pub(crate) connections: BTreeMap<ExchangeId, Connection>,
    /// The session id, once the client has read it.
    pub(crate) session: Option<String>,
    pub(crate) version: String,
    /// The story of the stream on which it listens.
    pub(crate) listener: Option<u64>,
    /// Requests whose answers it will never read, because it has no event id.
    pub(crate) orphans: BTreeSet<String>,
    pub(crate) resumptions: u64,
}

#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) pipe: VecDeque<Sent>,
    pub(crate) reading: Reading,
    pub(crate) finished: bool,
    pub(crate) story: Option<u64>,
    pub(crate) initializes: bool,
    /// The session id in the head of the response.
    pub(crate) session: Option<String>,
}

/// The unread part of a response.
#[derive(Debug)]
pub(crate) struct Sent {
    pub(crate) bytes: usize,
    pub(crate) heard: Vec<Heard>,
}

/// A message, or an event without one.
#[derive(Debug)]
pub(crate) struct Heard {
    pub(crate) id: Option<String>,
    pub(crate) value: Value,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reading {
    Reads,
    /// Nobody reads.
    Stalls,
    /// The client is gone, but its system still accepts bytes.
    Lost,
    /// The client is gone, and nobody reads.
    Dead,
}

/// How a connection will end.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fate {
    Fine,
    Stalls,
    /// The client loses it after this long. The machine learns of the loss some time later,
    /// or never.
    Lost(u64, Reading, Option<u64>),
}

impl Caller {
    pub(crate) fn new(chance: Chance<'_>, manners: Manners, faults: u64) -> Self {
        Self {
            dice: chance.dice(Owner::Caller),
            luck: Luck::new(faults),
            manners,
            connections: BTreeMap::new(),
            session: None,
            version: String::new(),
            listener: None,
            orphans: BTreeSet::new(),
            resumptions: 0,
        }
    }

    /// Opens a connection and decides how it will end. Most faults hit streams.
    pub(crate) fn connect(&mut self, id: ExchangeId, purpose: Purpose) -> Fate {
        let initializes = purpose == Purpose::Initialize;
        let streams = matches!(purpose, Purpose::Ask(_) | Purpose::Listen | Purpose::Resume(..));
        let harmed = self.dice.chance(self.manners.harm) && (streams || self.dice.chance(10));
        let fate = self.some_fate();
        let fate = if harmed && self.luck.strikes() { fate } else { Fate::Fine };
        let reading = if matches!(fate, Fate::Stalls) { Reading::Stalls } else { Reading::Reads };
        let pipe = VecDeque::new();
        let connection = Connection { pipe, reading, finished: false, story: None, initializes, session: None };
        self.connections.insert(id, connection);
        fate
    }

    fn some_fate(&mut self) -> Fate {
        let most = self.dice.pick(&[3, 50, 200, 1000, 10_000], 500);
        let after = self.dice.between(0, most);
        let reading = self.dice.pick(&[Reading::Lost, Reading::Dead], Reading::Lost);
        let later = self.dice.between(0, 20_000);
        match self.dice.between(0, 9) {
            0..=2 => Fate::Lost(after, reading, Some(0)),
            3..=5 => Fate::Lost(after, reading, Some(later)),
            // The machine breaks off a response that nobody reads. If the client's system
            // still accepts bytes, the machine learns of the loss later.
            6 => Fate::Lost(after, Reading::Dead, None),
            7 => Fate::Lost(after, Reading::Lost, Some(60_000)),
            _ => Fate::Stalls,
        }
    }

    /// How long the client takes to read a piece.
    pub(crate) fn pace(&mut self) -> u64 {
        self.dice.between(0, self.manners.slowness)
    }

    /// Whether the client reads the story on some connection.
    pub(crate) fn reads(&self, story: u64) -> bool {
        let reads = |connection: &Connection| matches!(connection.reading, Reading::Reads | Reading::Stalls);
        self.connections.values().any(|connection| connection.story == Some(story) && reads(connection))
    }
}

impl Connection {
    /// Takes the next piece, which the client reads or loses.
    pub(crate) fn take(&mut self) -> Option<Sent> {
        match self.reading {
            Reading::Reads => self.pipe.pop_front(),
            Reading::Lost => self.pipe.pop_front().map(|sent| Sent { heard: Vec::new(), ..sent }),
            Reading::Stalls | Reading::Dead => None,
        }
    }

    pub(crate) fn read_to_the_end(&self) -> bool {
        self.finished && self.pipe.is_empty()
    }
}
