//! Stdout: lines wait here until the pipe accepts them. Small lines share one write. Only
//! [`Output::Write`](mcp_proxy_core::Output) and the help text come here.

use bytes::Bytes;
use std::collections::VecDeque;
use wasip2::cli::stdout;
use wasip2::io::poll::Pollable;
use wasip2::io::streams::{OutputStream, StreamError};

/// Combine lines up to this size into one write.
const GATHER: usize = 64 << 10;

pub(crate) struct Stdout {
    /// A child of `stream`: dropped first.
    ready: Pollable,
    stream: OutputStream,
    waiting: VecDeque<Bytes>,
}

/// The client has stopped reading.
pub(crate) struct Broken;

impl Stdout {
    pub(crate) fn new() -> Self {
        let stream = stdout::get_stdout();
        Self { ready: stream.subscribe(), stream, waiting: VecDeque::new() }
    }

    pub(crate) fn push(&mut self, line: Bytes) {
        self.waiting.push_back(line);
    }

    /// The pollable to wait for before the next `flush`.
    pub(crate) fn pollable(&self) -> Option<&Pollable> {
        (!self.waiting.is_empty()).then_some(&self.ready)
    }

    /// Writes as much as the pipe accepts now and returns the byte count.
    pub(crate) fn flush(&mut self) -> Result<usize, Broken> {
        let mut written = 0;
        while !self.waiting.is_empty() {
            let room = usize::try_from(self.stream.check_write().map_err(broken)?).unwrap_or(usize::MAX);
            if room == 0 {
                break;
            }
            let piece = self.gather(room);
            self.stream.write(&piece).map_err(broken)?;
            written += piece.len();
        }
        if written > 0 {
            self.stream.flush().map_err(broken)?;
        }
        Ok(written)
    }

    /// The bytes of the next write: one big piece, or several small lines.
    fn gather(&mut self, room: usize) -> Bytes {
        let Some(mut first) = self.waiting.pop_front() else { return Bytes::new() };
        if first.len() > room {
            let piece = first.split_to(room);
            self.waiting.push_front(first);
            return piece;
        }
        let limit = room.min(GATHER);
        if self.waiting.front().is_none_or(|next| first.len() + next.len() > limit) {
            return first;
        }
        let mut piece = Vec::with_capacity(limit);
        piece.extend_from_slice(&first);
        while let Some(next) = self.waiting.pop_front_if(|next| piece.len() + next.len() <= limit) {
            piece.extend_from_slice(&next);
        }
        piece.into()
    }
}

/// Prints a text that the user asked for.
pub(crate) fn print(text: &str) {
    let mut out = Stdout::new();
    out.push(Bytes::copy_from_slice(text.as_bytes()));
    while let Some(ready) = out.pollable() {
        ready.block();
        if out.flush().is_err() {
            return;
        }
    }
}

fn broken(_: StreamError) -> Broken {
    Broken
}
