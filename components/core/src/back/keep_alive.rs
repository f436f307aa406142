//! Keep-alive: when an idle server is asked for a sign of life. What cuts idle
//! streams on the way is not known beforehand, so it is learnt from the cuts.
//! How the server is asked must not enter.

use super::classify::SendMode;
use super::http::HttpBack;
use crate::config::KeepAlive;
use crate::outgoing::Purpose;
use crate::route::RequestKey;
use crate::time::{Deadline, Time, Why};
use std::time::Duration;

/// A stream that ended after less silence was not cut for it.
const SHORTEST_CUT: Duration = Duration::from_secs(5);
/// The server is not asked more often than this, unless the user wants it.
const SHORTEST_PAUSE: Duration = Duration::from_secs(10);

/// The silence of a server, and how much of it is borne.
#[derive(Debug)]
pub(crate) struct Liveness {
    mode: KeepAlive,
    /// The shortest silence after which a stream was cut.
    cut: Option<Duration>,
    /// When the server was last heard, or asked.
    last: Time,
    /// Since when it is doubtful that the server can be heard at all.
    doubt: Option<Time>,
}

impl Liveness {
    pub(super) fn new(mode: KeepAlive, now: Time) -> Self {
        Self { mode, cut: None, last: now, doubt: None }
    }

    /// The server was heard, or has just been asked.
    pub(super) fn beat(&mut self, now: Time) {
        (self.last, self.doubt) = (now, None);
    }

    /// The server may have become unreachable without a word.
    pub(super) fn doubt(&mut self, now: Time) {
        self.doubt = Some(now);
    }

    /// A stream ended that had been silent since `heard`.
    pub(super) fn cut(&mut self, now: Time, heard: Time) {
        let silence = now.since(heard);
        if silence >= SHORTEST_CUT {
            self.cut = Some(self.cut.map_or(silence, |cut| cut.min(silence)));
        }
    }

    /// When the server is to be asked.
    pub(super) fn deadline(&self) -> Option<Deadline> {
        let regular = match self.mode {
            KeepAlive::Off => return None,
            KeepAlive::Every(silence) => Some(silence),
            KeepAlive::Auto => self.cut.map(|cut| (cut * 2 / 3).max(SHORTEST_PAUSE)),
        };
        let at = self.doubt.or(regular.map(|silence| self.last.after(silence)))?;
        Some(Deadline { at, why: Why::KeepAlive })
    }
}

/// Signs of life, of calls and of the server.
impl HttpBack {
    /// The server's silence counts from here: about one request, since a sign of
    /// life came by another mode, or about all, since it was not the server's fault.
    pub(crate) fn touch(&mut self, now: Time, request: Option<RequestKey>) {
        match request.map(|request| self.calls.of(request)) {
            None => self.calls.touch_all(now),
            Some(None) => {}
            Some(Some(id)) => drop(self.calls.change(id, |call| call.touch(now))),
        }
    }

    /// Time has passed in which nothing could be heard or said: nobody is to
    /// blame for the silence, and streams may be dead without knowing it.
    pub(crate) fn woke(&mut self, now: Time) {
        self.touch(now, None);
        self.liveness.doubt(now);
        for id in self.ids(|call| call.purpose == Some(Purpose::Listen) && !call.waiting()) {
            if let Some(call) = self.take(id) {
                self.drop_exchange(id, &call);
                self.start(now, call, SendMode::Stream);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(liveness: &Liveness) -> Option<u64> {
        liveness.deadline().map(|deadline| deadline.at.0)
    }

    #[test]
    fn an_observed_cut_sets_a_pulse_well_below_it() {
        let mut liveness = Liveness::new(KeepAlive::Auto, Time(0));
        assert_eq!(at(&liveness), None);
        liveness.cut(Time(4_000), Time(0));
        assert_eq!(at(&liveness), None);
        liveness.cut(Time(60_000), Time(0));
        assert_eq!(at(&liveness), Some(40_000));
        liveness.beat(Time(60_000));
        liveness.cut(Time(400_000), Time(0));
        assert_eq!(at(&liveness), Some(100_000));
        liveness.cut(Time(66_000), Time(60_000));
        assert_eq!(at(&liveness), Some(70_000));
    }

    #[test]
    fn a_fixed_pulse_learns_nothing_and_none_is_none() {
        let mut fixed = Liveness::new(KeepAlive::Every(Duration::from_secs(5)), Time(1_000));
        fixed.cut(Time(60_000), Time(0));
        assert_eq!(at(&fixed), Some(6_000));
        let mut off = Liveness::new(KeepAlive::Off, Time(0));
        off.cut(Time(60_000), Time(0));
        off.doubt(Time(60_000));
        assert_eq!(at(&off), None);
    }

    #[test]
    fn a_doubt_is_cleared_up_at_once_and_once() {
        let mut liveness = Liveness::new(KeepAlive::Auto, Time(0));
        liveness.doubt(Time(90_000));
        assert_eq!(at(&liveness), Some(90_000));
        liveness.beat(Time(90_000));
        assert_eq!(at(&liveness), None);
    }
}
