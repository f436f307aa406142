//! What an examination finds, and what follows from it.

use serde::Serialize;

/// Longest text in characters: some of it comes from the server.
const LONGEST: usize = 1000;

/// One thing that was found.
#[derive(Debug, Serialize)]
pub(super) struct Finding {
    /// What was examined, in one word or two.
    pub(super) check: &'static str,
    pub(super) level: Level,
    pub(super) text: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) hint: Option<String>,
}

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Level {
    /// As it should be.
    Ok,
    /// Unusual, or worth knowing.
    Note,
    /// It works, but something is wrong with the server.
    Warning,
    /// It does not work.
    Error,
}

/// What follows for the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Verdict {
    /// mcp-proxy can use the server.
    Works,
    /// It can once somebody has logged in.
    Login,
    /// The user's URL is wrong, but another one works.
    Elsewhere,
    Broken,
}

impl Verdict {
    /// The exit code of the program.
    pub(super) fn code(self) -> i32 {
        match self {
            Self::Works => 0,
            Self::Elsewhere | Self::Broken => 1,
            Self::Login => 3,
        }
    }
}

impl Finding {
    pub(super) fn ok(check: &'static str, text: impl Into<String>) -> Self {
        let mut text: String = text.into();
        if let Some((end, _)) = text.char_indices().nth(LONGEST) {
            text.truncate(end);
            text.push('…');
        }
        Self { check, level: Level::Ok, text, hint: None }
    }

    pub(super) fn note(check: &'static str, text: impl Into<String>) -> Self {
        Self { level: Level::Note, ..Self::ok(check, text) }
    }

    pub(super) fn warning(check: &'static str, text: impl Into<String>) -> Self {
        Self { level: Level::Warning, ..Self::ok(check, text) }
    }

    pub(super) fn error(check: &'static str, text: impl Into<String>) -> Self {
        Self { level: Level::Error, ..Self::ok(check, text) }
    }

    pub(super) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }
}
