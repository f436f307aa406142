//! What the host tells the component. A component has no signals, so a stream tells it:
//! it opens stdin a second time. The host ends that stream to stop the component, and
//! writes a line to it while it waits for a person.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use async_trait::async_trait;
use bytes::Bytes;
use tokio::{io::AsyncRead, sync::watch};
use wasmtime_wasi::{
    cli::{IsTerminal, StdinStream},
    p2::{InputStream, Pollable, StreamError, StreamResult},
};

use super::Input;

/// A handle on the stream; clones share it.
#[derive(Clone)]
pub struct Stop(Arc<watch::Sender<Told>>);

/// What the component has to read.
#[derive(Default)]
struct Told {
    lines: Vec<u8>,
    stopped: bool,
}

/// A component that does not read this much does not listen.
const MOST_LINES: usize = 16 << 10;

impl Stop {
    pub fn new() -> Self {
        Self(Arc::new(watch::Sender::default()))
    }

    /// Stops every component that listens, now or later.
    pub fn stop(&self) {
        self.0.send_modify(|told| told.stopped = true);
    }

    /// Writes a line.
    pub fn tell(&self, line: &str) {
        self.0.send_modify(|told| {
            if told.lines.len() + line.len() < MOST_LINES {
                told.lines.extend(line.bytes().map(|byte| if byte == b'\n' { b' ' } else { byte }));
                told.lines.push(b'\n');
            }
        });
    }
}

impl Default for Stop {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl InputStream for Stop {
    fn read(&mut self, size: usize) -> StreamResult<Bytes> {
        let mut bytes = Vec::new();
        self.0.send_if_modified(|told| {
            bytes.extend(told.lines.drain(..size.min(told.lines.len())));
            false
        });
        if bytes.is_empty() && self.0.borrow().stopped { Err(StreamError::Closed) } else { Ok(bytes.into()) }
    }
}

#[async_trait]
impl Pollable for Stop {
    async fn ready(&mut self) {
        // This cannot fail: `self` holds the sender.
        let _ = self.0.subscribe().wait_for(|told| told.stopped || !told.lines.is_empty()).await;
    }
}

/// The stdin of one component: the client's bytes, and at the second opening the stop
/// request.
pub struct Stdin {
    input: Input,
    stop: Stop,
    opened: AtomicBool,
}

impl Stdin {
    pub fn new(input: Input, stop: Stop) -> Self {
        Self { input, stop, opened: AtomicBool::new(false) }
    }
}

impl IsTerminal for Stdin {
    fn is_terminal(&self) -> bool {
        io::IsTerminal::is_terminal(&io::stdin())
    }
}

impl StdinStream for Stdin {
    fn p2_stream(&self) -> Box<dyn InputStream> {
        if self.opened.swap(true, Ordering::Relaxed) { Box::new(self.stop.clone()) } else { self.input.p2_stream() }
    }

    /// For WASI 0.3 only, which this host does not offer.
    fn async_stream(&self) -> Box<dyn AsyncRead + Send + Sync> {
        Box::new(tokio::io::empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_second_stream_ends_with_the_word_to_stop() {
        let stop = Stop::new();
        let stdin = Stdin::new(Input::empty(), stop.clone());
        let (_, mut second) = (stdin.p2_stream(), stdin.p2_stream());
        assert!(second.read(1).unwrap().is_empty());
        let waiting = tokio::spawn(async move {
            second.ready().await;
            second.read(1)
        });
        tokio::task::yield_now().await;
        stop.stop();
        assert!(matches!(waiting.await.unwrap(), Err(StreamError::Closed)));
    }

    #[tokio::test]
    async fn the_second_stream_has_the_lines_before_its_end() {
        let mut stop = Stop::new();
        stop.tell("two\nwords");
        stop.tell("");
        stop.ready().await;
        assert_eq!(stop.read(4).unwrap(), "two ");
        stop.stop();
        assert_eq!(stop.read(100).unwrap(), "words\n\n");
        assert!(matches!(stop.read(100), Err(StreamError::Closed)));
    }
}
