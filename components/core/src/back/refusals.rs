//! Which refusals of a first message may come from a server that speaks only HTTP+SSE and
//! accepts messages at another URL. One table with a row for each known shape; no state,
//! no time.

use crate::wire::message::{self, Kind, Message, Parsed};
use http::StatusCode;

/// Does this refusal justify a GET for the event stream? `handshake`: the message opens a
/// session.
pub(super) fn may_be_sse(handshake: bool, status: StatusCode, body: &[u8]) -> bool {
    let answer = answer(body);
    match status.as_u16() {
        // The path accepts only GET, or does not exist; the body does not matter.
        404 | 405 => true,
        400 => answer.is_none_or(|answer| handshake && is_of_transport(&answer)),
        406 | 415 | 501 => answer.is_none(),
        // Accepted, but the answer will not come in this response.
        200..=299 => handshake && body.trim_ascii().is_empty(),
        _ => false,
    }
}

/// The body as a JSON-RPC response.
fn answer(body: &[u8]) -> Option<Message> {
    let Ok(Parsed::One(message)) = message::parse(body.to_vec()) else { return None };
    message.valid().ok().filter(|message| matches!(message.kind, Kind::Response { .. }))
}

/// Whether the error comes from the transport rather than from a server that understood
/// `initialize`: it names no request, and its code is one that SDKs use for any bad
/// request.
fn is_of_transport(answer: &Message) -> bool {
    let code = message::member(answer.error(), "code").and_then(|code| code.parse().ok());
    let general = code.is_some_and(|code: i64| matches!(code, -32600 | -32001 | -32000));
    let text = message::text_member(answer.error(), "message").unwrap_or_default().to_lowercase();
    matches!(answer.kind, Kind::Response { id: None }) && general && !text.contains("protocol version")
}

#[cfg(test)]
mod tests {
    use super::*;

    const HTML: &str = "<!DOCTYPE html><pre>Cannot POST /sse</pre>";
    const NOT_ALLOWED: &str = r#"{"jsonrpc":"2.0","error":{"code":-32000,"message":"Method not allowed."},"id":null}"#;
    const BAD_REQUEST: &str =
        r#"{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: No sessionId"},"id":null}"#;
    const INVALID: &str =
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Bad Request: Missing session ID"}}"#;
    const VERSION: &str =
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Unsupported protocol version"}}"#;
    const OWN: &str = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"Unsupported protocol version"}}"#;
    const UNKNOWN: &str = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"Method not found"}}"#;

    #[test]
    fn every_refusal_leads_where_the_table_says() {
        #[rustfmt::skip]
        let rows = [
            // status, body, of `initialize`, of another request
            (404, HTML, true, true),                                // Express without the route
            (404, "404 page not found\n", true, true),              // Go's net/http
            (404, r#"{"detail":"Not Found"}"#, true, true),         // FastAPI
            (404, UNKNOWN, true, true),
            (405, "Method Not Allowed", true, true),                // Starlette, as in the Python SDK
            (405, r#"{"detail":"Method Not Allowed"}"#, true, true),
            (405, NOT_ALLOWED, true, true),                         // examples of the TypeScript SDK
            (405, "", true, true),                                  // ASP.NET Core
            (405, r#"{"timestamp":"t","status":405,"error":"Method Not Allowed","path":"/sse"}"#, true, true), // Spring
            (400, "Missing sessionId parameter", true, true),       // servers whose paths are one
            (400, r#"{"error":"sessionId is required"}"#, true, true),
            (400, "", true, true),
            (400, BAD_REQUEST, true, false),
            (400, INVALID, true, false),
            (400, VERSION, false, false),
            (400, r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32055,"message":"no"}}"#, false, false),
            (400, OWN, false, false),
            (406, "Not Acceptable", true, true),
            (406, NOT_ALLOWED, false, false),
            (415, HTML, true, true),
            (415, INVALID, false, false),
            (501, "", true, true),
            (501, UNKNOWN, false, false),
            (202, "", true, false),                                 // HTTP+SSE with one path for both
            (200, " \n", true, false),
            (204, "", true, false),
            (200, HTML, false, false),
            (200, UNKNOWN, false, false),
        ];
        for (status, body, handshake, other) in rows {
            let leads = |first| may_be_sse(first, StatusCode::from_u16(status).unwrap(), body.as_bytes());
            assert_eq!((leads(true), leads(false)), (handshake, other), "{status} {body}");
        }
        for status in [301, 401, 402, 403, 407, 408, 409, 410, 413, 422, 429, 500, 502, 503, 504] {
            for body in ["", HTML, NOT_ALLOWED] {
                let leads = |first| may_be_sse(first, StatusCode::from_u16(status).unwrap(), body.as_bytes());
                assert!(!leads(true) && !leads(false), "{status} {body}");
            }
        }
    }
}
