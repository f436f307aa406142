//! The errors that the proxy sends when the server's answer is missing: a message for
//! people, and `error.data`, which is stable and meant for programs. Who receives the
//! error, and over which transport, does not belong here.

use crate::back::challenge::{self, Challenge};
use crate::boundary::CallError;
use crate::record::shown_path;
use crate::wire::message::{self, Id};
use crate::wire::text::steers;
use http::StatusCode;
use serde::Serialize;
use std::borrow::Cow;
use std::time::Duration;
use url::Url;

/// JSON-RPC: the message is not JSON.
pub(crate) const PARSE_ERROR: i64 = -32700;
/// JSON-RPC: the message is not a request that the proxy can serve.
pub(crate) const INVALID_REQUEST: i64 = -32600;
/// JSON-RPC, implementation-defined range: the server gave no usable answer.
pub(crate) const NO_ANSWER: i64 = -32000;

/// MCP: the proxy does not support this protocol version.
pub(crate) const UNSUPPORTED_VERSION: i64 = -32022;

/// How many bytes of an unexpected body to quote.
const EXCERPT: usize = 200;

/// What a user can do about a 401.
const CREDENTIALS: &str = "pass a token with --header or --bearer-token-env; \
    `mcp-proxy login URL` and `mcp-proxy auth token URL` get one where the server has a login";

/// How a message ends if the request may have run.
const MAYBE: &str = "may have been carried out";

/// An error that explains what happened.
#[derive(Debug, Clone)]
pub(crate) struct Failure {
    pub(crate) code: i64,
    pub(crate) message: String,
    /// For the user of the proxy: an option that helps, or the server's address.
    pub(crate) hint: Option<Cow<'static, str>>,
    pub(crate) data: Data,
}

/// The members of `error.data`; programs rely on them.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Data {
    /// How far the request got.
    pub(crate) phase: Phase,
    /// Whether the request can have reached the server.
    pub(crate) delivered: Delivered,
    /// Whether it is safe to send the request again.
    pub(crate) retry_safe: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) http_status: Option<u16>,
    /// How often the proxy sent the request; 0 if never.
    pub(crate) attempt: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) body: Option<String>,
    /// The `WWW-Authenticate` header of the response.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) challenge: Option<String>,
    /// What the proxy tried in order to detect the transport.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) attempts: Vec<Attempt>,
}

/// The server refused the credentials of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Denial<'a> {
    pub(crate) status: StatusCode,
    /// The server's challenge, as it came.
    pub(crate) challenge: Option<&'a str>,
}

/// One attempt to detect the server's transport.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Attempt {
    pub(crate) method: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) http_status: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) body: Option<String>,
    #[serde(skip)]
    pub(crate) outcome: String,
}

impl Attempt {
    /// An attempt that ended in this failure.
    pub(crate) fn new(method: &'static str, failure: &Failure) -> Self {
        let Data { http_status, body, .. } = failure.data.clone();
        Self { method, http_status, body, outcome: failure.message.clone() }
    }

    fn words(&self) -> String {
        format!("{}: {}", self.method, self.outcome)
    }
}

#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Phase {
    /// Before the proxy accepted it: the message itself is at fault.
    Client,
    /// Detecting the server's transport.
    Detect,
    /// Opening or restoring the session.
    Session,
    /// Connecting to the server.
    Connect,
    /// Waiting for the response to begin.
    Response,
    /// Reading the response.
    Stream,
    /// The client left before the answer came.
    Drain,
    /// Inside the proxy.
    Proxy,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Delivered {
    No,
    Maybe,
    Yes,
}

impl Failure {
    pub(crate) fn new(phase: Phase, delivered: Delivered, message: impl Into<String>) -> Self {
        let retry_safe = delivered == Delivered::No;
        let data = Data {
            phase,
            delivered,
            retry_safe,
            http_status: None,
            attempt: 0,
            body: None,
            challenge: None,
            attempts: Vec::new(),
        };
        Self { code: NO_ANSWER, message: message.into(), hint: None, data }
    }

