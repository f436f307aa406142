//! The events of a stream and their ids. The id of an event contains its stream, its
//! place, and the requests that the stream still had to answer after it. So even if the
//! stream is forgotten, or belonged to another machine, the proxy can report that their
//! answers are lost. Which events are kept does not belong here.

use crate::failure::{Delivered, Failure, Phase};
use crate::wire::message::{self, Id};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as BASE64;
use bytes::Bytes;
use serde_json::value::RawValue;

/// How long a client should wait before it reconnects, in milliseconds.
const RETRY: u32 = 1000;
/// Event ids leave out longer lists of requests, which only batches have.
const LONGEST_LIST: usize = 1024;
/// Replaces such a list.
const UNLISTED: &str = "~";

/// Names a stream of this machine; never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StreamId(pub(super) u64);

/// The place of an event.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    /// The machine that wrote it.
    pub(super) epoch: u32,
    pub(super) stream: StreamId,
    /// Counts the events of the stream.
    pub(super) number: u64,
}

/// A parsed event id.
#[derive(Debug)]
pub(super) struct EventId {
    pub(super) place: Place,
    pub(super) awaited: Awaited,
}

/// What was still due on the stream after an event.
#[derive(Debug)]
pub(super) enum Awaited {
    /// Unsolicited messages: the stream answers no request.
    Anything,
    /// The answers to more requests than an id can list.
    Unlisted,
    /// The answers to these.
    These(Vec<Id>),
}

impl EventId {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.splitn(4, '-');
        let epoch = u32::from_str_radix(parts.next()?, 16).ok()?;
        let (stream, number) = (StreamId(parts.next()?.parse().ok()?), parts.next()?.parse().ok()?);
        let awaited = match parts.next() {
            None => Awaited::Anything,
            Some(UNLISTED) => Awaited::Unlisted,
            Some(list) => Awaited::These(ids(list)?),
        };
        Some(Self { place: Place { epoch, stream, number }, awaited })
    }

    /// The events that report the answers to these requests as lost. Their ids tell which
    /// of them the client has read.
    pub(super) fn lost(&self, awaited: &[Id]) -> Bytes {
        let id = |at: usize| write_id(self.place, Some(awaited.iter().skip(at + 1)));
        awaited.iter().enumerate().flat_map(|(at, request)| write_lost(&id(at), request)).collect()
    }
}

fn ids(list: &str) -> Option<Vec<Id>> {
    let list = BASE64.decode(list).ok().filter(|list| list.len() <= LONGEST_LIST)?;
    let ids: Vec<&RawValue> = serde_json::from_slice(&list).ok()?;
    ids.into_iter().map(|id| Id::parse(id.get())).collect()
}

/// Writes the id of an event: its place, and the requests still to be answered after it.
pub(super) fn write_id<'a>(place: Place, awaited: Option<impl Iterator<Item = &'a Id>>) -> String {
    let place = format!("{:08x}-{}-{}", place.epoch, place.stream.0, place.number);
    let Some(awaited) = awaited else { return place };
    let list = format!("[{}]", awaited.map(Id::text).collect::<Vec<_>>().join(","));
    if list.len() > LONGEST_LIST { format!("{place}-{UNLISTED}") } else { format!("{place}-{}", BASE64.encode(list)) }
}

/// Writes a message as an event.
pub(super) fn write(id: Option<&str>, message: Vec<u8>) -> Vec<u8> {
    let line = message::to_line(message, false);
    let mut event = Vec::with_capacity(line.len() + 128);
    if let Some(id) = id {
        for part in ["id: ", id, "\n"] {
            event.extend_from_slice(part.as_bytes());
        }
    }
    event.extend_from_slice(b"event: message\ndata: ");
    event.extend_from_slice(&line);
    event.push(b'\n');
    event
}

/// Writes an event without a message, which gives the client an id to reconnect with.
pub(super) fn write_priming(id: &str) -> Bytes {
    Bytes::from(format!("id: {id}\nretry: {RETRY}\ndata: \n\n"))
}

/// Writes the event that reports the answer to a request as lost.
pub(super) fn write_lost(id: &str, request: &Id) -> Vec<u8> {
    let text = "the connection was lost, and the answer with it";
    write(Some(id), Failure::new(Phase::Stream, Delivered::Maybe, text).answer(request))
}
