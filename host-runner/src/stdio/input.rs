//! Stdin. The host reads when the component waits for bytes, at most one chunk ahead, so
//! a component that does not read makes the client wait. [`Input::close`] ends the stream
//! from outside, as if the client had. The host keeps the bytes that a component has read
//! but not finished, for the next component.

use std::{
    collections::VecDeque,
    future::poll_fn,
    io::{self, Read as _},
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
};

use async_trait::async_trait;
use bytes::{Buf as _, Bytes};
use tokio::{io::AsyncRead, sync::mpsc};
use wasmtime_wasi::{
    cli::{IsTerminal, StdinStream},
    p2::{InputStream, Pollable, StreamError, StreamResult},
};

use super::lock;

const CHUNK: usize = 64 * 1024;

/// A handle on stdin; clones share the stream.
#[derive(Clone)]
pub struct Input(Arc<Mutex<State>>);

struct State {
    source: Source,
    /// Fetched but not yet read. The host fetches more only when it is empty.
    chunk: Bytes,
    ended: bool,
    /// Bytes that were read but may be unfinished; `done` counts the finished ones before
    /// them. `None` while no component reports what is finished.
    kept: Option<VecDeque<Bytes>>,
    done: u64,
    /// The reader to wake on a close from outside.
    waiting: Option<Waker>,
}

enum Source {
    #[cfg(target_os = "linux")]
    Fd {
        fd: tokio::io::unix::AsyncFd<super::fd::Fd>,
        buffer: Box<[u8]>,
    },
    Thread(mpsc::Receiver<Bytes>),
}

impl Input {
    /// Must be called inside the runtime.
    pub fn new() -> Self {
        Self::from_source(Source::stdin())
    }

    fn from_source(source: Source) -> Self {
        Self(Arc::new(Mutex::new(State {
            source,
            chunk: Bytes::new(),
            ended: false,
            kept: None,
            done: 0,
            waiting: None,
        })))
    }

    /// Starts keeping the bytes read until the component is done with them.
    pub fn keep(&self) {
        lock(&self.0).kept.get_or_insert_default();
    }

    /// The component is done with the first `count` bytes.
    pub fn done(&self, count: u64) {
        lock(&self.0).done(count);
    }

    /// The next reader starts with the bytes that the last one did not finish.
    pub fn rewind(&self) {
        lock(&self.0).rewind();
    }

    /// Ends the stream; bytes already fetched remain readable.
    pub fn close(&self) {
        let mut state = lock(&self.0);
        state.ended = true;
        if let Some(waker) = state.waiting.take() {
            waker.wake();
        }
    }
}

impl Default for Input {
    fn default() -> Self {
        Self::new()
    }
}

impl State {
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.ended || !self.chunk.is_empty() {
            return Poll::Ready(());
        }
        match self.source.poll_fetch(cx) {
            Poll::Ready(Some(chunk)) => self.chunk = chunk,
            Poll::Ready(None) => self.ended = true,
            Poll::Pending => {
                self.waiting = Some(cx.waker().clone());
                return Poll::Pending;
            }
        }
        Poll::Ready(())
    }

    fn read(&mut self, size: usize) -> StreamResult<Bytes> {
        let mut cx = Context::from_waker(Waker::noop());
        if self.chunk.is_empty() && !self.ended {
            // Needs no waker: the caller subscribes if this returns nothing.
            let _ = self.poll_ready(&mut cx);
        }
        if self.chunk.is_empty() && self.ended {
            return Err(StreamError::Closed);
        }
        let bytes = self.chunk.split_to(size.min(self.chunk.len()));
        if let Some(kept) = self.kept.as_mut().filter(|_| !bytes.is_empty()) {
            kept.push_back(bytes.clone());
        }
        Ok(bytes)
    }

    fn done(&mut self, count: u64) {
        let Some(kept) = &mut self.kept else { return };
        while let Some(first) = kept.front_mut() {
            let more = usize::try_from(count.saturating_sub(self.done)).unwrap_or(usize::MAX).min(first.len());
            first.advance(more);
            self.done += more as u64;
            if !first.is_empty() {
                return;
            }
            kept.pop_front();
        }
    }

    fn rewind(&mut self) {
        let kept = self.kept.take().unwrap_or_default();
        let rest = std::mem::take(&mut self.chunk);
        self.chunk = kept.into_iter().chain([rest]).flatten().collect();
        self.done = 0;
    }
}

impl Source {
    fn stdin() -> Self {
        #[cfg(target_os = "linux")]
        if let Some(fd) = super::fd::Fd::stdin() {
            let buffer = vec![0; CHUNK].into_boxed_slice();
            return Self::Fd { fd, buffer };
        }
        Self::Thread(reader_thread())
    }

