//! What a machine is told before it starts. Reading it is the one call of the
//! core that can fail. Defaults are those of the behaviour contract.

use crate::quirks::Quirks;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Uri};
use std::fmt;
use std::time::Duration;
use url::Url;

/// The settings of one machine.
#[derive(Debug, Clone)]
pub struct Config {
    pub(crate) url: Url,
    /// How the server is spoken to.
    pub transport: Transport,
    /// Sent with every call: credentials and whatever else the user asks for.
    pub headers: HeaderMap,
    /// How long a request may go without any sign of life; `None` for ever.
    pub request_timeout: Option<Duration>,
    /// How long a response may take to begin; `None`: as long as the request may.
    pub first_byte_timeout: Option<Duration>,
    /// How long an HTTP+SSE server may take to name its endpoint.
    pub endpoint_timeout: Duration,
    /// How long a request may take at all; `None` for ever.
    pub total_timeout: Option<Duration>,
    /// How often a call that did not reach the server is repeated.
    pub retries: u32,
    /// The longest message, in bytes, in either direction.
    pub max_message: usize,
    /// When the server is asked for a sign of life.
    pub keep_alive: KeepAlive,
    /// What is put up with.
    pub quirks: Quirks,
    /// How long open requests may take after the client closed its side.
    pub drain_timeout: Duration,
    /// Whether redirects within the server's origin are followed.
    pub redirects: bool,
    /// Whether there is a note for every exchange with the server.
    pub trace: bool,
    /// How the client speaks to us.
    pub client: ClientTransport,
}

/// The ways in which a client speaks to us.
#[derive(Debug, Clone)]
#[allow(clippy::large_enum_variant, reason = "there is one for each machine")]
pub enum ClientTransport {
    /// On stdio: one message a line.
    Lines,
    /// As to a Streamable HTTP server.
    Http(HttpTransport),
}

/// The settings of a machine that is a Streamable HTTP server to its client.
#[derive(Debug, Clone)]
pub struct HttpTransport {
    /// What the session is called: made by the shell, and not to be guessed.
    pub session: HeaderValue,
    /// How many requests may be open at once.
    pub most_open: usize,
    /// How many bytes may wait for the client to open a stream.
    pub queue_bytes: usize,
    /// How many events are kept for a client that lost its connection.
    pub replay_events: usize,
    /// How many bytes of them.
    pub replay_bytes: usize,
    /// How long the response to a request waits for the answer, to be that and
    /// nothing else. Then, or with the first other message, it becomes a stream.
    pub hold: Duration,
    /// After how much silence a stream gets a comment.
    pub heartbeat: Duration,
    /// How long a question of the server may wait for a stream, and a client
    /// may let a response lie unread.
    pub patience: Duration,
    /// Whether a lost session with the server is replaced by a new one.
    pub recovers: bool,
    /// What was known of the session before this machine.
    pub resumed: Option<Snapshot>,
}

/// What a session is opened again with, by another machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// The client's `initialize`.
    pub initialize: Bytes,
    /// The version that was agreed on.
    pub version: String,
    /// What the client has set: its log level and its subscriptions.
    pub settings: Vec<Bytes>,
}

impl HttpTransport {
    /// The default settings for a session of this name.
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
            resumed: None,
        }
    }
}

/// The ways to speak to a server over HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// Found out with the client's first message.
    Auto,
    /// Streamable HTTP, 2025-03-26 and later.
    StreamableHttp,
    /// HTTP+SSE of 2024-11-05: one stream, and an endpoint that it names.
    Sse,
}

/// When the server of an idle session gets a ping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeepAlive {
    /// Once the path has cut an idle stream, often enough that it does not again.
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
