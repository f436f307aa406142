//! When a lost session is opened again although nobody needs it just now: an idle
//! client hears what the server says only in a session. Sessions that keep being
//! lost make the wait grow, and at last one waits for a request.

use crate::backoff;
use crate::rng::Rng;
use crate::time::Time;
use std::time::Duration;

/// A session that lasted this long was no failure.
const LASTING: Duration = Duration::from_secs(60);
/// After so many brief sessions in a row the next one waits for a request.
const MOST: u32 = 6;

/// The sessions with one server.
#[derive(Debug, Default)]
pub(crate) struct Reopenings {
    /// When the stream of the last one opened, and how many in a row did not last.
    opened: Time,
    brief: u32,
    /// How long the last one asked us to stay away.
    hint: Option<Duration>,
}

impl Reopenings {
    /// The server can be heard.
    pub(super) fn opened(&mut self, now: Time) {
        self.opened = now;
    }

    /// The session is lost.
    pub(super) fn lost(&mut self, now: Time, hint: Option<Duration>) {
        if now.since(self.opened) >= LASTING {
            self.brief = 0;
        }
        self.hint = hint;
    }

    /// How long to wait before the next one; `None`: until it is needed.
    pub(super) fn next(&mut self, rng: &mut Rng) -> Option<Duration> {
        let tries = self.brief;
        self.brief = tries.saturating_add(1);
        (tries < MOST).then(|| backoff::reconnect(tries, tries, self.hint, rng))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brief_sessions_are_opened_again_a_few_times_and_lasting_ones_always() {
        let (mut rng, mut reopenings) = (Rng::new(1), Reopenings::default());
        let mut lose = |at: u64| {
            reopenings.lost(Time(at), None);
            reopenings.next(&mut rng)
        };
        let waits: Vec<_> = (0..8).map(|tries| lose(tries).is_some()).collect();
        assert_eq!(waits, [true, true, true, true, true, true, false, false]);
        assert!(lose(60_000).is_some());
    }
}
