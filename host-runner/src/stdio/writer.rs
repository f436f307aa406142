//! A thread that writes, for files that support only blocking writes. It holds one piece
//! at a time and reports when that piece is written.

use std::{
    io::{self, Write},
    sync::{Arc, Condvar, Mutex},
    task::{Context, Poll, Waker},
};

use bytes::Bytes;

use super::lock;

pub(super) struct Writer(Arc<Shared>);

#[derive(Default)]
struct Shared {
    desk: Mutex<Desk>,
    work: Condvar,
}

/// The state shared between the runtime and the thread.
#[derive(Default)]
struct Desk {
    /// The piece stays here until all of it is written.
    piece: Option<Bytes>,
    failed: Option<io::ErrorKind>,
    waiting: Option<Waker>,
}

impl Writer {
    pub(super) fn spawn(out: impl Write + Send + 'static) -> Self {
        let shared = Arc::new(Shared::default());
        let worker = shared.clone();
        let thread = std::thread::Builder::new().name("stdout".into());
        if thread.spawn(move || work(&worker, out)).is_err() {
            lock(&shared.desk).failed = Some(io::ErrorKind::OutOfMemory);
        }
        Self(shared)
    }

    /// Hands `pending` to the thread if it is free.
    pub(super) fn try_write(&mut self, pending: &mut Bytes) -> io::Result<()> {
        let mut desk = lock(&self.0.desk);
        if let Some(kind) = desk.failed {
            return Err(kind.into());
        }
        if desk.piece.is_none() && !pending.is_empty() {
            desk.piece = Some(std::mem::take(pending));
            self.0.work.notify_one();
        }
        Ok(())
    }

    /// Ready when `pending` and everything handed over before are written.
    pub(super) fn poll_write(&mut self, cx: &mut Context<'_>, pending: &mut Bytes) -> Poll<io::Result<()>> {
        self.try_write(pending)?;
        let mut desk = lock(&self.0.desk);
        match (&desk.piece, desk.failed) {
            (_, Some(kind)) => Poll::Ready(Err(kind.into())),
            (None, None) => Poll::Ready(Ok(())),
            (Some(_), None) => {
                desk.waiting = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

fn work(shared: &Shared, mut out: impl Write) {
    loop {
        let piece = next_piece(shared);
        let written = out.write_all(&piece).and_then(|()| out.flush());
        let mut desk = lock(&shared.desk);
        desk.piece = None;
        desk.failed = written.as_ref().err().map(io::Error::kind);
        if let Some(waker) = desk.waiting.take() {
            waker.wake();
        }
        if written.is_err() {
            return;
        }
    }
}

fn next_piece(shared: &Shared) -> Bytes {
    let mut desk = lock(&shared.desk);
    loop {
        if let Some(piece) = &desk.piece {
            return piece.clone();
        }
        desk = match shared.work.wait(desk) {
            Ok(desk) => desk,
            Err(poisoned) => poisoned.into_inner(),
        };
    }
}
