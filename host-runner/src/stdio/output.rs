//! Stdout. The host accepts one write of the component at a time, writes as much as the
//! reader accepts, and keeps the rest; it accepts no more until the rest is written. So a
//! client that does not read slows the component down, and no byte is lost or copied.

use std::{
    future::poll_fn,
    io,
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker, ready},
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use tokio::io::AsyncWrite;
use wasmtime_wasi::{
    cli::{IsTerminal, StdoutStream},
    p2::{OutputStream, Pollable, StreamError, StreamResult},
};

use super::{lock, writer::Writer};

/// The size limit of one write, and of the bytes kept.
const PERMIT: usize = 1024 * 1024;
/// How long the process waits at exit for a reader that still accepts bytes.
const LAST_WAIT: Duration = Duration::from_secs(1);

/// A handle on stdout; clones share the stream.
#[derive(Clone)]
pub struct Output(Arc<Mutex<State>>);

struct State {
    sink: Sink,
    /// Accepted but not yet written.
    pending: Bytes,
    /// The last write is not done. A host task waits for the reader, whether or not the
    /// component does.
    busy: bool,
    /// The task that waits for the last write.
    waiting: Option<Waker>,
    /// Once broken, the stream stays closed.
    closed: bool,
    /// Total bytes accepted, and whether the last line lacks its end.
    written: u64,
    in_line: bool,
    /// Called when the stream breaks: a component with nothing to write would not notice
    /// that nobody reads.
    broken: Box<dyn Fn() + Send>,
}

/// How far a write got at once.
enum Progress {
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "a thread never says so at once"))]
    Done,
    Begun,
}

enum Sink {
    #[cfg(target_os = "linux")]
    Fd(tokio::io::unix::AsyncFd<super::fd::Fd>),
    Thread(Writer),
}

impl Output {
    /// Must be called inside the runtime. Calls `broken` when nobody reads any longer.
    pub fn new(broken: impl Fn() + Send + 'static) -> Self {
        Self::from_sink(Sink::stdout(), Box::new(broken))
    }

    fn from_sink(sink: Sink, broken: Box<dyn Fn() + Send>) -> Self {
        let (pending, waiting) = (Bytes::new(), None);
        Self(Arc::new(Mutex::new(State {
            sink,
            pending,
            busy: false,
            waiting,
            closed: false,
            written: 0,
            in_line: false,
            broken,
        })))
    }

    /// How many bytes were accepted since the component started.
    pub fn written(&self) -> u64 {
        lock(&self.0).written
    }

    /// Whether the last line accepted lacks its end.
    pub fn in_line(&self) -> bool {
        lock(&self.0).in_line
    }

    /// Restarts the count for the next component.
    pub fn restart(&self) {
        lock(&self.0).written = 0;
    }

    /// Writes the host's own text.
    pub async fn say(&mut self, mut text: Bytes) {
        while !text.is_empty() {
            self.ready().await;
            let piece = text.split_to(PERMIT.min(text.len()));
            if OutputStream::write(self, piece).is_err() {
                return;
            }
        }
    }

    /// Waits a moment for the component's unwritten bytes.
    pub async fn drain(&self) {
        let written = poll_fn(|cx| lock(&self.0).poll_ready(cx));
        // A reader that has not read by now will not read: drop the bytes.
        let _ = tokio::time::timeout(LAST_WAIT, written).await;
    }
}

impl State {
    /// Ready when everything is written, or nothing more can be.
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.closed || !self.busy {
            return Poll::Ready(());
        }
        self.waiting = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Writes the rest as the reader accepts it, then wakes the waiting task.
    fn poll_written(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let written = ready!(self.sink.poll_write(cx, &mut self.pending));
        self.settle(&written);
        self.busy = false;
        self.waiting.take().into_iter().for_each(Waker::wake);
        Poll::Ready(())
    }

    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        if bytes.len() > self.check_write()? {
            return Err(StreamError::trap("write to stdout exceeded its permit"));
        }
        self.written += bytes.len() as u64;
        self.in_line = bytes.last().map_or(self.in_line, |last| *last != b'\n');
        self.pending = bytes;
        let written = self.sink.try_write(&mut self.pending);
        self.settle(&written);
        self.busy = matches!(written, Ok(Progress::Begun));
        written.map(drop).map_err(stream_error)
    }

    fn settle<T>(&mut self, written: &io::Result<T>) {
        self.closed = written.is_err();
        if self.closed {
            (self.broken)();
        }
    }

    fn check_write(&self) -> StreamResult<usize> {
        match (self.closed, self.busy) {
            (true, _) => Err(StreamError::Closed),
            (false, false) => Ok(PERMIT),
            (false, true) => Ok(0),
        }
    }
}

impl Sink {
    fn stdout() -> Self {
        #[cfg(target_os = "linux")]
        if let Some(fd) = super::fd::Fd::stdout() {
            return Self::Fd(fd);
        }
        Self::Thread(Writer::spawn(io::stdout()))
    }

