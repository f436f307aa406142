//! The connections of a client that speaks HTTP: what it has not read of each
//! response, and which of them it loses, or forgets to read. What it says is in
//! `client`, what it was told in `story`.

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
    /// The session, once the client has read its name.
    pub(crate) session: Option<String>,
    pub(crate) version: String,
    /// The story of the stream on which it listens.
    pub(crate) listener: Option<u64>,
    /// Requests to which it will never see an answer, for want of an event id.
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
    /// The name of the session, in the head of the response.
    pub(crate) session: Option<String>,
}

/// What is on its way to the client.
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
    /// Nothing is taken.
    Stalls,
    /// The client is gone; its system takes what comes.
    Lost,
    /// The client is gone, and nothing is taken.
    Dead,
}

/// What becomes of a connection.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fate {
    Fine,
    Stalls,
    /// It is lost after so long. The machine learns of it after a while more,
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

    /// A connection is made. Says what becomes of it. Most harm is done to streams.
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
            // What is taken by nobody is broken off; what the client's system
            // takes is found out one day.
            6 => Fate::Lost(after, Reading::Dead, None),
            7 => Fate::Lost(after, Reading::Lost, Some(60_000)),
            _ => Fate::Stalls,
        }
    }

    /// How long it takes over a piece.
    pub(crate) fn pace(&mut self) -> u64 {
        self.dice.between(0, self.manners.slowness)
    }

    /// The client reads the story somewhere.
    pub(crate) fn reads(&self, story: u64) -> bool {
        let reads = |connection: &Connection| matches!(connection.reading, Reading::Reads | Reading::Stalls);
        self.connections.values().any(|connection| connection.story == Some(story) && reads(connection))
    }
}

impl Connection {
    /// The next piece that is taken now; the client reads it, or it is lost.
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
