//! The events of all streams that are kept for clients that lost their connection, within
//! limits. When a client returns, and what it gets then, does not belong here.

use super::event::StreamId;
use crate::config::HttpTransport;
use crate::wire::message::Id;
use bytes::Bytes;
use std::collections::VecDeque;

/// The kept events, oldest first.
#[derive(Debug)]
pub(super) struct Kept {
    events: VecDeque<Event>,
    /// The sum over all events.
    bytes: usize,
    most: usize,
    most_bytes: usize,
}

/// An event that was sent on a stream.
#[derive(Debug)]
pub(super) struct Event {
    pub(super) stream: StreamId,
    pub(super) place: u64,
    pub(super) bytes: Bytes,
    /// The request that it answers.
    pub(super) answers: Option<Id>,
}

impl Kept {
    pub(super) fn new(client: &HttpTransport) -> Self {
        let &HttpTransport { replay_events: most, replay_bytes: most_bytes, .. } = client;
        Self { events: VecDeque::new(), bytes: 0, most, most_bytes }
    }

    /// Whether the event is small enough to be kept at all.
    pub(super) fn fits(&self, event: &Event) -> bool {
        event.bytes.len() <= self.most_bytes
    }

    /// Keeps an event that fits. Older events may be over the limits now.
    pub(super) fn push(&mut self, event: Event) {
        self.bytes += event.bytes.len();
        self.events.push_back(event);
    }

    /// Removes and returns the oldest event if the events are over the limits.
    pub(super) fn pop_excess(&mut self) -> Option<Event> {
        if self.events.len() <= self.most && self.bytes <= self.most_bytes {
            return None;
        }
        let event = self.events.pop_front()?;
        self.bytes -= event.bytes.len();
        Some(event)
    }

    /// The events of one stream, oldest first.
    pub(super) fn of(&self, stream: StreamId) -> impl Iterator<Item = &Event> {
        self.events.iter().filter(move |event| event.stream == stream)
    }
}
