//! The streams toward the client, and their events. A stream outlives its connection: the
//! proxy keeps it, within limits, until a client that lost the connection asks for the
//! rest. The id of an event contains its stream, its place, and the requests that the
//! stream still had to answer after it. So even if the stream is forgotten, or belonged
//! to another machine, the proxy can report that their answers are lost.

use crate::boundary::ExchangeId;
use crate::config::HttpTransport;
use crate::wire::message::{self, Id};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as BASE64;
use bytes::Bytes;
use serde_json::value::RawValue;
use std::collections::{BTreeMap, VecDeque};

/// How long a client should wait before it reconnects, in milliseconds.
const RETRY: u32 = 1000;
/// Event ids leave out longer lists of requests, which only batches have.
const LONGEST_LIST: usize = 1024;
/// Replaces such a list.
const UNLISTED: &str = "~";

#[derive(Debug)]
pub(super) struct Streams {
    streams: BTreeMap<u64, Stream>,
    /// The stream of each open request.
    of: BTreeMap<Id, u64>,
    /// The stream for the server's unsolicited messages.
    listener: Option<u64>,
    next: u64,
    /// Distinguishes the events of different machines of one session.
    epoch: u32,
    kept: Kept,
}

#[derive(Debug)]
struct Stream {
    /// The connection that carries it now.
    exchange: Option<ExchangeId>,
    /// The requests that it still has to answer.
    awaited: Vec<Id>,
    listens: bool,
    said: u64,
    log: VecDeque<Event>,
    /// Answers that the proxy no longer keeps, and their places.
    forgotten: Vec<(u64, Id)>,
}

/// An event that was sent on a stream.
#[derive(Debug)]
struct Event {
    at: u64,
    bytes: Bytes,
    /// The request that it answers.
    answers: Option<Id>,
}

/// The kept events of all streams, oldest first.
#[derive(Debug)]
struct Kept {
    order: VecDeque<u64>,
    bytes: usize,
    most: usize,
    most_bytes: usize,
}

/// What to do for a client that lost its connection.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Resumed {
    /// Continue a stream.
    Stream(Rest),
    /// The client has seen everything, and nothing more will come.
    Over,
    /// The stream is gone, and these answers with it.
    Lost(Vec<Lost>),
    /// Not an event of this proxy, or nothing that matters.
    Unknown,
}

/// A lost answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Lost {
    /// The request.
    pub(super) id: Id,
    /// The id of the event that reports the loss.
    pub(super) event: String,
}

/// The part of a stream that a client has missed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Rest {
    pub(super) stream: u64,
    /// The answers that the proxy no longer keeps.
    pub(super) lost: Vec<Lost>,
    /// The kept events, by place.
    pub(super) events: Vec<(u64, Bytes)>,
}

impl Rest {
    /// Whether the event at this place is among them.
    pub(super) fn holds(&self, at: u64) -> bool {
        self.events.iter().any(|(place, _)| *place == at)
    }
}

impl Streams {
    pub(super) fn new(client: &HttpTransport, epoch: u32) -> Self {
        let kept =
            Kept { order: VecDeque::new(), bytes: 0, most: client.replay_events, most_bytes: client.replay_bytes };
        Self { streams: BTreeMap::new(), of: BTreeMap::new(), listener: None, next: 0, epoch, kept }
    }

    /// Opens a stream that answers these requests.
    pub(super) fn open(&mut self, exchange: ExchangeId, awaited: Vec<Id>) -> u64 {
        let stream = self.insert(exchange, awaited.clone(), false);
        self.of.extend(awaited.into_iter().map(|id| (id, stream)));
        stream
    }

    /// Opens a stream for the server's unsolicited messages.
    pub(super) fn listen(&mut self, exchange: ExchangeId) -> u64 {
        let stream = self.insert(exchange, Vec::new(), true);
        self.listener = Some(stream);
        stream
    }

    fn insert(&mut self, exchange: ExchangeId, awaited: Vec<Id>, listens: bool) -> u64 {
        self.next += 1;
        let stream =
            Stream { exchange: Some(exchange), awaited, listens, said: 0, log: VecDeque::new(), forgotten: Vec::new() };
        self.streams.insert(self.next, stream);
        self.next
    }

    /// How many requests wait for an answer.
    pub(super) fn open_requests(&self) -> usize {
        self.of.len()
    }

    /// The stream that has to answer this request.
    pub(super) fn of(&self, id: &Id) -> Option<u64> {
        self.of.get(id).copied()
    }

    pub(super) fn exchange(&self, stream: u64) -> Option<ExchangeId> {
        self.streams.get(&stream)?.exchange
    }

