//! Raises the limit on open files: every open call needs a connection, and by default a
//! process may have 1,024 files open.

/// Requests the highest limit that the system allows. A refusal shows later, when a
/// connection fails.
pub(super) fn raise_limit() {
    #[cfg(unix)]
    let _ = rlimit::increase_nofile_limit(u64::MAX);
}
