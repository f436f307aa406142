//! When to reopen a lost session before a message needs it: an idle client receives the
//! server's messages only in a session. The wait grows with each session that breaks
//! soon; after several, the proxy waits for a request.

use crate::backoff;
use crate::rng::Rng;
use crate::time::Time;
use std::time::Duration;

/// A session that lasted this long counts as a success.
const LASTING: Duration = Duration::from_secs(60);
/// After this many brief sessions in a row, the next one waits for a request.
const MOST: u32 = 6;

#[derive(Debug, Default)]
pub(crate) struct Reopenings {
    /// When the last session's stream opened, and how many sessions in a row were brief.
    opened: Time,
    brief: u32,
    /// How long the server last asked the proxy to wait.
    hint: Option<Duration>,
}

impl Reopenings {
    /// The session's stream is open.
    pub(super) fn opened(&mut self, now: Time) {
        self.opened = now;
    }

    pub(super) fn lost(&mut self, now: Time, hint: Option<Duration>) {
        if now.since(self.opened) >= LASTING {
            self.brief = 0;
        }
        self.hint = hint;
    }

    /// How long to wait before the next session; `None`: until a message needs it.
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
