//! The streams toward the client: what is due on each, and which response carries it. A
//! stream outlives its response: the proxy keeps it, within limits, until a client that
//! lost the connection asks for the rest. Which stream a message belongs to, and who may
//! return, does not belong here.

use super::Exchange;
use super::event::{self, Place, StreamId};
use super::kept::{Event, Kept};
use super::responses::{Await, Responses};
use crate::boundary::ExchangeId;
use crate::config::HttpTransport;
use crate::time::{Time, Why};
use crate::wire::message::Id;
use bytes::Bytes;
use http::response::Parts;
use std::collections::{BTreeMap, BTreeSet};

/// A sign of life on an idle stream.
const COMMENT: Bytes = Bytes::from_static(b": keepalive\n\n");

#[derive(Debug)]
pub(super) struct Streams {
    /// A response carries a stream exactly if the stream has its exchange. Others may add
    /// responses without a stream.
    pub(super) responses: Responses,
    streams: BTreeMap<StreamId, Stream>,
    /// The stream of each open request.
    of: BTreeMap<Id, StreamId>,
    /// The connected streams that have a request to answer.
    answering: BTreeSet<StreamId>,
    newest: StreamId,
    /// Distinguishes the events of different machines of one session.
    epoch: u32,
    kept: Kept,
}

#[derive(Debug)]
struct Stream {
    /// The response that carries it now.
    exchange: Option<ExchangeId>,
    due: Due,
    event_ids: EventIds,
    /// The place of its last event.
    place: u64,
    /// How many of its events are kept.
    kept: usize,
    /// Answers that the proxy no longer keeps, and their places.
    forgotten: Vec<(u64, Id)>,
}

/// What a stream still has to carry.
#[derive(Debug)]
pub(super) enum Due {
    /// The answers to these requests.
    Answers(Vec<Id>),
    /// Messages that answer no request; it has no end.
    Anything,
}

/// Whether a client can return to a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EventIds {
    None,
    /// Every message has an id.
    Sent,
    /// The stream also begins with an id, in an event without a message.
    Primed,
}

impl Streams {
    pub(super) fn new(client: &HttpTransport, epoch: u32) -> Self {
        Self {
            responses: Responses::new(client),
            streams: BTreeMap::new(),
            of: BTreeMap::new(),
            answering: BTreeSet::new(),
            newest: StreamId(0),
            epoch,
            kept: Kept::new(client),
        }
    }

    /// Opens a stream whose response may wait for its only answer.
    pub(super) fn hold(&mut self, exchange: Exchange<'_>, due: Due, event_ids: EventIds) -> StreamId {
        let at = self.insert(exchange.id, due, event_ids);
        self.responses.add(exchange.now, exchange.id, Await::Answer(at));
        at
    }

    /// Opens a stream and begins its response.
    pub(super) fn open(&mut self, exchange: Exchange<'_>, due: Due, event_ids: EventIds) -> StreamId {
        let at = self.insert(exchange.id, due, event_ids);
        self.responses.add(exchange.now, exchange.id, Await::Events(at));
        self.send_first(exchange.now, exchange.id, at);
        at
    }

    fn insert(&mut self, exchange: ExchangeId, due: Due, event_ids: EventIds) -> StreamId {
        self.newest = StreamId(self.newest.0 + 1);
        if let Due::Answers(ids) = &due {
            self.of.extend(ids.iter().map(|id| (id.clone(), self.newest)));
            self.answering.insert(self.newest);
        }
        let stream = Stream { exchange: Some(exchange), due, event_ids, place: 0, kept: 0, forgotten: Vec::new() };
        self.streams.insert(self.newest, stream);
        self.newest
    }

    /// How many requests wait for an answer.
    pub(super) fn open_requests(&self) -> usize {
        self.of.len()
    }

    /// The stream that has to answer this request.
    pub(super) fn of(&self, id: &Id) -> Option<StreamId> {
        self.of.get(id).copied()
    }

    /// The connected streams that have a request to answer, oldest first.
    pub(super) fn answering(&self) -> &BTreeSet<StreamId> {
        &self.answering
    }

    /// The response that carries a stream.
    pub(super) fn exchange(&self, at: StreamId) -> Option<ExchangeId> {
        self.streams.get(&at)?.exchange
    }

