//! Which calls need explicit timeouts. A host has its own limits (ten minutes in
//! wasmtime), and wasmtime up to 50.0.1 keeps the options of every request for its whole
//! life, a million at most. So only calls for which the host's limits are wrong get
//! options.

use http::Method;
use mcp_proxy_core::Time;
use std::time::Duration;
use wasip2::http::types::RequestOptions;

/// The core enforces timeouts; the host must not cut a quiet stream.
const FOREVER: Duration = Duration::from_secs(10 * 365 * 24 * 3600);
/// The host's own limit for each of connecting, waiting and reading.
const HOST_LIMIT: Duration = Duration::from_secs(600);
/// A server that responded within this time accepts connections.
const RECENT: Duration = Duration::from_secs(30);
/// The host's table holds a million entries; the rest is for calls.
const MOST_OPTIONS: u32 = 900_000;

pub(crate) struct HostLimits {
    connect: Duration,
    /// The core's limit on silence is shorter than the host's.
    patient: bool,
    answered: Option<Time>,
    given: u32,
}

impl HostLimits {
    pub(crate) fn new(connect: Duration, silence: Option<Duration>) -> Self {
        let patient = silence.is_some_and(|silence| silence < HOST_LIMIT);
        Self { connect, patient, answered: None, given: 0 }
    }

    pub(crate) fn answered(&mut self, now: Time) {
        self.answered = Some(now);
    }

    /// The options for a call that starts now, if it needs any.
    pub(crate) fn options(&mut self, now: Time, method: &Method) -> Option<RequestOptions> {
        if !self.wanted(now, method) {
            return None;
        }
        self.given += 1;
        let options = RequestOptions::new();
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).ok();
        // A host may reject a setting; its own limit then applies.
        options.set_connect_timeout(nanos(self.connect)).ok();
        options.set_first_byte_timeout(nanos(FOREVER)).ok();
        options.set_between_bytes_timeout(nanos(FOREVER)).ok();
        Some(options)
    }

    fn wanted(&self, now: Time, method: &Method) -> bool {
        let reached = self.answered.is_some_and(|at| now.since(at) < RECENT);
        let quiet = *method == Method::GET || !self.patient;
        self.given < MOST_OPTIONS && (quiet || !reached)
    }
}
