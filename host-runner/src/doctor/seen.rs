//! What the exchanges of a session show about the server. Pure functions of the exchanges.

use ::http::{HeaderName, Method, StatusCode, header::CONTENT_TYPE};

use crate::http::{Exchange, Outcome};

pub(super) const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
pub(super) const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
/// The revision without sessions.
pub(super) const MODERN: &str = "2026-07-28";

/// Kinds of servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Streamable HTTP with `initialize`.
    Legacy,
    Sse,
    Modern,
}

impl Kind {
    /// Which kind has answered the handshake.
    pub(super) fn of(handshake: &[Exchange]) -> Self {
        let mut posts = handshake.iter().filter(|exchange| exchange.method == Method::POST);
        if handshake.iter().any(is_open_stream) {
            Self::Sse
        } else if posts.all(|post| post.headers.get(VERSION).is_some_and(|version| version == MODERN)) {
            Self::Modern
        } else {
            Self::Legacy
        }
    }

    pub(super) fn transport(self) -> &'static str {
        match self {
            Self::Legacy | Self::Modern => "Streamable HTTP",
            Self::Sse => "HTTP+SSE, the transport of 2024-11-05",
        }
    }
}

pub(super) fn status(exchange: &Exchange) -> Option<StatusCode> {
    match &exchange.outcome {
        Outcome::Answered(answer) => Some(answer.status),
        Outcome::Waiting | Outcome::Failed => None,
    }
}

/// A GET that is an event stream.
pub(super) fn is_open_stream(exchange: &Exchange) -> bool {
    exchange.method == Method::GET && is_event_stream(exchange)
}

fn is_event_stream(exchange: &Exchange) -> bool {
    let Outcome::Answered(answer) = &exchange.outcome else { return false };
    let kind = answer.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    answer.status.is_success() && kind.starts_with("text/event-stream")
}

/// The value of the first response header of this name, if any response has it.
pub(super) fn header(exchanges: &[Exchange], name: &HeaderName) -> Option<String> {
    exchanges.iter().find_map(|exchange| {
        let Outcome::Answered(answer) = &exchange.outcome else { return None };
        answer.headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
    })
}

pub(super) fn is_over(exchange: &Exchange) -> bool {
    match &exchange.outcome {
        Outcome::Waiting => false,
        Outcome::Failed | Outcome::Answered(_) => true,
    }
}
