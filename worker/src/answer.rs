//! Answers that the machine has no part in.

use crate::shell::log;
use http::StatusCode;
use serde_json::json;
use wasm_bindgen::JsValue;
use worker::js_sys::Promise;
use worker::{Error, Response, Result, web_sys};

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

/// Something went wrong that should not have.
pub(crate) fn broken(error: &Error) -> Result<Response> {
    log("error", "EDGE", &error.to_string());
    refusal(StatusCode::INTERNAL_SERVER_ERROR, -32603, "internal error")
}

/// Who waits for a session that has ended waits for nothing.
pub(crate) fn ended() -> Result<Response> {
    refusal(StatusCode::SERVICE_UNAVAILABLE, -32000, "the session has ended")
}

/// What is needed to open the session cannot be had.
pub(crate) fn not_opened() -> Result<Response> {
    refusal(StatusCode::SERVICE_UNAVAILABLE, -32000, "the session could not be opened; try again")
}

/// There is no such session, or it is somebody else's.
pub(crate) fn no_such_session() -> Result<Response> {
    refusal(StatusCode::NOT_FOUND, -32000, "there is no such session: initialize again")
}

/// The client has as many sessions as it may have.
pub(crate) fn too_many_open() -> Result<Response> {
    let message = "too many sessions of this client are open (MAX_SESSIONS); close one, or try again later";
    refusal(StatusCode::TOO_MANY_REQUESTS, -32000, message)
}

/// The body is longer than the operator allows.
pub(crate) fn too_long(limit: usize) -> Result<Response> {
    let message = format!("the body is over the limit of {limit} bytes (MAX_BODY_BYTES)");
    refusal(StatusCode::PAYLOAD_TOO_LARGE, -32600, &message)
}

/// Lets the page that asked read the response.
pub(crate) fn shared(response: Response, origin: Option<&str>) -> Result<Response> {
    for (name, value) in origin.into_iter().flat_map(sharing) {
        response.headers().set(name, value)?;
    }
    Ok(response)
}

/// The headers for that.
pub(crate) fn sharing(origin: &str) -> [(&'static str, &str); 3] {
    [("access-control-allow-origin", origin), ("access-control-expose-headers", SHOWN), ("vary", "origin")]
}

/// What a browser wants to know before it lets a page ask.
pub(crate) fn preflight(origin: Option<&str>) -> Result<Response> {
    let response = shared(Response::empty()?.with_status(StatusCode::NO_CONTENT.as_u16()), origin)?;
    let headers = response.headers();
    headers.set("allow", "GET, POST, DELETE, OPTIONS")?;
    if origin.is_some() {
        headers.set("access-control-allow-methods", "GET, POST, DELETE")?;
        headers.set("access-control-allow-headers", ASKED)?;
        headers.set("access-control-max-age", "86400")?;
    }
    Ok(response)
}

/// A response, as the platform knows it.
pub(crate) fn raw(response: Response) -> JsValue {
    web_sys::Response::from(response).into()
}

/// The same, for whoever would wait for it.
pub(crate) fn settled(response: Result<Response>) -> Promise {
    match response {
        Ok(response) => Promise::resolve(&raw(response)),
        Err(error) => Promise::reject(&error.into()),
    }
}