    /// The connection of the listening stream.
    pub(super) fn listening(&self) -> Option<ExchangeId> {
        self.listener.and_then(|stream| self.exchange(stream))
    }

    /// The stream for a message that belongs to no request: the stream of the only
    /// running call, since the message probably belongs to it; else the listening stream;
    /// else the newest connected stream.
    pub(super) fn for_all(&self) -> Option<u64> {
        let mut connected: Vec<u64> =
            self.of.values().copied().filter(|stream| self.exchange(*stream).is_some()).collect();
        connected.sort_unstable();
        connected.dedup();
        match connected.as_slice() {
            [only] => Some(*only),
            [] => self.listener.filter(|_| self.listening().is_some()),
            [.., newest] => self.listener.filter(|_| self.listening().is_some()).or(Some(*newest)),
        }
    }

    /// The answer to this request is about to be sent.
    pub(super) fn settle(&mut self, id: &Id) -> Option<u64> {
        let at = self.of.remove(id)?;
        if let Some(stream) = self.streams.get_mut(&at) {
            stream.awaited.retain(|awaited| awaited != id);
        }
        Some(at)
    }

    /// This request no longer needs an answer, and perhaps its stream is over too.
    pub(super) fn withdraw(&mut self, id: &Id) -> Option<u64> {
        let at = self.settle(id)?;
        self.drop_if_over(at);
        Some(at)
    }

    /// Everything due on this stream has been sent.
    pub(super) fn complete(&self, stream: u64) -> bool {
        self.streams.get(&stream).is_none_or(|stream| !stream.listens && stream.awaited.is_empty())
    }

    /// The place of the last event of a stream.
    pub(super) fn place(&self, at: u64) -> u64 {
        self.streams.get(&at).map_or(0, |stream| stream.said)
    }

    /// Writes a message, perhaps an answer, as an event of a stream, and keeps it.
    pub(super) fn say(&mut self, at: u64, message: Vec<u8>, answers: Option<&Id>) -> Bytes {
        let id = self.id(at);
        let event = event(Some(&*id).filter(|_| self.kept.most > 0), message);
        let event = Bytes::from(event);
        self.keep(at, event.clone(), answers.cloned());
        event
    }

    /// An event without a message, which gives the client an id to reconnect with.
    pub(super) fn prime(&mut self, at: u64) -> Bytes {
        Bytes::from(format!("id: {}\nretry: {RETRY}\ndata: \n\n", self.id(at)))
    }

    fn id(&mut self, at: u64) -> String {
        let Some(stream) = self.streams.get_mut(&at) else { return String::new() };
        stream.said += 1;
        let awaited = Some(&stream.awaited).filter(|_| !stream.listens);
        event_id(self.epoch, at, stream.said, awaited.map(|awaited| awaited.iter()))
    }

    fn keep(&mut self, at: u64, bytes: Bytes, answers: Option<Id>) {
        let Some(stream) = self.streams.get_mut(&at) else { return };
        // No client returns to a stream of which it has seen nothing.
        if stream.exchange.is_none() && stream.said == 1 {
            return self.drop_if_over(at);
        }
        if bytes.len() > self.kept.most_bytes {
            stream.forgotten.extend(answers.map(|id| (stream.said, id)));
            return self.drop_if_over(at);
        }
        self.kept.bytes += bytes.len();
        self.kept.order.push_back(at);
        stream.log.push_back(Event { at: stream.said, bytes, answers });
        while self.kept.order.len() > self.kept.most || self.kept.bytes > self.kept.most_bytes {
            let Some(oldest) = self.kept.order.pop_front() else { return };
            if let Some(stream) = self.streams.get_mut(&oldest)
                && let Some(event) = stream.log.pop_front()
            {
                self.kept.bytes -= event.bytes.len();
                stream.forgotten.extend(event.answers.map(|id| (event.at, id)));
            }
            self.drop_if_over(oldest);
        }
    }

    /// Forgets a stream that has nothing left to send or to replay.
    fn drop_if_over(&mut self, at: u64) {
        let over = |stream: &Stream| stream.exchange.is_none() && stream.awaited.is_empty() && stream.log.is_empty();
        if self.streams.get(&at).is_some_and(over) {
            self.streams.remove(&at);
            self.listener.take_if(|listener| *listener == at);
        }
    }

    /// A stream lost its connection, or no longer needs it.
    pub(super) fn detach(&mut self, at: u64, exchange: ExchangeId) {
        if let Some(stream) = self.streams.get_mut(&at) {
            stream.exchange.take_if(|current| *current == exchange);
        }
        self.drop_if_over(at);
    }

