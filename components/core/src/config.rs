//! The settings of a machine, and their defaults. [`Config::new`] is the only call of the
//! core that can fail. Parsing options does not belong here.

use crate::quirks::Quirks;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Uri};
use std::fmt;
use std::time::Duration;
use url::Url;

/// The settings of one machine.
#[derive(Debug, Clone)]
pub struct Config {
    pub(crate) url: Url,
    /// The server's transport.
    pub transport: Transport,
    /// The server's era.
    pub era: Era,
    /// Headers for every call: credentials, and others that the user sets.
    pub headers: HeaderMap,
    /// Limit for a request without any sign of life; `None` for no limit.
    pub request_timeout: Option<Duration>,
    /// Limit for a response to begin; `None` for no limit besides the request's.
    pub first_byte_timeout: Option<Duration>,
    /// Limit for an HTTP+SSE server to name its endpoint.
    pub endpoint_timeout: Duration,
    /// Limit for a request, with or without signs of life; `None` for no limit.
    pub total_timeout: Option<Duration>,
    /// How often to retry a call that did not reach the server.
    pub retries: u32,
    /// Limit for a message in either direction, in bytes.
    pub max_message: usize,
    /// When to ping an idle server.
    pub keep_alive: KeepAlive,
    /// Which known faults of peers to tolerate.
    pub quirks: Quirks,
    /// Limit for open requests after the client closed its side.
    pub drain_timeout: Duration,
    /// Whether to follow redirects within the server's origin.
    pub redirects: bool,
    /// Whether to write a note for every exchange with the server.
    pub trace: bool,
    /// The client's transport.
    pub client: ClientTransport,
}

/// The transports of a client.
#[derive(Debug, Clone)]
#[allow(clippy::large_enum_variant, reason = "there is one for each machine")]
pub enum ClientTransport {
    /// Stdio: one message per line.
    Lines,
    /// Streamable HTTP: the machine is the server.
    Http(HttpTransport),
}

/// The settings of a machine that is a Streamable HTTP server to its client.
#[derive(Debug, Clone)]
pub struct HttpTransport {
    /// The session id, which the shell chooses; it must be impossible to guess.
    pub session: HeaderValue,
    /// How many requests may be open at once.
    pub most_open: usize,
    /// Limit for messages that wait until the client opens a stream, in bytes.
    pub queue_bytes: usize,
    /// How many events to keep for a client that lost its connection.
    pub replay_events: usize,
    /// How many bytes of such events to keep.
    pub replay_bytes: usize,
    /// How long the response to a request waits for the answer, so that it can be one JSON
    /// body. After that, or with the first other message, it becomes a stream.
    pub hold: Duration,
    /// How long a stream may be silent before it gets a comment.
    pub heartbeat: Duration,
    /// How long a question of the server may wait for a stream, and how long a client may
    /// leave a response unread.
    pub patience: Duration,
    /// Whether to replace a lost session with the server.
    pub recovers: bool,
    /// Whether the server gets the client's own credentials. Then the client gets the server's
    /// refusal of them: the status, 401 or 403, and the challenge. A response waits until the
    /// server has admitted its request, within limits.
    pub challenges: bool,
    /// The key that signs each `requestState`: a place, a dot and a secret. Each state begins
    /// with the place, so that a shell with several machines finds the right one. Without a
    /// secret, a client could guess the state of another.
    pub states: String,
    /// The last snapshot of another machine, to continue its session.
    pub resumed: Option<Snapshot>,
    /// What another machine has found out about the server. This machine does not ask
    /// again, but corrects itself if no session can be opened that way. It ignores what
    /// contradicts `Config::era` and `Config::transport`.
    pub found: Option<Found>,
    /// The headers of a session that a lost machine has left open at the server, from
    /// [`Proxy::session`](crate::Proxy::session). This machine ends that session.
    pub left: Vec<(HeaderName, HeaderValue)>,
}

/// How a machine speaks to its server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// The server's era.
    pub era: Era,
    /// The server's transport.
    pub transport: Transport,
}

/// How far a machine has detected its server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detection {
    /// Not enough to send the client's requests.
    Unknown,
    /// The machine was told the era, or assumes it, and no session proves it yet.
    Assumed,
    /// The server has answered in this way.
    Found(Found),
}

