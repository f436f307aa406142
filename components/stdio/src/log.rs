//! Stderr: one `[TAG] message` line per note. Ordinary events appear only with `--debug`.
//! Notes contain no secrets, and this module adds none. Messages appear only on request
//! too, with the known credentials masked.

use mcp_proxy_core::{Blame, Note, Time};
use mcp_proxy_words::{Throttle, counted, escaped, words};
use std::io::Write;

/// Which notes to log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    /// Only notes about faults.
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

    /// Logs a note if the level permits. The throttle limits repeated faults.
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

    /// Logs how many lines were suppressed.
    pub(crate) fn end(&self) {
        let unsaid = self.throttle.unsaid();
        if unsaid > 0 {
            line(&format!("[LOG] {unsaid} more lines like these were left out"));
        }
    }
}

/// The messages of a run.
pub(crate) struct Bodies {
    /// Credentials to mask if a peer repeats them.
    secrets: Vec<String>,
}

impl Bodies {
    /// How much of a message to show.
    const MOST: usize = 2000;
    /// A shorter word of a header is often part of other text.
    const SHORTEST_SECRET: usize = 8;

    pub(crate) fn new(headers: &[(String, String)]) -> Self {
        let words = headers.iter().flat_map(|(_, value)| value.split([' ', '\t', ',', ';', '=']));
        Self { secrets: words.filter(|word| word.len() >= Self::SHORTEST_SECRET).map(str::to_owned).collect() }
    }

    /// Logs a message to the server.
    pub(crate) fn sent(&self, body: &[u8]) {
        if !body.is_empty() {
            line(&format!("[BODY] > {}", self.shown(body)));
        }
    }

    /// Logs messages to the client: whole lines.
    pub(crate) fn told(&self, lines: &[u8]) {
        for said in lines.split(|byte| *byte == b'\n').filter(|said| !said.is_empty()) {
            line(&format!("[BODY] < {}", self.shown(said)));
        }
    }

    fn shown(&self, body: &[u8]) -> String {
        // A character takes at most four bytes. The extra length is for a secret at the
        // cut, which would not match if truncated.
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

/// Writes one line and ignores a closed stderr.
pub(crate) fn line(text: &str) {
    let mut text = text.to_owned();
    text.push('\n');
    drop(std::io::stderr().write_all(text.as_bytes()));
}
