//! The pooled client, and when its idle connections are too old to use.
//!
//! A server closes an idle HTTP/1.1 connection after a time of its own choice. A request
//! sent at that moment is lost, and nobody can tell whether the server received it. So
//! the pool closes connections a little before the server would: after the time that the
//! server announces (`Keep-Alive: timeout=…`), or after a usual time.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use ::http::{HeaderMap, Uri, uri::Scheme};
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use wasmtime_wasi_http::WasiBody;

use super::dial::Dialer;

/// Local servers (Node, uvicorn) close after 5 s, and connecting to them is quick.
const PLAIN_IDLE: Duration = Duration::from_secs(4);
/// Load balancers close after 60 s and more, and a TLS handshake is slow.
const SECURE_IDLE: Duration = Duration::from_secs(50);
/// How much earlier than the server to close a connection.
const MARGIN: Duration = Duration::from_secs(1);

pub(super) struct Pool {
    dialer: Dialer,
    client: Client<Dialer, WasiBody>,
    usage: Arc<Usage>,
}

/// What the pool learned from the responses of one client.
pub(super) struct Usage {
    start: Instant,
    /// Milliseconds from `start` to the last response.
    used: AtomicU64,
    /// The server's announced idle time in milliseconds; zero if none.
    announced: AtomicU64,
}

impl Pool {
    pub(super) fn new(dialer: Dialer) -> Self {
        let client = client(dialer.clone());
        let usage = Arc::new(Usage::new());
        Self { dialer, client, usage }
    }

    pub(super) fn dialer(&self) -> Dialer {
        self.dialer.clone()
    }

    /// The client for a request to `uri`, without connections that are too old.
    pub(super) fn client(&mut self, uri: &Uri) -> (&Client<Dialer, WasiBody>, Arc<Usage>) {
        if self.usage.is_stale(uri) {
            // Exchanges under way keep their connections; the idle ones are closed.
            self.client = client(self.dialer.clone());
            self.usage = Arc::new(Usage::new());
        }
        (&self.client, self.usage.clone())
    }
}

impl Usage {
    fn new() -> Self {
        Self { start: Instant::now(), used: AtomicU64::new(0), announced: AtomicU64::new(0) }
    }

    /// Learns from a response.
    pub(super) fn answered(&self, headers: &HeaderMap) {
        self.used.store(millis(self.start.elapsed()), Ordering::Relaxed);
        if let Some(limit) = announced(headers) {
            self.announced.store(millis(limit), Ordering::Relaxed);
        }
    }

    fn is_stale(&self, uri: &Uri) -> bool {
        let used = Duration::from_millis(self.used.load(Ordering::Relaxed));
        let announced = Duration::from_millis(self.announced.load(Ordering::Relaxed));
        self.start.elapsed().saturating_sub(used) > idle_limit(uri, announced)
    }
}

fn idle_limit(uri: &Uri, announced: Duration) -> Duration {
    if !announced.is_zero() {
        return announced.saturating_sub(MARGIN);
    }
    if uri.scheme() == Some(&Scheme::HTTP) { PLAIN_IDLE } else { SECURE_IDLE }
}

/// Parses `Keep-Alive: timeout=5, max=100`.
fn announced(headers: &HeaderMap) -> Option<Duration> {
    let value = headers.get("keep-alive")?.to_str().ok()?;
    let timeout = value.split(',').find_map(|part| part.trim().strip_prefix("timeout="))?;
    timeout.parse().ok().map(Duration::from_secs)
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn client(dialer: Dialer) -> Client<Dialer, WasiBody> {
    // No pool timer, so that nothing wakes an idle process.
    Client::builder(TokioExecutor::new())
        .pool_idle_timeout(SECURE_IDLE)
        .http2_initial_stream_window_size(1 << 20)
        .http2_initial_connection_window_size(4 << 20)
        .build(dialer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_given_up_before_the_server_does() {
        let plain = Uri::from_static("http://a.example/");
        let secure = Uri::from_static("https://a.example/");
        let seconds = Duration::from_secs;
        let cases = [
            (&plain, seconds(0), seconds(4)),
            (&secure, seconds(0), seconds(50)),
            (&plain, seconds(5), seconds(4)),
            (&secure, seconds(5), seconds(4)),
            (&plain, seconds(75), seconds(74)),
            (&plain, Duration::from_millis(500), seconds(0)),
        ];
        for (uri, announced, limit) in cases {
            assert_eq!(idle_limit(uri, announced), limit, "{uri} {announced:?}");
        }
    }

    #[test]
    fn the_announced_idle_time_is_read() {
        let cases = [("timeout=5", Some(5)), ("max=9, timeout=72", Some(72)), ("max=9", None), ("timeout=x", None)];
        for (value, expected) in cases {
            let headers = HeaderMap::from_iter([("keep-alive".parse().unwrap(), value.parse().unwrap())]);
            assert_eq!(announced(&headers), expected.map(Duration::from_secs), "{value}");
        }
    }
}
