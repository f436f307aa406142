//! How servers report an unknown session, besides the protocol's 404. Each of these
//! responses means that the server did not execute the request.

use crate::wire::message::{self, Kind, Parsed};
use http::StatusCode;

/// Longest body to inspect; a refusal is short.
const LONGEST: usize = 4096;

/// One shape: the status, and words that the body contains, in lower case.
struct Shape(u16, &'static [&'static str]);

#[rustfmt::skip]
const SHAPES: &[Shape] = &[
    // The TypeScript and Python SDKs, after a restart.
    Shape(400, &["no valid session"]),
    Shape(400, &["server not initialized"]),
    // Gateways that map sessions to servers.
    Shape(400, &["session", "not found"]),
    Shape(400, &["session", "expired"]),
    Shape(400, &["invalid session"]),
    Shape(400, &["missing session id"]),
    Shape(400, &["unknown session"]),
    // The Rust SDK.
    Shape(401, &["session not found"]),
    Shape(401, &["session", "expired"]),
    // HTTP's own status for it.
    Shape(410, &[]),
    // Load balancers whose server is gone.
    Shape(503, &["session not found"]),
    // Proxies that answer every message with 200.
    Shape(200, &["session", "not found"]),
    Shape(200, &["session", "expired"]),
    Shape(200, &["invalid session"]),
    Shape(200, &["unknown session"]),
];

/// Whether a response with this status can report a lost session.
pub(super) fn may_say(status: StatusCode) -> bool {
    SHAPES.iter().any(|Shape(code, _)| *code == status.as_u16())
}

/// Does this response report a lost session? With a success status, the body must be a
/// JSON-RPC error.
pub(super) fn says_lost(status: StatusCode, body: &[u8]) -> bool {
    let mut shapes = SHAPES.iter().filter(|Shape(code, _)| *code == status.as_u16()).peekable();
    if body.len() > LONGEST || shapes.peek().is_none() {
        return false;
    }
    let text = match status.is_success() {
        true => error_text(body),
        false => Some(String::from_utf8_lossy(body).to_lowercase()),
    };
    text.is_some_and(|text| shapes.any(|Shape(_, words)| words.iter().all(|word| text.contains(word))))
}

fn error_text(body: &[u8]) -> Option<String> {
    memchr::memmem::find(body, b"\"error\"")?;
    let Ok(Parsed::One(message)) = message::parse(body.to_vec()) else { return None };
    let error = message.error();
    let said = matches!(message.kind, Kind::Response { .. }) && !error.is_empty();
    said.then(|| message::text_member(error, "message").unwrap_or_default().to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shape_is_known_and_nothing_else() {
        let gone = |status, body: &str| says_lost(StatusCode::from_u16(status).unwrap(), body.as_bytes());
        let error =
            |text: &str| format!(r#"{{"jsonrpc":"2.0","id":null,"error":{{"code":-32600,"message":"{text}"}}}}"#);
        let known = [
            (400, error("Bad Request: No valid session ID provided")),
            (400, error("Bad Request: Server not initialized")),
            (400, "Session abc not found".to_owned()),
            (400, "invalid session id".to_owned()),
            (400, "unknown session".to_owned()),
            (400, r#"{"error":"Invalid or missing session ID"}"#.to_owned()),
            (400, "Your session has expired".to_owned()),
            (401, "Unauthorized: Session not found".to_owned()),
            (401, "session expired".to_owned()),
            (410, String::new()),
            (503, error("Session not found")),
            (200, error("Session not found")),
            (200, error("session expired")),
            (200, error("Invalid session ID")),
            (200, error("unknown session")),
        ];
        for (status, body) in known {
            assert!(gone(status, &body), "{status} {body}");
        }
        let result = r#"{"jsonrpc":"2.0","id":1,"result":{"content":"session not found","error":1}}"#;
        let long = error(&format!("session not found {}", "x".repeat(LONGEST)));
        let others = [
            (400, error("Invalid params")),
            (401, "invalid token".to_owned()),
            (403, "session not found".to_owned()),
            (500, "session not found".to_owned()),
            (503, "overloaded".to_owned()),
            (200, result.to_owned()),
            (200, long),
            (200, error("no such tool")),
        ];
        for (status, body) in others {
            assert!(!gone(status, &body), "{status} {body}");
        }
    }
}
