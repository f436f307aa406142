//! The output of the flight recorder. A component has no files, so each line of the
//! recording goes to stderr after a record separator (RFC 7464), which sets it apart from
//! the notes. The core decides the contents.

use mcp_proxy_core::record::Recorder;
use mcp_proxy_core::{Config, Input, Time};
use std::io::Write;

/// No note begins with it.
const SEPARATOR: u8 = 0x1e;

/// A recording under way.
pub(crate) struct Tape(Recorder);

impl Tape {
    pub(crate) fn start(config: &Config, seed: u64, now: Time) -> Self {
        let (recorder, line) = Recorder::start(config, seed, now);
        write(&line);
        Self(recorder)
    }

    pub(crate) fn told(&mut self, now: Time, input: &Input<'_>) {
        write(&self.0.line(now, input));
    }
}

/// Writes in one piece. Without a reader there is no recording.
fn write(line: &str) {
    let mut bytes = Vec::with_capacity(line.len() + 2);
    bytes.push(SEPARATOR);
    bytes.extend_from_slice(line.as_bytes());
    bytes.push(b'\n');
    drop(std::io::stderr().write_all(&bytes));
}