    /// The next bytes; `None` at the end. A read error also ends the input, and the
    /// component can still answer open requests.
    fn poll_fetch(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        match self {
            #[cfg(target_os = "linux")]
            Self::Fd { fd, buffer } => loop {
                let Ok(mut ready) = std::task::ready!(fd.poll_read_ready(cx)) else {
                    return Poll::Ready(None);
                };
                let Ok(read) = ready.try_io(|fd| fd.get_ref().read(buffer)) else {
                    continue;
                };
                // A short read emptied the pipe, so there is no need to read again.
                if read.as_ref().is_ok_and(|length| (1..CHUNK).contains(length)) {
                    ready.clear_ready();
                }
                let bytes = read.ok().and_then(|length| buffer.get(..length));
                let bytes = bytes.filter(|bytes| !bytes.is_empty());
                return Poll::Ready(bytes.map(Bytes::copy_from_slice));
            },
            Self::Thread(chunks) => chunks.poll_recv(cx),
        }
    }
}

/// A thread that reads stdin at most one chunk ahead.
fn reader_thread() -> mpsc::Receiver<Bytes> {
    let (sender, receiver) = mpsc::channel(1);
    let read = move || {
        let mut buffer = vec![0; CHUNK];
        let mut stdin = io::stdin().lock();
        while let Some(bytes) = next_chunk(&mut stdin, &mut buffer) {
            if sender.blocking_send(bytes).is_err() {
                return;
            }
        }
    };
    // If there is no thread, the sender is dropped and stdin ends.
    let _ = std::thread::Builder::new().name("stdin".into()).spawn(read);
    receiver
}

fn next_chunk(stdin: &mut io::StdinLock<'_>, buffer: &mut [u8]) -> Option<Bytes> {
    loop {
        match stdin.read(buffer) {
            Ok(0) => return None,
            Ok(length) => return buffer.get(..length).map(Bytes::copy_from_slice),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
    }
}

impl IsTerminal for Input {
    fn is_terminal(&self) -> bool {
        io::IsTerminal::is_terminal(&io::stdin())
    }
}

impl StdinStream for Input {
    fn p2_stream(&self) -> Box<dyn InputStream> {
        Box::new(self.clone())
    }

    /// For WASI 0.3 only, which this host does not offer.
    fn async_stream(&self) -> Box<dyn AsyncRead + Send + Sync> {
        Box::new(tokio::io::empty())
    }
}

#[async_trait]
impl InputStream for Input {
    fn read(&mut self, size: usize) -> StreamResult<Bytes> {
        lock(&self.0).read(size)
    }
}

#[async_trait]
impl Pollable for Input {
    async fn ready(&mut self) {
        poll_fn(|cx| lock(&self.0).poll_ready(cx)).await;
    }
}

#[cfg(test)]
impl Input {
    /// For tests that read nothing.
    pub(crate) fn empty() -> Self {
        Self::from_source(Source::Thread(mpsc::channel(1).1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn channel() -> (mpsc::Sender<Bytes>, Input) {
        let (sender, receiver) = mpsc::channel(1);
        (sender, Input::from_source(Source::Thread(receiver)))
    }

    #[tokio::test]
    async fn a_chunk_is_read_in_pieces_and_then_the_stream_ends() {
        let (sender, mut input) = channel();
        assert!(input.read(9).unwrap().is_empty());
        sender.try_send(Bytes::from_static(b"hello")).unwrap();
        drop(sender);
        input.ready().await;
        assert_eq!(input.read(3).unwrap(), "hel");
        assert_eq!(input.read(9).unwrap(), "lo");
        input.ready().await;
        assert!(matches!(input.read(9), Err(StreamError::Closed)));
    }

    #[tokio::test]
    async fn what_a_reader_was_not_done_with_is_read_again() {
        let (sender, mut input) = channel();
        input.keep();
        sender.try_send(Bytes::from_static(b"one\ntwo\nthr")).unwrap();
        input.ready().await;
        assert_eq!((input.read(6).unwrap(), input.read(9).unwrap()), ("one\ntw".into(), "o\nthr".into()));
        input.done(4);
        sender.try_send(Bytes::from_static(b"ee\n")).unwrap();
        input.ready().await;
        input.rewind();
        assert_eq!(input.read(99).unwrap(), "two\nthree\n");
        input.rewind();
        assert!(input.read(99).unwrap().is_empty());
    }

    #[tokio::test]
    async fn a_close_from_outside_wakes_the_reader() {
        let (_sender, mut input) = channel();
        let handle = input.clone();
        let waiting = tokio::spawn(async move {
            input.ready().await;
            input.read(1)
        });
        tokio::task::yield_now().await;
        handle.close();
        assert!(matches!(waiting.await.unwrap(), Err(StreamError::Closed)));
    }
}
