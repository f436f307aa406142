//! The log of a run, kept only on request. Consecutive chunks of one response share a line.
//! Nothing in a run depends on the log.

use mcp_proxy_core::CallId;
use std::fmt::{Arguments, Write};

/// The longest line, in characters.
const LONGEST: usize = 400;

#[derive(Debug, Default)]
pub(crate) struct Trace(Option<Log>);

#[derive(Debug, Default)]
struct Log {
    text: String,
    chunks: Option<Chunks>,
}

/// Chunks that are not in the log yet.
#[derive(Debug)]
struct Chunks {
    from: u64,
    call: CallId,
    bytes: Vec<u8>,
    count: u64,
}

impl Trace {
    pub(crate) fn off() -> Self {
        Self(None)
    }

    pub(crate) fn on() -> Self {
        Self(Some(Log::default()))
    }

    pub(crate) fn line(&mut self, now: u64, line: Arguments<'_>) {
        if let Some(log) = &mut self.0 {
            log.tell_chunks();
            log.line(now, &line.to_string());
        }
    }

    pub(crate) fn fact(&mut self, now: u64, shown: impl FnOnce() -> String) {
        if self.0.is_some() {
            self.line(now, format_args!("{}", shown()));
        }
    }

    pub(crate) fn chunk(&mut self, now: u64, call: CallId, chunk: &[u8]) {
        let Some(log) = &mut self.0 else { return };
        match &mut log.chunks {
            Some(chunks) if chunks.call == call => {
                chunks.bytes.extend_from_slice(chunk);
                chunks.count += 1;
            }
            Some(_) | None => {
                log.tell_chunks();
                log.chunks = Some(Chunks { from: now, call, bytes: chunk.to_vec(), count: 1 });
            }
        }
    }

    pub(crate) fn text(self) -> String {
        let mut log = self.0.unwrap_or_default();
        log.tell_chunks();
        log.text
    }
}

impl Log {
    fn tell_chunks(&mut self) {
        if let Some(Chunks { from, call, bytes, count }) = self.chunks.take() {
            self.line(from, &format!("chunk {} in {count}: {:?}", call.0, String::from_utf8_lossy(&bytes)));
        }
    }

    fn line(&mut self, now: u64, line: &str) {
        let line: String = line.chars().take(LONGEST).collect();
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "{now:>8} {line}");
    }
}
