//! Answers that the machine has no part in.

use http::StatusCode;
use serde_json::json;
use worker::{Headers, Response, Result};

/// What a page of another origin may send, and see.
const ASKED: &str = "authorization, content-type, accept, last-event-id, mcp-protocol-version, mcp-session-id";
const SHOWN: &str = "mcp-session-id, mcp-proxy-upstream, www-authenticate";

/// A JSON-RPC error that says why.
pub(crate) fn refusal(status: StatusCode, code: i32, message: &str) -> Result<Response> {
    let body = json!({"jsonrpc": "2.0", "error": {"code": code, "message": message}});
    let response = Response::from_json(&body)?.with_status(status.as_u16());
    response.headers().set("cache-control", "no-store")?;
    Ok(response)
}

/// There is no such session, or it is somebody else's.
pub(crate) fn no_such_session() -> Result<Response> {
    refusal(StatusCode::NOT_FOUND, -32000, "there is no such session: initialize again")
}

/// The body is longer than the operator allows.
pub(crate) fn too_long(limit: usize) -> Result<Response> {
    let message = format!("the body is over the limit of {limit} bytes (MAX_BODY_BYTES)");
    refusal(StatusCode::PAYLOAD_TOO_LARGE, -32600, &message)
}

/// Lets the page that asked read the response.
pub(crate) fn share(headers: &Headers, origin: &str) -> Result<()> {
    headers.set("access-control-allow-origin", origin)?;
    headers.set("access-control-expose-headers", SHOWN)?;
    headers.append("vary", "origin")
}

/// What a browser wants to know before it lets a page ask.
pub(crate) fn preflight(origin: Option<&str>) -> Result<Response> {
    let response = Response::empty()?.with_status(StatusCode::NO_CONTENT.as_u16());
    let headers = response.headers();
    headers.set("allow", "GET, POST, DELETE, OPTIONS")?;
    if let Some(origin) = origin {
        share(headers, origin)?;
        headers.set("access-control-allow-methods", "GET, POST, DELETE")?;
        headers.set("access-control-allow-headers", ASKED)?;
        headers.set("access-control-max-age", "86400")?;
    }
    Ok(response)
}
