//! The server's questions that were sent on a stream, and whether the client can have
//! read them. On a stream without a connection they wait for the client to return, but
//! only for a limited time. Questions that wait for a stream are in `queue`; `route`
//! grants the permission to answer.

use crate::time::Time;
use crate::wire::message::Id;
use std::collections::BTreeMap;
use std::time::Duration;

/// The unanswered questions.
#[derive(Debug)]
pub(super) struct Questions {
    open: BTreeMap<Id, Asked>,
    patience: Duration,
}

/// The place of a question.
#[derive(Debug)]
struct Asked {
    stream: u64,
    at: u64,
    /// When the client disconnected from the stream.
    alone: Option<Time>,
}

impl Questions {
    pub(super) fn new(patience: Duration) -> Self {
        Self { open: BTreeMap::new(), patience }
    }

    /// Records a question at this place.
    pub(super) fn ask(&mut self, id: Id, stream: u64, at: u64) {
        self.open.insert(id, Asked { stream, at, alone: None });
    }

    /// A question no longer needs an answer. Returns its stream.
    pub(super) fn settle(&mut self, id: &Id) -> Option<u64> {
        self.open.remove(id).map(|asked| asked.stream)
    }

    pub(super) fn clear(&mut self) {
        self.open.clear();
    }

    /// A stream lost its connection.
    pub(super) fn leave(&mut self, now: Time, stream: u64) {
        for asked in self.open.values_mut().filter(|asked| asked.stream == stream) {
            asked.alone = asked.alone.or(Some(now));
        }
    }

    /// A client reconnected to a stream; `reads` tells which places it has or will get.
    /// Removes and returns the questions that it will never read.
    pub(super) fn join(&mut self, stream: u64, reads: impl Fn(u64) -> bool) -> Vec<Id> {
        for asked in self.open.values_mut().filter(|asked| asked.stream == stream) {
            asked.alone = None;
        }
        self.take(|asked| asked.stream == stream && !reads(asked.at))
    }

    /// When the first question times out.
    pub(super) fn due(&self) -> Option<Time> {
        self.open.values().filter_map(|asked| Some(asked.alone?.after(self.patience))).min()
    }

    /// Removes and returns the questions that have timed out.
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
