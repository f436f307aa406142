//! The questions of the server that stand on a stream, and whether the client
//! can have read them: on a stream that lost its connection they wait for the
//! client to come back, but not for ever. Those that wait for a stream are in
//! `queue`; the permission to answer is the route's.

use crate::time::Time;
use crate::wire::message::Id;
use std::collections::BTreeMap;
use std::time::Duration;

/// The questions that nobody has answered.
#[derive(Debug)]
pub(super) struct Questions {
    open: BTreeMap<Id, Asked>,
    patience: Duration,
}

/// Where a question stands.
#[derive(Debug)]
struct Asked {
    stream: u64,
    at: u64,
    /// Since then, the client is not there to read it.
    alone: Option<Time>,
}

impl Questions {
    pub(super) fn new(patience: Duration) -> Self {
        Self { open: BTreeMap::new(), patience }
    }

    /// A question was put there.
    pub(super) fn ask(&mut self, id: Id, stream: u64, at: u64) {
        self.open.insert(id, Asked { stream, at, alone: None });
    }

    /// A question needs no answer any more; returns the stream on which it stands.
    pub(super) fn settle(&mut self, id: &Id) -> Option<u64> {
        self.open.remove(id).map(|asked| asked.stream)
    }

    pub(super) fn clear(&mut self) {
        self.open.clear();
    }

    /// A stream has lost its connection.
    pub(super) fn leave(&mut self, now: Time, stream: u64) {
        for asked in self.open.values_mut().filter(|asked| asked.stream == stream) {
            asked.alone = asked.alone.or(Some(now));
        }
    }

    /// A client is back on a stream, and has or gets what stands at these places.
    /// Takes out the questions that it will never read.
    pub(super) fn join(&mut self, stream: u64, reads: impl Fn(u64) -> bool) -> Vec<Id> {
        for asked in self.open.values_mut().filter(|asked| asked.stream == stream) {
            asked.alone = None;
        }
        self.take(|asked| asked.stream == stream && !reads(asked.at))
    }

    /// When the first question has waited for too long.
    pub(super) fn due(&self) -> Option<Time> {
        self.open.values().filter_map(|asked| Some(asked.alone?.after(self.patience))).min()
    }

    /// Takes out the questions that have waited for too long.
    pub(super) fn tick(&mut self, now: Time) -> Vec<Id> {
        let patience = self.patience;
        self.take(|asked| asked.alone.is_some_and(|alone| alone.after(patience) <= now))
    }

    fn take(&mut self, which: impl Fn(&Asked) -> bool) -> Vec<Id> {
        let ids: Vec<Id> = self.open.iter().filter(|(_, asked)| which(asked)).map(|(id, _)| id.clone()).collect();
        self.open.retain(|_, asked| !which(asked));
        ids
    }
}
