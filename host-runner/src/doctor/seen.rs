//! What the exchanges of a session show about the server: pure functions of the exchanges.

use ::http::{
    HeaderName, Method, StatusCode,
    header::{CONTENT_TYPE, LOCATION},
};

use super::finding::Finding;
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

/// How the server takes a notification.
pub(super) fn notification(exchange: Option<&Exchange>) -> Finding {
    match exchange.and_then(status) {
        Some(StatusCode::ACCEPTED) => Finding::ok("notifications", "the server accepts them with 202"),
        Some(status) if status.is_success() => Finding::note(
            "notifications",
            format!(
                "the server answers {} instead of 202; the proxy tolerates it (quirk any-success)",
                status.as_u16()
            ),
        ),
        Some(status) => Finding::warning("notifications", format!("the server refuses them with {}", status.as_u16())),
        None => Finding::warning("notifications", "the server does not answer them"),
    }
}

/// What became of the listening stream.
pub(super) fn listening(exchange: Option<&Exchange>) -> Finding {
    let Some(exchange) = exchange else { return Finding::note("GET", "the proxy opened no listening stream") };
    match status(exchange) {
        _ if is_open_stream(exchange) => Finding::ok("GET", "the server has a listening stream"),
        Some(StatusCode::METHOD_NOT_ALLOWED) => Finding::ok("GET", "the server has no listening stream (405)"),
        Some(status) => Finding::warning(
            "GET",
            format!(
                "the server answers {} instead of an event stream or 405; messages that belong to no request do not arrive",
                status.as_u16()
            ),
        ),
        None => Finding::warning("GET", "the server does not answer; messages that belong to no request do not arrive"),
    }
}

/// The first redirect.
pub(super) fn redirect(exchanges: &[Exchange]) -> Option<Finding> {
    let redirects = |exchange: &&Exchange| status(exchange).is_some_and(|status| status.is_redirection());
    let redirect = exchanges.iter().find(redirects)?;
    let target = header(std::slice::from_ref(redirect), &LOCATION).unwrap_or_default();
    let (method, path, status) = (&redirect.method, redirect.uri.path(), status(redirect)?.as_u16());
    let finding = Finding::note("redirect", format!("the server redirects {method} {path} to {target} ({status})"));
    Some(finding.hint("use the URL that it redirects to"))
}

/// How the server takes the end of a session, if it keeps any.
pub(super) fn ending(exchanges: &[Exchange]) -> Option<Finding> {
    let delete = exchanges.iter().rfind(|exchange| exchange.method == Method::DELETE)?;
    let open = "sessions stay open until it forgets them";
    Some(match status(delete) {
        Some(status) if status.is_success() => {
            Finding::ok("ending", format!("DELETE ends the session ({})", status.as_u16()))
        }
        Some(StatusCode::METHOD_NOT_ALLOWED) => {
            Finding::ok("ending", "sessions end by themselves: the server refuses DELETE (405)")
        }
        Some(status) => Finding::warning("ending", format!("the server answers {} to DELETE: {open}", status.as_u16())),
        None => Finding::warning("ending", format!("the server does not answer DELETE: {open}")),
    })
}
