//! Keep-alive: when to ping an idle server. The proxy does not know the idle timeouts on
//! the way, so it learns them from the streams that break. How to ping does not belong
//! here.

use crate::config::KeepAlive;
use crate::time::{Deadline, Time, Why};
use std::time::Duration;

/// A stream that ended after less silence was not cut for being idle.
const SHORTEST_CUT: Duration = Duration::from_secs(5);
/// Minimum interval between pings, unless the user sets a shorter one.
const SHORTEST_PAUSE: Duration = Duration::from_secs(10);

/// The server's silence, and how much of it the proxy tolerates.
#[derive(Debug)]
pub(crate) struct Liveness {
    mode: KeepAlive,
    /// The shortest silence after which a stream was cut.
    cut: Option<Duration>,
    /// When the server last showed a sign of life, or the proxy last pinged it.
    last: Time,
    /// Since when the server may be unreachable.
    doubt: Option<Time>,
}

impl Liveness {
    pub(super) fn new(mode: KeepAlive, now: Time) -> Self {
        Self { mode, cut: None, last: now, doubt: None }
    }

    /// The server showed a sign of life, or the proxy has just pinged it.
    pub(super) fn beat(&mut self, now: Time) {
        (self.last, self.doubt) = (now, None);
    }

    /// The server may have become unreachable without notice.
    pub(super) fn doubt(&mut self, now: Time) {
        self.doubt = Some(now);
    }

    /// A stream ended after being silent since `heard`.
    pub(super) fn cut(&mut self, now: Time, heard: Time) {
        let silence = now.since(heard);
        if silence >= SHORTEST_CUT {
            self.cut = Some(self.cut.map_or(silence, |cut| cut.min(silence)));
        }
    }

    /// When to ping the server.
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