    /// Whether a stream can carry more, now or once a client returns to it.
    pub(super) fn is_known(&self, at: StreamId) -> bool {
        self.streams.contains_key(&at)
    }

    /// Whether a stream carries messages that answer no request.
    pub(super) fn is_endless(&self, at: StreamId) -> bool {
        self.streams.get(&at).is_some_and(|stream| matches!(stream.due, Due::Anything))
    }

    /// Everything due on a stream has been sent.
    pub(super) fn is_complete(&self, at: StreamId) -> bool {
        self.streams.get(&at).is_none_or(|stream| stream.due.is_sent())
    }

    /// The server has admitted this request.
    pub(super) fn admitted(&mut self, id: &Id) {
        if let Some(exchange) = self.of(id).and_then(|at| self.exchange(at)) {
            self.responses.admitted(exchange);
        }
    }

    /// Sends the answer to a request, with this head if the response has not begun.
    /// Returns its stream if it has no response after that.
    pub(super) fn answer(&mut self, now: Time, id: &Id, parts: Parts, message: Vec<u8>) -> Option<StreamId> {
        let at = self.close(id)?;
        if let Some(exchange) = self.exchange(at).filter(|exchange| self.responses.is_held(*exchange)) {
            let carried = self.responses.answer(now, exchange, parts, Bytes::from(message));
            return self.disconnect(carried, exchange);
        }
        self.send(now, at, message, Some(id));
        let exchange = self.exchange(at).filter(|_| self.is_complete(at))?;
        self.finish(now, exchange)
    }

    /// A request needs no answer. The client sees that its stream is complete without one.
    /// Returns its stream if it has no response after that.
    pub(super) fn cancel(&mut self, now: Time, id: &Id) -> Option<StreamId> {
        let at = self.close(id)?;
        self.drop_if_over(at);
        let exchange = self.exchange(at).filter(|_| self.is_complete(at))?;
        if !self.release(now, exchange) && self.is_primed(at) {
            self.send_first(now, exchange, at);
        }
        self.finish(now, exchange)
    }

    /// Takes a request from those that its stream has to answer.
    fn close(&mut self, id: &Id) -> Option<StreamId> {
        let at = self.of.remove(id)?;
        if let Some(Stream { due: Due::Answers(ids), .. }) = self.streams.get_mut(&at) {
            ids.retain(|awaited| awaited != id);
            if ids.is_empty() {
                self.answering.remove(&at);
            }
        }
        Some(at)
    }

    /// Sends a message that is not an answer. Returns its place.
    pub(super) fn say(&mut self, now: Time, at: StreamId, message: Vec<u8>) -> u64 {
        self.send(now, at, message, None);
        self.streams.get(&at).map_or(0, |stream| stream.place)
    }

    fn send(&mut self, now: Time, at: StreamId, message: Vec<u8>, answers: Option<&Id>) {
        let exchange = self.exchange(at);
        exchange.map(|exchange| self.release(now, exchange));
        let Some((place, id)) = self.next_id(at) else { return };
        let bytes = Bytes::from(event::write(id.as_deref(), message));
        if let Some(exchange) = exchange {
            self.responses.send(now, exchange, bytes.clone());
        }
        self.keep(Event { stream: at, place, bytes, answers: answers.cloned() });
    }

    /// Begins the stream of a response that waits for its answer. Returns `false` if it
    /// does not wait.
    fn release(&mut self, now: Time, exchange: ExchangeId) -> bool {
        let stream = self.responses.release(exchange);
        stream.map(|at| self.send_first(now, exchange, at)).is_some()
    }

    /// Sends an id to return with, or a sign of life.
    fn send_first(&mut self, now: Time, exchange: ExchangeId, at: StreamId) {
        let id = if self.is_primed(at) { self.next_id(at).and_then(|(_, id)| id) } else { None };
        self.responses.send(now, exchange, id.map_or(COMMENT, |id| event::write_priming(&id)));
    }

    fn is_primed(&self, at: StreamId) -> bool {
        self.streams.get(&at).is_some_and(|stream| stream.event_ids == EventIds::Primed)
    }

    /// The place of the next event of a stream, and its id.
    fn next_id(&mut self, at: StreamId) -> Option<(u64, Option<String>)> {
        let stream = self.streams.get_mut(&at)?;
        stream.place += 1;
        let place = Place { epoch: self.epoch, stream: at, number: stream.place };
        let id = || event::write_id(place, stream.due.answers());
        Some((stream.place, (stream.event_ids != EventIds::None).then(id)))
    }

