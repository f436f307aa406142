//! Stderr: one `[TAG] message` line a note. Ordinary events are told only when
//! asked for. A note holds no secret, and nothing is added to it here.

use mcp_proxy_core::{Blame, Note};
use mcp_proxy_words::words;
use std::io::Write;

/// What is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    /// Only what somebody is to blame for.
    Faults,
    /// Everything.
    All,
}

/// Writes a note, if the level lets it through.
pub(crate) fn note(level: Level, note: &Note) {
    let quiet = matches!(note, Note::LateAnswer | Note::StrayAnswer | Note::SessionLost);
    if level == Level::All || (note.blame() != Blame::Nobody && !quiet) {
        let (tag, text) = words(note);
        line(&format!("[{tag}] {text}"));
    }
}

/// Writes one line; a closed stderr is nobody's business.
pub(crate) fn line(text: &str) {
    let mut text = text.to_owned();
    text.push('\n');
    drop(std::io::stderr().write_all(text.as_bytes()));
}