    /// Gives a stream a new connection and returns the old one.
    pub(super) fn attach(&mut self, at: u64, exchange: ExchangeId) -> Option<ExchangeId> {
        let stream = self.streams.get_mut(&at)?;
        if stream.listens {
            self.listener = Some(at);
        }
        stream.exchange.replace(exchange)
    }

    /// The stream and place of the last event that a client has seen, if this machine
    /// sent it.
    pub(super) fn seen(&self, last: &str) -> Option<(u64, u64)> {
        let place = Place::parse(last).filter(|place| place.epoch == self.epoch)?;
        Some((place.stream, place.said))
    }

    /// Resumes after the last event that a client has seen.
    pub(super) fn resume(&self, last: &str) -> Resumed {
        let Some(place) = Place::parse(last) else { return Resumed::Unknown };
        let stream = self.streams.get(&place.stream).filter(|_| place.epoch == self.epoch);
        match (stream, place.awaited) {
            (_, Awaited::These(none)) if none.is_empty() => Resumed::Over,
            (Some(stream), _) => {
                let rest = self.rest(place.stream, stream, place.said);
                let over = rest.lost.is_empty() && rest.events.is_empty() && self.complete(place.stream);
                if over { Resumed::Over } else { Resumed::Stream(rest) }
            }
            (None, Awaited::Anything) => Resumed::Unknown,
            (None, Awaited::Unlisted) => Resumed::Over,
            (None, Awaited::These(ids)) => Resumed::Lost(lost(place.epoch, place.stream, place.said, &ids)),
        }
    }

    /// The rest of a stream after a place.
    fn rest(&self, number: u64, stream: &Stream, from: u64) -> Rest {
        let forgotten = stream.forgotten.iter().filter(|(at, _)| *at > from);
        let lost = forgotten.map(|(at, id)| Lost { id: id.clone(), event: self.lost_id(number, stream, *at) });
        let missed = stream.log.iter().filter(|event| event.at > from);
        let events = missed.map(|event| (event.at, event.bytes.clone()));
        Rest { stream: number, lost: lost.collect(), events: events.collect() }
    }

    /// The id of the event that reports the answer at this place as lost.
    fn lost_id(&self, number: u64, stream: &Stream, at: u64) -> String {
        let forgotten = stream.forgotten.iter().filter(|(other, _)| *other > at).map(|(_, id)| id);
        let kept = stream.log.iter().filter_map(|event| event.answers.as_ref());
        event_id(self.epoch, number, at, Some(forgotten.chain(kept).chain(&stream.awaited)))
    }
}

/// The id of an event: its place, and the requests still to be answered after it.
fn event_id<'a>(epoch: u32, stream: u64, said: u64, awaited: Option<impl Iterator<Item = &'a Id>>) -> String {
    let place = format!("{epoch:08x}-{stream}-{said}");
    let Some(awaited) = awaited else { return place };
    let list = format!("[{}]", awaited.map(Id::text).collect::<Vec<_>>().join(","));
    if list.len() > LONGEST_LIST { format!("{place}-{UNLISTED}") } else { format!("{place}-{}", BASE64.encode(list)) }
}

/// Writes a message as an event.
pub(super) fn event(id: Option<&str>, message: Vec<u8>) -> Vec<u8> {
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

/// A parsed event id.
struct Place {
    epoch: u32,
    stream: u64,
    said: u64,
    awaited: Awaited,
}

/// What was still due on the stream after an event.
enum Awaited {
    /// Unsolicited messages: the stream answers no request.
    Anything,
    /// The answers to more requests than an id can list.
    Unlisted,
    /// The answers to these.
    These(Vec<Id>),
}

impl Place {
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.splitn(4, '-');
        let epoch = u32::from_str_radix(parts.next()?, 16).ok()?;
        let (stream, said) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        let awaited = match parts.next() {
            None => Awaited::Anything,
            Some(UNLISTED) => Awaited::Unlisted,
            Some(list) => Awaited::These(ids(list)?),
        };
        Some(Self { epoch, stream, said, awaited })
    }
}

/// Reports every awaited answer as lost. Do not repeat an event that the client has
/// already read.
fn lost(epoch: u32, stream: u64, said: u64, awaited: &[Id]) -> Vec<Lost> {
    let rest = |from: usize| awaited.iter().skip(from + 1);
    let event = |at| event_id(epoch, stream, said, Some(rest(at)));
    awaited.iter().enumerate().map(|(at, id)| Lost { id: id.clone(), event: event(at) }).collect()
}

fn ids(list: &str) -> Option<Vec<Id>> {
    let list = BASE64.decode(list).ok().filter(|list| list.len() <= LONGEST_LIST)?;
    let ids: Vec<&RawValue> = serde_json::from_slice(&list).ok()?;
    ids.into_iter().map(|id| Id::parse(id.get())).collect()
}