    /// Writes as much as possible now and leaves the rest in `pending`.
    fn try_write(&mut self, pending: &mut Bytes) -> io::Result<Progress> {
        match self {
            #[cfg(target_os = "linux")]
            Self::Fd(fd) => match write_some(fd.get_ref(), pending) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Progress::Begun),
                written => written.map(|()| Progress::Done),
            },
            Self::Thread(writer) => writer.try_write(pending).map(|()| Progress::Begun),
        }
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, pending: &mut Bytes) -> Poll<io::Result<()>> {
        match self {
            #[cfg(target_os = "linux")]
            Self::Fd(fd) => {
                while !pending.is_empty() {
                    let mut ready = ready!(fd.poll_write_ready(cx))?;
                    if let Ok(written) = ready.try_io(|fd| write_some(fd.get_ref(), pending)) {
                        written?;
                    }
                }
                Poll::Ready(Ok(()))
            }
            Self::Thread(writer) => writer.poll_write(cx, pending),
        }
    }
}

/// Writes until nothing is left or the reader accepts no more.
#[cfg(target_os = "linux")]
fn write_some(fd: &super::fd::Fd, pending: &mut Bytes) -> io::Result<()> {
    while !pending.is_empty() {
        match fd.write(pending) {
            Ok(length) => drop(pending.split_to(length.min(pending.len()))),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn stream_error(error: io::Error) -> StreamError {
    let gone = [io::ErrorKind::BrokenPipe, io::ErrorKind::ConnectionReset];
    if gone.contains(&error.kind()) {
        return StreamError::Closed;
    }
    StreamError::LastOperationFailed(error.into())
}

impl IsTerminal for Output {
    fn is_terminal(&self) -> bool {
        io::IsTerminal::is_terminal(&io::stdout())
    }
}

impl StdoutStream for Output {
    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }

    /// For WASI 0.3 only, which this host does not offer.
    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        Box::new(tokio::io::empty())
    }
}

#[async_trait]
impl OutputStream for Output {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        let mut state = lock(&self.0);
        state.write(bytes)?;
        if state.busy {
            let shared = self.0.clone();
            tokio::spawn(poll_fn(move |cx| lock(&shared).poll_written(cx)));
        }
        Ok(())
    }

    /// Writing starts at once, and `check_write` grants no permit before it is done.
    fn flush(&mut self) -> StreamResult<()> {
        match lock(&self.0).closed {
            true => Err(StreamError::Closed),
            false => Ok(()),
        }
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        lock(&self.0).check_write()
    }
}

#[async_trait]
impl Pollable for Output {
    async fn ready(&mut self) {
        poll_fn(|cx| lock(&self.0).poll_ready(cx)).await;
    }
}

#[cfg(test)]
impl Output {
    /// For tests that check only the counts.
    pub(crate) fn nowhere() -> Self {
        Self::from_sink(Sink::Thread(Writer::spawn(io::sink())), Box::new(|| ()))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// A reader that accepts one write for each `()` it receives.
    struct Slow(mpsc::Receiver<()>, Arc<Mutex<Vec<u8>>>);

    impl io::Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.recv().map_err(|_gone| io::ErrorKind::BrokenPipe)?;
            lock(&self.1).extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn slow() -> (mpsc::Sender<()>, Arc<Mutex<Vec<u8>>>, Output) {
        let (sender, receiver) = mpsc::channel();
        let taken = Arc::new(Mutex::new(Vec::new()));
        let writer = Writer::spawn(Slow(receiver, taken.clone()));
        (sender, taken, Output::from_sink(Sink::Thread(writer), Box::new(|| ())))
    }

    #[tokio::test]
    async fn no_permit_is_given_before_the_reader_has_taken_the_last_write() {
        let (go, taken, mut output) = slow();
        assert_eq!(output.check_write().unwrap(), PERMIT);
        output.write(Bytes::from_static(b"one\n")).unwrap();
        assert_eq!(output.check_write().unwrap(), 0);
        go.send(()).unwrap();
        output.ready().await;
        assert_eq!(output.check_write().unwrap(), PERMIT);
        assert_eq!(*lock(&taken), b"one\n");
    }

    #[tokio::test]
    async fn a_reader_that_is_gone_closes_the_stream() {
        let (go, _taken, mut output) = slow();
        drop(go);
        output.write(Bytes::from_static(b"one\n")).unwrap();
        output.ready().await;
        assert!(matches!(output.check_write(), Err(StreamError::Closed)));
        assert!(matches!(output.write(Bytes::new()), Err(StreamError::Closed)));
    }

    #[tokio::test]
    async fn a_reader_that_is_gone_is_reported_without_being_asked() {
        let (tell, told) = tokio::sync::oneshot::channel();
        let tell = Mutex::new(Some(tell));
        let broken = move || lock(&tell).take().into_iter().for_each(|tell| tell.send(()).unwrap());
        let (_, nobody) = mpsc::channel();
        let writer = Writer::spawn(Slow(nobody, Arc::default()));
        let mut output = Output::from_sink(Sink::Thread(writer), Box::new(broken));
        output.write(Bytes::from_static(b"one\n")).unwrap();
        told.await.unwrap();
    }

    #[tokio::test]
    async fn a_write_without_a_permit_is_the_component_s_fault() {
        let (_go, _taken, mut output) = slow();
        output.write(Bytes::from_static(b"one\n")).unwrap();
        let second = output.write(Bytes::from_static(b"two\n"));
        assert!(matches!(second, Err(StreamError::Trap(_))));
    }
}