    fn keep(&mut self, event: Event) {
        let Some(stream) = self.streams.get_mut(&event.stream) else { return };
        // No client returns without an id, or to a stream of which it has seen nothing.
        if stream.event_ids == EventIds::None || (stream.exchange.is_none() && stream.place == 1) {
            return self.drop_if_over(event.stream);
        }
        stream.kept += 1;
        if !self.kept.fits(&event) {
            return self.forget(event);
        }
        self.kept.push(event);
        while let Some(event) = self.kept.pop_excess() {
            self.forget(event);
        }
    }

    /// The proxy no longer keeps this event.
    fn forget(&mut self, event: Event) {
        if let Some(stream) = self.streams.get_mut(&event.stream) {
            stream.kept -= 1;
            stream.forgotten.extend(event.answers.map(|id| (event.place, id)));
        }
        self.drop_if_over(event.stream);
    }

    /// Forgets a stream that has nothing left to send or to replay.
    fn drop_if_over(&mut self, at: StreamId) {
        let over = |stream: &Stream| stream.exchange.is_none() && stream.kept == 0 && !stream.due.is_owed();
        if self.streams.get(&at).is_some_and(over) {
            self.streams.remove(&at);
        }
    }

    /// Whether this machine wrote the event.
    pub(super) fn is_ours(&self, place: Place) -> bool {
        place.epoch == self.epoch
    }

    /// The events after this one on its stream, with their places: first the reports of
    /// answers that the proxy no longer keeps, then the kept events. `None` if the proxy
    /// does not know the stream.
    pub(super) fn missed(&self, last: Place) -> Option<Vec<(u64, Bytes)>> {
        let stream = self.streams.get(&last.stream).filter(|_| self.is_ours(last))?;
        let kept = || self.kept.of(last.stream);
        let lost = |number: u64, id: &Id| {
            let forgotten = stream.forgotten.iter().filter(|(other, _)| *other > number).map(|(_, id)| id);
            let later = forgotten.chain(kept().filter_map(|event| event.answers.as_ref()));
            let awaited = later.chain(stream.due.answers().into_iter().flatten());
            Bytes::from(event::write_lost(&event::write_id(Place { number, ..last }, Some(awaited)), id))
        };
        let forgotten = stream.forgotten.iter().filter(|(place, _)| *place > last.number);
        let events = kept().filter(|event| event.place > last.number);
        let lost = forgotten.map(|(place, id)| (*place, lost(*place, id)));
        Some(lost.chain(events.map(|event| (event.place, event.bytes.clone()))).collect())
    }

    /// Carries a stream on with a new response. Returns the old one.
    pub(super) fn attach(&mut self, at: StreamId, exchange: ExchangeId) -> Option<ExchangeId> {
        let stream = self.streams.get_mut(&at)?;
        if stream.due.is_owed() {
            self.answering.insert(at);
        }
        stream.exchange.replace(exchange)
    }

    /// Begins the response of a stream that goes on, with the events that a client missed.
    pub(super) fn resume(&mut self, exchange: Exchange<'_>, at: StreamId, missed: Vec<(u64, Bytes)>) {
        self.responses.add(exchange.now, exchange.id, Await::Events(at));
        missed.into_iter().for_each(|(_, event)| self.responses.send(exchange.now, exchange.id, event));
    }

    /// Sends a sign of life on a response that carries nothing yet.
    pub(super) fn greet(&mut self, now: Time, exchange: ExchangeId) {
        if self.responses.is_read(exchange) {
            self.responses.send(now, exchange, COMMENT);
        }
    }

    /// Ends a response. Returns the stream that has none after that.
    pub(super) fn finish(&mut self, now: Time, exchange: ExchangeId) -> Option<StreamId> {
        self.release(now, exchange);
        let carried = self.responses.finish(exchange);
        self.disconnect(carried, exchange)
    }

    /// Aborts a response. Returns the stream that has none after that.
    pub(super) fn abort(&mut self, now: Time, exchange: ExchangeId) -> Option<StreamId> {
        self.release(now, exchange);
        let carried = self.responses.abort(exchange);
        self.disconnect(carried, exchange)
    }