/// The state that another machine needs to reopen the session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// The client's `initialize`.
    pub initialize: Bytes,
    /// The version that client and server agreed on.
    pub version: String,
    /// The client's settings: its log level and its subscriptions.
    pub settings: Vec<Bytes>,
}

impl HttpTransport {
    /// The default settings for a session with this id.
    #[must_use]
    pub fn new(session: HeaderValue) -> Self {
        Self {
            session,
            most_open: 256,
            queue_bytes: 1 << 20,
            replay_events: 512,
            replay_bytes: 1 << 20,
            hold: Duration::from_millis(250),
            heartbeat: Duration::from_secs(15),
            patience: Duration::from_secs(30),
            recovers: true,
            challenges: false,
            states: String::new(),
            resumed: None,
            found: None,
            left: Vec::new(),
        }
    }
}

/// The transports of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// The proxy detects it with the client's first message.
    Auto,
    /// Streamable HTTP, 2025-03-26 and later.
    StreamableHttp,
    /// HTTP+SSE of 2024-11-05: one stream, and an endpoint that it names.
    Sse,
}

/// The eras of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Era {
    /// The proxy detects it with the client's first message.
    Auto,
    /// Sessions, which begin with `initialize`: up to 2025-11-25.
    Legacy,
    /// No sessions: 2026-07-28.
    Modern,
}

/// When to ping the server of an idle session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeepAlive {
    /// After an idle stream was cut, often enough to avoid the next cut.
    Auto,
    /// Never.
    Off,
    /// After this much silence.
    Every(Duration),
}

/// A configuration that cannot work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConfigError {
    /// Not an absolute `http` or `https` URL with a host.
    Url(String),
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url(text) => write!(f, "not an http or https URL: {text}"),
        }
    }
}

impl std::error::Error for ConfigError {}

impl Config {
    /// What another machine has found out, unless it contradicts the settings.
    pub(crate) fn found(&self) -> Option<Found> {
        let ClientTransport::Http(HttpTransport { found, .. }) = &self.client else { return None };
        let era = |found: &Found| self.era == Era::Auto || self.era == found.era;
        let transport = |found: &Found| self.transport == Transport::Auto || self.transport == found.transport;
        found.filter(|found| era(found) && transport(found))
    }

    /// The URL of the server.
    #[must_use]
    pub fn url(&self) -> &str {
        self.url.as_str()
    }

    /// Whether the client gets the server's refusal of its credentials.
    pub(crate) fn challenges(&self) -> bool {
        matches!(&self.client, ClientTransport::Http(HttpTransport { challenges: true, .. }))
    }

    /// The default settings for the server at `url`.
    ///
    /// # Errors
    /// If `url` is not an absolute `http` or `https` URL.
    pub fn new(url: &str) -> Result<Self, ConfigError> {
        let bad = || ConfigError::Url(url.to_owned());
        let mut parsed = Url::parse(url).map_err(|_| bad())?;
        parsed.set_fragment(None);
        let usable = matches!(parsed.scheme(), "http" | "https") && parsed.has_host();
        if !usable || Uri::try_from(parsed.as_str()).is_err() {
            return Err(bad());
        }
        Ok(Self {
            url: parsed,
            transport: Transport::Auto,
            era: Era::Auto,
            headers: HeaderMap::new(),
            request_timeout: Some(Duration::from_secs(300)),
            first_byte_timeout: None,
            endpoint_timeout: Duration::from_secs(10),
            total_timeout: None,
            retries: 3,
            max_message: 64 << 20,
            keep_alive: KeepAlive::Auto,
            quirks: Quirks::default(),
            drain_timeout: Duration::from_secs(5),
            redirects: true,
            trace: false,
            client: ClientTransport::Lines,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_absolute_http_urls_are_taken() {
        for good in ["http://h/mcp", "https://h:1/a?b=c", "http://[::1]:8/", "http://h#f"] {
            assert!(Config::new(good).is_ok(), "{good}");
        }
        for bad in ["", "h/mcp", "/mcp", "ftp://h/", "http://", "http://:80/", "file:///x"] {
            assert!(Config::new(bad).is_err(), "{bad}");
        }
    }
}
