//! Responses that the machine has no part in, as the platform knows them.

use crate::learned;
use crate::shell::log;
use http::StatusCode;
use mcp_proxy_edge::Refusal;
use wasm_bindgen::JsValue;
use worker::js_sys::Promise;
use worker::{Error, Response, Result, web_sys};

/// The setting that limits the length of a body.
const MAX_BODY: &str = "MAX_BODY_BYTES";
/// The setting that limits the sessions of a client.
const MAX_SESSIONS: &str = "MAX_SESSIONS";

/// The body is longer than the operator allows.
pub(crate) fn too_long(limit: usize) -> Refusal {
    Refusal::TooLong { limit, setting: MAX_BODY }
}

/// The client has as many sessions as it may have.
pub(crate) fn too_many_sessions() -> Refusal {
    Refusal::TooManySessions { setting: MAX_SESSIONS }
}

/// The status with which an object passes on a request that another object must serve.
/// Only the edge sees it.
pub(crate) const ELSEWHERE: StatusCode = StatusCode::MISDIRECTED_REQUEST;

/// Another object must serve the request. The edge learns what this one knows about the
/// server.
pub(crate) fn elsewhere(server: Option<&str>) -> Result<Response> {
    let response = Response::empty()?.with_status(ELSEWHERE.as_u16());
    server.map(|server| response.headers().set(learned::SERVER, server)).transpose()?;
    Ok(response)
}

/// Something went wrong that should not have.
pub(crate) fn broken(error: &Error) -> Result<Response> {
    log("error", "EDGE", &error.to_string());
    refused(&Refusal::Internal, None)
}

/// A refusal, for a page of this origin or for a client that is no page.
pub(crate) fn refused(refusal: &Refusal, origin: Option<&str>) -> Result<Response> {
    whole(refusal.response(origin))
}

/// A response of one piece.
pub(crate) fn whole(response: http::Response<impl Into<Vec<u8>>>) -> Result<Response> {
    let (parts, body) = response.into_parts();
    // The platform allows no body with this status, not even an empty one.
    let has_body = parts.status != StatusCode::NO_CONTENT;
    let response = if has_body { Response::from_bytes(body.into())? } else { Response::empty()? };
    let response = response.with_status(parts.status.as_u16());
    for (name, value) in &parts.headers {
        response.headers().set(name.as_str(), &String::from_utf8_lossy(value.as_bytes()))?;
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