    /// The client stopped reading a response. Returns the stream that has none after that.
    pub(super) fn gone(&mut self, exchange: ExchangeId) -> Option<StreamId> {
        let carried = self.responses.forget(exchange);
        self.disconnect(carried, exchange)
    }

    fn disconnect(&mut self, carried: Option<StreamId>, exchange: ExchangeId) -> Option<StreamId> {
        let at = carried?;
        if let Some(stream) = self.streams.get_mut(&at) {
            stream.exchange.take_if(|current| *current == exchange);
            if stream.exchange.is_some() {
                return None;
            }
        }
        self.answering.remove(&at);
        self.drop_if_over(at);
        Some(at)
    }

    /// Begins, aborts or keeps alive the responses that are due. Returns the streams that
    /// have none after that.
    pub(super) fn tick(&mut self, now: Time) -> Vec<StreamId> {
        let mut left = Vec::new();
        for (exchange, why) in self.responses.due(now) {
            if why != Why::Heartbeat {
                left.extend(self.abort(now, exchange));
            } else if !self.release(now, exchange) {
                self.responses.send(now, exchange, COMMENT);
            }
        }
        left
    }
}

impl Due {
    /// The requests to answer, if that is what the stream is for.
    fn answers(&self) -> Option<impl Iterator<Item = &Id>> {
        match self {
            Self::Answers(ids) => Some(ids.iter()),
            Self::Anything => None,
        }
    }

    /// A request waits for its answer.
    fn is_owed(&self) -> bool {
        matches!(self, Self::Answers(ids) if !ids.is_empty())
    }

    /// Nothing is left to send.
    fn is_sent(&self) -> bool {
        matches!(self, Self::Answers(ids) if ids.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::front::http::responses::head;
    use crate::rng::Rng;
    use http::{HeaderMap, HeaderValue, Method, StatusCode};

    /// Does something to one of the streams, or opens another.
    fn step(streams: &mut Streams, rng: &mut Rng, number: u64, now: Time) {
        let headers = HeaderMap::new();
        let exchange = Exchange { now, id: ExchangeId(number), method: &Method::POST, headers: &headers };
        let (id, at) = (Id::parse(&rng.below(number).to_string()).unwrap(), StreamId(rng.below(streams.newest.0 + 1)));
        let ids = || Due::Answers(vec![Id::parse(&number.to_string()).unwrap()]);
        match rng.below(9) {
            0 => drop(streams.hold(exchange, ids(), EventIds::Sent)),
            1 => drop(streams.open(exchange, ids(), EventIds::Primed)),
            2 => drop(streams.open(exchange, Due::Anything, EventIds::Sent)),
            3 => drop(streams.answer(now, &id, head(StatusCode::OK, None), vec![b'x'; 20])),
            4 => drop(streams.cancel(now, &id)),
            5 => drop(streams.say(now, at, vec![b'x'; 20])),
            6 => drop(streams.gone(ExchangeId(rng.below(number)))),
            7 => drop(streams.tick(now)),
            _ if streams.streams.contains_key(&at) => {
                let old = streams.attach(at, exchange.id);
                old.and_then(|old| streams.abort(now, old));
                streams.resume(exchange, at, Vec::new());
            }
            _ => {}
        }
    }

    #[test]
    fn what_is_remembered_of_a_stream_agrees_with_the_stream() {
        let client = HttpTransport { replay_events: 8, ..HttpTransport::new(HeaderValue::from_static("s")) };
        let (mut streams, mut rng) = (Streams::new(&client, 7), Rng::new(1));
        let mut most = 0;
        for number in 1..5_000 {
            step(&mut streams, &mut rng, number, Time(number * 100));
            let answering = |stream: &Stream| stream.exchange.is_some() && stream.due.is_owed();
            let live = |stream: &Stream| stream.exchange.is_none_or(|id| streams.responses.is_live(id));
            for (at, stream) in &streams.streams {
                assert_eq!(streams.answering.contains(at), answering(stream), "{number} {stream:?}");
                assert_eq!(streams.kept.of(*at).count(), stream.kept, "{number} {stream:?}");
                assert!(live(stream), "{number} {stream:?}");
            }
            assert!(streams.answering.iter().chain(streams.of.values()).all(|at| streams.streams.contains_key(at)));
            most = most.max(streams.answering.len());
        }
        assert!(most > 5, "{most}");
    }
}
