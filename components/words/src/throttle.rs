//! Limits repeated notes. A peer that makes the same mistake a million times gets a few
//! lines and a count, not a million lines.

use mcp_proxy_core::{Note, Time};
use std::collections::HashMap;
use std::mem::{Discriminant, discriminant};
use std::time::Duration;

/// How many notes of one kind pass in a row; after that, one per stretch of time.
const BURST: u32 = 10;
const STRETCH: Duration = Duration::from_secs(10);

/// Counts the notes of each kind.
#[derive(Debug, Default)]
pub struct Throttle {
    kinds: HashMap<Discriminant<Note>, Kind>,
}

#[derive(Debug)]
struct Kind {
    /// When the stretch began, and how many notes have passed since.
    since: Time,
    said: u32,
    /// How many notes were suppressed.
    unsaid: u64,
}

impl Throttle {
    /// Whether to log a note now; if so, how many of its kind were suppressed since the
    /// last one.
    pub fn admit(&mut self, now: Time, note: &Note) -> Option<u64> {
        let kind = self.kind(now, discriminant(note));
        if now.since(kind.since) >= STRETCH {
            // After a flood, one line is enough to show that it continues.
            let most = if kind.unsaid > 0 { 1 } else { BURST };
            (kind.since, kind.said) = (now, BURST - most);
        }
        if kind.said >= BURST {
            kind.unsaid += 1;
            return None;
        }
        kind.said += 1;
        Some(std::mem::take(&mut kind.unsaid))
    }

    /// How many suppressed notes have not been reported.
    #[must_use]
    pub fn unsaid(&self) -> u64 {
        self.kinds.values().map(|kind| kind.unsaid).sum()
    }

    fn kind(&mut self, now: Time, kind: Discriminant<Note>) -> &mut Kind {
        self.kinds.entry(kind).or_insert(Kind { since: now, said: 0, unsaid: 0 })
    }
}

/// Adds the count of suppressed notes to a text.
#[must_use]
pub fn counted(text: String, unsaid: u64) -> String {
    if unsaid == 0 { text } else { format!("{text} (and {unsaid} more like this)") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_a_few_lines_and_a_count() {
        let mut throttle = Throttle::default();
        let mut said = Vec::new();
        for n in 0..100_000 {
            said.extend(throttle.admit(Time(n / 4), &Note::LateAnswer));
        }
        assert_eq!(said, [vec![0; 10], vec![39_990, 39_999]].concat());
        assert_eq!(throttle.unsaid(), 19_999);
        assert_eq!(throttle.admit(Time(25_000), &Note::StrayAnswer), Some(0), "another kind has its own count");
    }

    #[test]
    fn what_happens_now_and_then_is_always_said() {
        let mut throttle = Throttle::default();
        for n in 0..100 {
            assert_eq!(throttle.admit(Time(n * 2_000), &Note::SessionLost), Some(0));
        }
    }
}