    /// The proxy refused the request itself.
    pub(crate) fn refused(code: i64, message: impl Into<String>) -> Self {
        Self { code, ..Self::new(Phase::Client, Delivered::No, message) }
    }

    /// The call to `url` failed before its response began; `words` describe the cause.
    pub(crate) fn call(error: CallError, words: &str, url: &Url) -> Self {
        let words = one_line(words);
        let cause = if words.is_empty() { error.to_string() } else { format!("{error}: {words}") };
        let mut failure = match error.before_sending() {
            true => Self::new(Phase::Connect, Delivered::No, format!("the server could not be reached: {cause}")),
            false => Self::new(Phase::Response, Delivered::Maybe, format!("{cause} before the response began")),
        };
        failure.hint = Some(address(url).into());
        failure
    }

    /// The stream ended before it delivered the answer.
    pub(crate) fn stream(error: Option<CallError>, url: &Url) -> Self {
        let how = error.map_or("the response ended".to_owned(), |error| error.to_string());
        let message = format!("{how} before the answer came");
        Self { hint: Some(address(url).into()), ..Self::new(Phase::Stream, Delivered::Maybe, message) }
    }

    /// The same failure, for a request that had this delivery status before.
    pub(crate) fn after(mut self, earlier: Delivered) -> Self {
        if self.data.delivered == Delivered::No && earlier != Delivered::No {
            (self.data.delivered, self.data.retry_safe) = (earlier, false);
            if earlier == Delivered::Maybe && matches!(self.data.phase, Phase::Connect) {
                self.message = format!("{}; an earlier attempt {MAYBE}", self.message);
            }
        }
        self
    }

    /// The same failure, for a request that never left.
    pub(crate) fn undelivered(mut self) -> Self {
        (self.data.delivered, self.data.retry_safe) = (Delivered::No, true);
        self
    }

    /// A timeout: `what` the server failed to do, and the `option` that sets the limit.
    pub(crate) fn late(phase: Phase, delivered: Delivered, what: &str, limit: Duration, option: &'static str) -> Self {
        let message = format!("{what} {} s", limit.as_secs_f64());
        Self { hint: Some(option.into()), ..Self::new(phase, delivered, message) }
    }

    /// Detection found no transport.
    pub(crate) fn undetected(attempts: Vec<Attempt>) -> Self {
        let told: Vec<String> = attempts.iter().map(Attempt::words).collect();
        let message = format!("no MCP server was found at this URL: {}", told.join("; "));
        let mut failure = Self::new(Phase::Detect, Delivered::No, message);
        failure.data.http_status = attempts.first().and_then(|attempt| attempt.http_status);
        failure.data.attempts = attempts;
        failure
    }

    /// A response whose status is an error.
    pub(crate) fn status(status: StatusCode, body: &[u8]) -> Self {
        let delivered = match status.as_u16() {
            401 | 403 | 404 | 405 | 429 => Delivered::No,
            300..=399 => Delivered::No,
            400..=499 => Delivered::Yes,
            _ => Delivered::Maybe,
        };
        let reason = match status.as_u16() {
            401 => ": it wants credentials",
            403 => ": it refuses these credentials",
            _ => "",
        };
        let message = format!("the server answered HTTP {status}{reason}{}", quoted(body));
        let mut failure = Self::new(Phase::Response, delivered, message);
        failure.hint = (status == StatusCode::UNAUTHORIZED).then_some(CREDENTIALS.into());
        failure.data.http_status = Some(status.as_u16());
        failure.data.body = excerpt(body);
        failure
    }

    /// Adds what the server's challenge says, and why a host that logs in has no token.
    pub(crate) fn challenged(mut self, Challenge { text, no_login }: Challenge) -> Self {
        let words = text.as_deref().map(challenge::words).unwrap_or_default();
        if !words.is_empty() {
            self.message = format!("{} ({words})", self.message);
        }
        if let Some(cause) = no_login {
            self.message = format!("{}; {}", one_line(&cause), self.message);
            self.hint = None;
        }
        self.data.challenge = text;
        self
    }

