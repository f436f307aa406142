//! The session snapshot as one line of text, for shells that store it. Reading a written
//! line returns the same snapshot. When to store it does not belong here.

use super::text::Text;
use crate::config::Snapshot;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

#[derive(Serialize, Deserialize)]
pub(super) struct Form {
    initialize: Text<'static>,
    version: String,
    settings: Vec<Text<'static>>,
}

impl From<&Snapshot> for Form {
    fn from(known: &Snapshot) -> Self {
        let text = |bytes: &Bytes| Text(Cow::Owned(bytes.to_vec()));
        Self {
            initialize: text(&known.initialize),
            version: known.version.clone(),
            settings: known.settings.iter().map(text).collect(),
        }
    }
}

impl From<Form> for Snapshot {
    fn from(form: Form) -> Self {
        let bytes = |text: Text<'_>| Bytes::from(text.0.into_owned());
        Self {
            initialize: bytes(form.initialize),
            version: form.version,
            settings: form.settings.into_iter().map(bytes).collect(),
        }
    }
}

impl Snapshot {
    /// One line without control characters.
    #[must_use]
    pub fn to_line(&self) -> String {
        serde_json::to_string(&Form::from(self)).unwrap_or_default()
    }

    /// Reads a line that [`Snapshot::to_line`] has written.
    #[must_use]
    pub fn from_line(line: &str) -> Option<Self> {
        serde_json::from_str::<Form>(line).ok().map(Self::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_everything() {
        let known = Snapshot {
            initialize: Bytes::from_static(b"{\"id\":0,\t\"method\":\"initialize\"}"),
            version: "a\nb\u{1d}".to_owned(),
            settings: vec![Bytes::from_static(b"\xff"), Bytes::from_static(b"{}")],
        };
        let line = known.to_line();
        assert!(!line.contains(char::is_control), "{line}");
        assert_eq!(Snapshot::from_line(&line), Some(known));
        assert_eq!(Snapshot::from_line("{}"), None);
    }
}
