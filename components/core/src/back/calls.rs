//! The calls under way, and how many bytes they hold in total. All changes to a call go
//! through this table, so that the sums always match the calls. What a call leads to does
//! not belong here.

use super::call::{Call, Limits};
use crate::boundary::CallId;
use crate::index::ByNumber;
use crate::outgoing::Purpose;
use crate::route::RequestKey;
use crate::time::{Deadline, Time};
use crate::timetable::{Timed, Timetable};

#[derive(Debug)]
pub(super) struct Calls {
    table: Timetable<CallId, Call>,
    /// The calls that carry a request.
    by_request: ByNumber<RequestKey, CallId>,
    /// Silence counts from this time, or from a later sign of life.
    touched: Time,
    /// The sum over all calls.
    held: Held,
}

/// Counts for one call, or for all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Held {
    /// Bytes of messages that the proxy may have to send, or send again.
    pub(crate) kept: usize,
    /// Bytes of messages that have not left.
    pub(crate) unsent: usize,
    /// Bytes of unfinished responses.
    pub(super) partial: usize,
    /// Messages without an answer that the server has not accepted yet.
    pub(crate) untaken: usize,
    /// Calls that must finish before the machine may exit.
    pub(crate) busy: usize,
    /// All calls.
    pub(crate) calls: usize,
}

impl Timed for Call {
    type Terms = Limits;

    fn due(&self, limits: &Limits) -> Option<Deadline> {
        self.deadline(limits)
    }
}

impl Calls {
    pub(super) fn new(limits: Limits) -> Self {
        Self { table: Timetable::new(limits), by_request: ByNumber::default(), touched: Time(0), held: Held::default() }
    }

    pub(super) fn limits(&self) -> &Limits {
        self.table.terms()
    }

    pub(super) fn get(&self, id: CallId) -> Option<&Call> {
        self.table.get(id)
    }

    /// The call that carries a request.
    pub(super) fn of(&self, request: RequestKey) -> Option<CallId> {
        self.by_request.get(&request).copied()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (CallId, &Call)> {
        self.table.iter()
    }

    pub(super) fn ids(&self, wanted: impl Fn(&Call) -> bool) -> Vec<CallId> {
        self.iter().filter(|(_, call)| wanted(call)).map(|(id, _)| id).collect()
    }

    /// The sum over all calls.
    pub(super) fn held(&self) -> Held {
        self.held
    }

    pub(super) fn put(&mut self, id: CallId, call: Call) {
        let after = Held::by(&call);
        call.traits().key.map(|key| self.by_request.insert(key, id));
        let old = self.table.insert(id, call);
        self.count(old.as_ref().map(Held::by).unwrap_or_default(), after);
    }

    pub(super) fn take(&mut self, id: CallId) -> Option<Call> {
        let call = self.table.remove(id)?;
        call.traits().key.map(|key| self.by_request.remove(&key));
        self.count(Held::by(&call), Held::default());
        Some(call)
    }

    pub(super) fn change<R>(&mut self, id: CallId, change: impl FnOnce(&mut Call) -> R) -> Option<R> {
        let ((before, request), result, (after, now)) = self.table.change(id, |call| {
            let before = (Held::by(call), call.traits().key);
            let result = change(call);
            (before, result, (Held::by(call), call.traits().key))
        })?;
        request.filter(|_| now.is_none()).map(|request| self.by_request.remove(&request));
        self.count(before, after);
        Some(result)
    }

    /// Restarts the count of silence at `now`, for every call.
    pub(super) fn touch_all(&mut self, now: Time) {
        self.touched = now;
    }

    /// When silence starts to count, unless there was a later sign of life.
    pub(super) fn touched(&self) -> Time {
        self.touched
    }

    /// When to check the first call. The check may find nothing to do.
    pub(super) fn deadline(&self) -> Option<Deadline> {
        self.table.first()
    }

    /// The calls to check at `now`.
    pub(super) fn due(&self, now: Time) -> Vec<CallId> {
        self.table.due(now)
    }

    fn count(&mut self, before: Held, after: Held) {
        self.held = Held {
            kept: self.held.kept - before.kept + after.kept,
            unsent: self.held.unsent - before.unsent + after.unsent,
            partial: self.held.partial - before.partial + after.partial,
            untaken: self.held.untaken - before.untaken + after.untaken,
            busy: self.held.busy - before.busy + after.busy,
            calls: self.held.calls - before.calls + after.calls,
        };
    }
}

impl Held {
    fn by(call: &Call) -> Self {
        let untaken = usize::from(matches!(call.purpose, Some(Purpose::Notification | Purpose::Answer)));
        let busy = usize::from(call.traits().busy);
        Self { kept: call.outgoing.body.len(), unsent: call.unsent(), partial: call.partial(), untaken, busy, calls: 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::super::call::State;
    use super::*;
    use crate::config::Config;
    use crate::outgoing::Outgoing;
    use crate::rng::Rng;
    use std::ops::Add;

    impl Add for Held {
        type Output = Self;

        fn add(self, other: Self) -> Self {
            let Self { kept, unsent, partial, untaken, busy, calls } = self;
            Self {
                busy: busy + other.busy,
                calls: calls + other.calls,
                kept: kept + other.kept,
                unsent: unsent + other.unsent,
                partial: partial + other.partial,
                untaken: untaken + other.untaken,
            }
        }
    }

    fn call(rng: &mut Rng) -> Call {
        let body = vec![0; usize::try_from(rng.below(9)).unwrap()];
        let url = "http://h/".parse().unwrap();
        Call::new(Time(0), Outgoing::new(Purpose::Notification, body), url)
    }

    #[test]
    fn the_sums_are_those_of_all_calls_whatever_happens_to_them() {
        let limits = Limits::new(&Config::new("http://h/").unwrap());
        let (mut calls, mut rng, mut last) = (Calls::new(limits), Rng::new(1), 0_u64);
        for _ in 0..10_000 {
            let id = CallId(last.saturating_sub(rng.below(8)));
            match rng.below(5) {
                0 => {
                    last += 1;
                    calls.put(CallId(last), call(&mut rng));
                }
                1 => calls.put(id, call(&mut rng)),
                2 => drop(calls.take(id)),
                3 => drop(calls.change(id, |call| call.uploaded += 1)),
                _ => drop(calls.change(id, |call| call.state = State::AwaitBody(http::StatusCode::OK, vec![0; 5]))),
            }
            let all = calls.iter().map(|(_, call)| Held::by(call)).fold(Held::default(), Add::add);
            assert_eq!(calls.held(), all);
        }
        assert!(calls.held().calls > 5 && calls.held().partial > 0 && calls.held().unsent > 0);
    }
}
