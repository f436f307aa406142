//! The component's stdin and stdout, without ever blocking the runtime, and its stderr
//! if the host must sort or mask its lines.
//!
//! If the kernel supports it (pipes and sockets on Linux), the runtime's own thread reads
//! and writes, since handing each message to another thread costs more than relaying it.
//! Everywhere else a thread waits. The host never changes flags of a file that
//! other processes share.

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

/// Nothing panics while holding a lock, so the data of a poisoned one is intact.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
