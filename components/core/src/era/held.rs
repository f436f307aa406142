//! Messages that wait for a session, in sending order. The sums over them always match the
//! messages. Why they wait does not belong here.

use crate::index::ByNumber;
use crate::outgoing::Outgoing;
use crate::route::RequestKey;
use crate::time::{Deadline, Time};
use crate::timetable::Timetable;
use std::collections::BTreeSet;
use std::time::Duration;

/// The messages by place. New ones join at either end.
#[derive(Debug)]
pub(super) struct Held {
    messages: Timetable<i64, Outgoing>,
    /// The occupied places, in order.
    places: BTreeSet<i64>,
    by_request: ByNumber<RequestKey, i64>,
    bytes: usize,
}

impl Held {
    pub(super) fn new(limit: Option<Duration>) -> Self {
        Self { messages: Timetable::new(limit), places: BTreeSet::new(), by_request: ByNumber::default(), bytes: 0 }
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn count(&self) -> usize {
        self.places.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count() == 0
    }

    /// When the first held request times out.
    pub(super) fn deadline(&self) -> Option<Deadline> {
        self.messages.first()
    }

    pub(super) fn push_back(&mut self, outgoing: Outgoing) {
        let place = self.places.last().map_or(0, |last| last + 1);
        self.insert(place, outgoing);
    }

    pub(super) fn push_front(&mut self, outgoing: Outgoing) {
        let place = self.places.first().map_or(0, |first| first - 1);
        self.insert(place, outgoing);
    }

    pub(super) fn pop_front(&mut self) -> Option<Outgoing> {
        self.places.first().copied().and_then(|place| self.remove(place))
    }

    /// Removes a request out of turn.
    pub(super) fn withdraw(&mut self, request: RequestKey) -> Option<Outgoing> {
        self.by_request.get(&request).copied().and_then(|place| self.remove(place))
    }

    /// Removes the requests that have timed out.
    pub(super) fn overdue(&mut self, now: Time) -> Vec<Outgoing> {
        self.messages.due(now).into_iter().filter_map(|place| self.remove(place)).collect()
    }

    pub(super) fn take_all(&mut self) -> Vec<Outgoing> {
        std::iter::from_fn(|| self.pop_front()).collect()
    }

    fn insert(&mut self, place: i64, outgoing: Outgoing) {
        self.bytes += outgoing.body.len();
        outgoing.purpose.traits().key.map(|request| self.by_request.insert(request, place));
        self.places.insert(place);
        self.messages.insert(place, outgoing);
    }

    fn remove(&mut self, place: i64) -> Option<Outgoing> {
        let outgoing = self.messages.remove(place)?;
        self.places.remove(&place);
        self.bytes -= outgoing.body.len();
        outgoing.purpose.traits().key.map(|request| self.by_request.remove(&request));
        Some(outgoing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outgoing::Purpose;
    use crate::route::{Asked, Route};
    use crate::wire::message::Id;

    #[test]
    fn messages_go_in_order_and_requests_can_be_withdrawn() {
        let (mut held, mut route) = (Held::new(Some(Duration::from_secs(1))), Route::default());
        let mut request = |name: &str, since| {
            let key = route.open(&Id::named(name), None, Asked::Plain).unwrap();
            let outgoing = Outgoing::new(Purpose::Request { key, repeatable: false }, name.to_owned());
            (key, Outgoing { since: Some(Time(since)), ..outgoing })
        };
        let [(_, first), (second, withdrawn), (_, late)] = [request("b", 5), request("cc", 3), request("ddd", 9)];
        held.push_back(first);
        held.push_back(withdrawn);
        held.push_back(late);
        held.push_front(Outgoing::new(Purpose::Notification, "a"));
        assert_eq!((held.bytes(), held.count()), (7, 4));
        assert_eq!(held.deadline().map(|deadline| deadline.at), Some(Time(1003)));
        assert_eq!(held.withdraw(second).unwrap().body, "cc");
        assert!(held.withdraw(second).is_none());
        assert_eq!(held.overdue(Time(1005)).len(), 1);
        let rest: Vec<_> = held.take_all().into_iter().map(|outgoing| outgoing.body).collect();
        assert_eq!((rest, held.bytes(), held.is_empty()), (vec!["a".into(), "ddd".into()], 0, true));
    }
}
