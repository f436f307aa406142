//! The calls under way, and how many bytes they hold together. A call is changed
//! only through here, so that the sums fit the calls at any time. What a call
//! leads to must not enter.

use super::call::{Call, Limits};
use crate::boundary::CallId;
use crate::parcel::Errand;
use crate::time::{Deadline, earlier};
use crate::timetable::{Timed, Timetable};

#[derive(Debug)]
pub(super) struct Calls {
    table: Timetable<CallId, Call>,
    /// The sum over all.
    held: Held,
}

/// Bytes of one call, or of all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Held {
    /// Of parcels that may have to be sent, or sent again.
    pub(super) kept: usize,
    /// Of parcels that have not left.
    pub(super) unsent: usize,
    /// Of responses that are not finished.
    pub(super) partial: usize,
    /// Not bytes, but how many messages that want no answer were not taken.
    pub(super) untaken: usize,
}

impl Timed for Call {
    type Terms = Limits;

    fn due(&self, limits: &Limits) -> Option<Deadline> {
        self.deadline(limits, false)
    }
}

impl Calls {
    pub(super) fn new(limits: Limits) -> Self {
        Self { table: Timetable::new(limits), held: Held::default() }
    }

    pub(super) fn limits(&self) -> &Limits {
        self.table.terms()
    }

    pub(super) fn get(&self, id: CallId) -> Option<&Call> {
        self.table.get(id)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (CallId, &Call)> {
        self.table.iter()
    }

    pub(super) fn ids(&self, wanted: impl Fn(&Call) -> bool) -> Vec<CallId> {
        self.iter().filter(|(_, call)| wanted(call)).map(|(id, _)| id).collect()
    }

    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    /// Bytes of all calls.
    pub(super) fn held(&self) -> Held {
        self.held
    }

    pub(super) fn put(&mut self, id: CallId, call: Call) {
        let after = Held::by(&call);
        let old = self.table.insert(id, call);
        self.count(old.as_ref().map(Held::by).unwrap_or_default(), after);
    }

    pub(super) fn take(&mut self, id: CallId) -> Option<Call> {
        let call = self.table.remove(id)?;
        self.count(Held::by(&call), Held::default());
        Some(call)
    }

    pub(super) fn change<R>(&mut self, id: CallId, change: impl FnOnce(&mut Call) -> R) -> Option<R> {
        let (before, result, after) = self.table.change(id, |call| {
            let before = Held::by(call);
            let result = change(call);
            (before, result, Held::by(call))
        })?;
        self.count(before, after);
        Some(result)
    }

    pub(super) fn change_all(&mut self, change: impl Fn(&mut Call)) {
        for id in self.ids(|_| true) {
            self.change(id, &change);
        }
    }

    /// When the first call is to be looked at. `paused` as for [`Call::limit`].
    pub(super) fn deadline(&self, paused: bool) -> Option<Deadline> {
        if paused {
            let all = self.iter().map(|(_, call)| call.deadline(self.limits(), paused));
            return all.fold(None, earlier);
        }
        self.table.first()
    }

    fn count(&mut self, before: Held, after: Held) {
        self.held = Held {
            kept: self.held.kept - before.kept + after.kept,
            unsent: self.held.unsent - before.unsent + after.unsent,
            partial: self.held.partial - before.partial + after.partial,
            untaken: self.held.untaken - before.untaken + after.untaken,
        };
    }
}

impl Held {
    fn by(call: &Call) -> Self {
        let untaken = usize::from(matches!(call.errand(), Errand::Notification | Errand::Answer));
        Self { kept: call.parcel.body.len(), unsent: call.unsent(), partial: call.partial(), untaken }
    }
}

#[cfg(test)]
mod tests {
    use super::super::call::State;
    use super::*;
    use crate::config::Config;
    use crate::era::legacy::Session;
    use crate::parcel::Parcel;
    use crate::rng::Rng;
    use crate::time::Time;
    use std::ops::Add;

    impl Add for Held {
        type Output = Self;

        fn add(self, other: Self) -> Self {
            let Self { kept, unsent, partial, untaken } = self;
            Self {
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
        Call::new(Time(0), Parcel::new(Errand::Notification, body), url, Session::default())
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
        assert!(calls.len() > 5 && calls.held().partial > 0 && calls.held().unsent > 0);
    }
}
