//! What a client gets that returns with `Last-Event-ID` (2025-11-25, basic/transports,
//! resumability and redelivery): a table over that event and what is left of its stream.

use crate::front::http::event::{Awaited, EventId, StreamId};
use crate::front::http::streams::Streams;
use bytes::Bytes;

/// What to do for a client that lost its connection.
#[derive(Debug)]
pub(super) enum Resumed {
    /// Continue this stream with the events that the client missed.
    Stream(StreamId, Vec<(u64, Bytes)>),
    /// The client has seen everything, and nothing more will come.
    Over,
    /// The stream is gone, and answers with it; these events report that.
    Lost(Bytes),
    /// Not an event of this proxy, or nothing that matters.
    Unknown,
}

impl Resumed {
    pub(super) fn new(last: Option<&EventId>, streams: &Streams) -> Self {
        let Some(last) = last else { return Self::Unknown };
        match (&last.awaited, streams.missed(last.place)) {
            (Awaited::These(none), _) if none.is_empty() => Self::Over,
            (_, Some(missed)) if missed.is_empty() && streams.is_complete(last.place.stream) => Self::Over,
            (_, Some(missed)) => Self::Stream(last.place.stream, missed),
            (Awaited::Anything, None) => Self::Unknown,
            (Awaited::Unlisted, None) => Self::Over,
            (Awaited::These(ids), None) => Self::Lost(last.lost(ids)),
        }
    }

    /// Whether the client gets the event at this place.
    pub(super) fn holds(&self, place: u64) -> bool {
        matches!(self, Self::Stream(_, missed) if missed.iter().any(|(at, _)| *at == place))
    }
}
