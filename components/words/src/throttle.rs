//! How often the same may be said. A peer that does something wrong a million
//! times gets a few lines and a count, not a million lines.

use mcp_proxy_core::{Note, Time};
use std::collections::HashMap;
use std::mem::{Discriminant, discriminant};
use std::time::Duration;

/// So many notes of a kind are said in a row; then one in each stretch of time.
const BURST: u32 = 10;
const STRETCH: Duration = Duration::from_secs(10);

/// Remembers what was said.
#[derive(Debug, Default)]
pub struct Throttle {
    kinds: HashMap<Discriminant<Note>, Kind>,
}

#[derive(Debug)]
struct Kind {
    /// When a stretch began, and how many were said since.
    since: Time,
    said: u32,
    /// How many were not said.
    unsaid: u64,
}

impl Throttle {
    /// Whether a note is to be said now; and if so, how many of its kind were
    /// not said since the last.
    pub fn admit(&mut self, now: Time, note: &Note) -> Option<u64> {
        let kind = self.kind(now, discriminant(note));
        if now.since(kind.since) >= STRETCH {
            // After a flood one line is enough to say that it goes on.
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

    /// How many notes are left unsaid.
    #[must_use]
    pub fn unsaid(&self) -> u64 {
        self.kinds.values().map(|kind| kind.unsaid).sum()
    }

    fn kind(&mut self, now: Time, kind: Discriminant<Note>) -> &mut Kind {
        self.kinds.entry(kind).or_insert(Kind { since: now, said: 0, unsaid: 0 })
    }
}

/// A text with what was not said before it.
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
