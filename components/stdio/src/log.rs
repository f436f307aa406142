//! Stderr: one `[TAG] message` line a note. Ordinary events are told only when
//! asked for. A note holds no secret, and nothing is added to it here.

use mcp_proxy_core::{Blame, Note, Time};
use mcp_proxy_words::{Throttle, counted, words};
use std::io::Write;

/// What is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    /// Only what somebody is to blame for.
    Faults,
    /// Everything.
    All,
}

/// The notes of a run.
pub(crate) struct Log {
    level: Level,
    throttle: Throttle,
}

impl Log {
    pub(crate) fn new(level: Level) -> Self {
        Self { level, throttle: Throttle::default() }
    }

    /// Writes a note, if the level lets it through. What somebody does wrong
    /// again and again is not said every time.
    pub(crate) fn note(&mut self, now: Time, note: &Note) {
        let quiet = matches!(note, Note::LateAnswer | Note::StrayAnswer | Note::SessionLost);
        let fault = note.blame() != Blame::Nobody;
        if self.level != Level::All && (!fault || quiet) {
            return;
        }
        let unsaid = if fault { self.throttle.admit(now, note) } else { Some(0) };
        if let Some(unsaid) = unsaid {
            let (tag, text) = words(note);
            line(&format!("[{tag}] {}", counted(text, unsaid)));
        }
    }

    /// Says how much was left unsaid.
    pub(crate) fn end(&self) {
        let unsaid = self.throttle.unsaid();
        if unsaid > 0 {
            line(&format!("[LOG] {unsaid} more lines like these were left out"));
        }
    }
}

/// Writes one line; a closed stderr is nobody's business.
pub(crate) fn line(text: &str) {
    let mut text = text.to_owned();
    text.push('\n');
    drop(std::io::stderr().write_all(text.as_bytes()));
}
