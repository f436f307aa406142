//! The stop request. A component has no signals, so the end of a stream tells it: it
//! opens stdin a second time, and the host ends that stream to stop the component.

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

/// A handle on the request; clones share it.
#[derive(Clone)]
pub struct Stop(Arc<watch::Sender<bool>>);

impl Stop {
    pub fn new() -> Self {
        Self(Arc::new(watch::Sender::new(false)))
    }

    /// Stops every component that listens, now or later.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }
}

impl Default for Stop {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl InputStream for Stop {
    fn read(&mut self, _size: usize) -> StreamResult<Bytes> {
        if *self.0.borrow() { Err(StreamError::Closed) } else { Ok(Bytes::new()) }
    }
}

#[async_trait]
impl Pollable for Stop {
    async fn ready(&mut self) {
        // This cannot fail: `self` holds the sender.
        let _ = self.0.subscribe().wait_for(|stopped| *stopped).await;
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
}
