//! The log of a run, kept only when somebody wants to read it.

use std::fmt::{Arguments, Write};

#[derive(Debug, Clone, Default)]
pub(crate) struct Trace(Option<String>);

impl Trace {
    pub(crate) fn off() -> Self {
        Self(None)
    }

    pub(crate) fn on() -> Self {
        Self(Some(String::new()))
    }

    pub(crate) fn line(&mut self, now: u64, line: Arguments<'_>) {
        if let Some(text) = &mut self.0 {
            let line: String = line.to_string().chars().take(400).collect();
            // Writing to a string does not fail.
            let _ = writeln!(text, "{now:>8} {line}");
        }
    }

    pub(crate) fn text(self) -> String {
        self.0.unwrap_or_default()
    }
}