    /// The refusal of credentials that this is, if it is one: a 401, or a 403 that says which
    /// token the server wants.
    pub(crate) fn denial(&self) -> Option<Denial<'_>> {
        let status = StatusCode::from_u16(self.data.http_status?).ok()?;
        let challenge = self.data.challenge.as_deref();
        let wants_token = status == StatusCode::FORBIDDEN && challenge.is_some_and(challenge::names_bearer);
        (status == StatusCode::UNAUTHORIZED || wants_token).then_some(Denial { status, challenge })
    }

    /// A redirect that the proxy does not follow.
    pub(crate) fn redirected(status: StatusCode, target: &Url) -> Self {
        let place = format!("{}://{}{}", target.scheme(), address(target), one_line(&shown_path(target.path())));
        let failure =
            Self::body(status, &format!("it redirects to {place}, and the proxy does not follow it there"), &[]);
        Self { hint: Some("if you trust it, use that URL".into()), ..failure.undelivered() }
    }

    /// A response whose body is not an answer.
    pub(crate) fn body(status: StatusCode, why: &str, body: &[u8]) -> Self {
        let message = format!("the server answered HTTP {status}, but {why}{}", quoted(body));
        let mut failure = Self::new(Phase::Response, Delivered::Yes, message);
        failure.data.http_status = Some(status.as_u16());
        failure.data.body = excerpt(body);
        failure
    }

    /// An error of the server that is not one of JSON-RPC, so that clients would drop it.
    pub(crate) fn no_error(beginning: &[u8]) -> Self {
        let message = format!("the server's error is not one of JSON-RPC{}", quoted(beginning));
        let mut failure = Self::new(Phase::Response, Delivered::Yes, message);
        failure.data.body = excerpt(beginning);
        failure
    }

    /// The error response for the request `id`.
    pub(crate) fn answer(&self, id: &Id) -> Vec<u8> {
        message::write_error(id, self.code, &self.text(), Some(&self.data))
    }

    /// The same with the hint, for a client whose user controls the command line.
    pub(crate) fn answer_with_hint(&self, id: &Id) -> Vec<u8> {
        message::write_error(id, self.code, &self.words(), Some(&self.data))
    }

    /// What happened, and the hint.
    fn words(&self) -> String {
        let text = self.text();
        self.hint.as_ref().map_or_else(|| text.to_string(), |hint| format!("{text} ({hint})"))
    }

    /// What happened. A failure may be the cause of another request's, so the message itself
    /// does not say whether its own request ran.
    fn text(&self) -> Cow<'_, str> {
        if self.data.delivered == Delivered::Maybe && !self.message.ends_with(MAYBE) {
            return format!("{}; the request {MAYBE}", self.message).into();
        }
        self.message.as_str().into()
    }

    pub(crate) fn too_long(max: usize) -> Self {
        let message = format!("the answer is over the message limit of {max} bytes");
        Self { hint: Some("--max-message-bytes".into()), ..Self::new(Phase::Stream, Delivered::Yes, message) }
    }
}

/// Host and port of a URL, without possible credentials.
fn address(url: &Url) -> String {
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    format!("{}{port}", url.host_str().unwrap_or_default())
}

/// The beginning of a body, for people to read.
fn quoted(body: &[u8]) -> String {
    let text = one_line(&excerpt(body).unwrap_or_default());
    // A compressed body is unreadable to people.
    let readable = !text.is_empty() && !text.contains(char::REPLACEMENT_CHARACTER);
    if readable { format!(": {text}") } else { String::new() }
}

/// A peer's text on one line, truncated and unable to control a terminal.
pub(crate) fn one_line(text: &str) -> String {
    const MOST: usize = 300;
    let words = text.split(|letter: char| letter.is_whitespace() || steers(letter));
    let line = words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    line.chars().take(MOST).collect()
}

fn excerpt(body: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(body.get(..EXCERPT).unwrap_or(body));
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}
