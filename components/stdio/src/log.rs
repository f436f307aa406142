//! Stderr: one `[TAG] message` line a note. Ordinary events are told only when
//! asked for. A note holds no secret, and nothing is added to it here. Messages
//! are told only when asked for, too, without the credentials that we know.

use mcp_proxy_core::{Blame, Note, Time};
use mcp_proxy_words::{Throttle, counted, escaped, words};
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

/// The messages of a run.
pub(crate) struct Bodies {
    /// What may not be shown, where a peer says it back.
    secrets: Vec<String>,
}

impl Bodies {
    /// How much of a message is shown.
    const MOST: usize = 2000;
    /// A shorter word of a header may well be a part of something else.
    const SHORTEST_SECRET: usize = 8;

    pub(crate) fn new(headers: &[(String, String)]) -> Self {
        let words = headers.iter().flat_map(|(_, value)| value.split([' ', '\t', ',', ';', '=']));
        Self { secrets: words.filter(|word| word.len() >= Self::SHORTEST_SECRET).map(str::to_owned).collect() }
    }

    /// What the server is told.
    pub(crate) fn sent(&self, body: &[u8]) {
        if !body.is_empty() {
            line(&format!("[BODY] > {}", self.shown(body)));
        }
    }

    /// What the client is told: whole lines.
    pub(crate) fn told(&self, lines: &[u8]) {
        for said in lines.split(|byte| *byte == b'\n').filter(|said| !said.is_empty()) {
            line(&format!("[BODY] < {}", self.shown(said)));
        }
    }

    fn shown(&self, body: &[u8]) -> String {
        // A letter takes four bytes at most, and a secret that is cut is not found.
        let longest = self.secrets.iter().map(String::len).max().unwrap_or(0);
        let beginning = body.get(..4 * Self::MOST + longest).unwrap_or(body);
        let mut text = String::from_utf8_lossy(beginning).into_owned();
        for secret in &self.secrets {
            text = text.replace(secret, &"*".repeat(secret.len()));
        }
        let mut shown: String = text.chars().take(Self::MOST).flat_map(escaped).collect();
        if text.chars().nth(Self::MOST).is_some() {
            shown.push_str(&format!("… ({} bytes)", body.len()));
        }
        shown
    }
}

/// Writes one line; a closed stderr is nobody's business.
pub(crate) fn line(text: &str) {
    let mut text = text.to_owned();
    text.push('\n');
    drop(std::io::stderr().write_all(text.as_bytes()));
}
