//! The component's stdin and stdout, without ever blocking the runtime, and its
//! stderr where that is more than the process's own.
//!
//! Where the kernel can do it (Linux, pipes and sockets) reads and writes happen
//! on the runtime's own thread, since handing each message to another thread
//! costs more than relaying it. Everywhere else a thread does the waiting.
//! Flags of a file that other processes share are never changed.

#[cfg(target_os = "linux")]
mod fd;
mod input;
mod output;
mod stderr;
mod stop;
mod writer;

pub use input::Input;
pub use output::Output;
pub use stderr::Stderr;
pub use stop::{Stdin, Stop};

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Neither side panics while it holds a lock; a poisoned one is still whole.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
