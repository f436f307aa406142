//! Every open call has a connection, and a process may have 1,024 files open
//! unless it asks for more.

/// Asks for as many as the system allows. What it refuses shows when a
/// connection cannot be made.
pub(super) fn raise_limit() {
    #[cfg(unix)]
    let _ = rlimit::increase_nofile_limit(u64::MAX);
}
