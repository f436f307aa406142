//! What a server says to a session that it does not know. The component never asks that on
//! purpose, but every client does after a restart of the server.

use std::{convert::Infallible, future::ready};

use ::http::{
    Request, StatusCode,
    header::{ACCEPT, CONTENT_TYPE},
};
use http_body_util::{BodyExt as _, Full};
use wasmtime_wasi_http::WasiHttpHooks as _;

use super::{
    finding::Finding,
    seen::{SESSION, VERSION},
};
use crate::http::Http;

/// An id that no server has given out.
const UNKNOWN: &str = "mcp-proxy-doctor-unknown-session";

/// For a server that keeps sessions.
pub(super) async fn unknown_session(http: &mut Http, url: &str, version: &str) -> Option<Finding> {
    let body = Full::from(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#).map_err(|never: Infallible| match never {});
    let request = Request::post(url)
        .header(CONTENT_TYPE, "application/json")
        .header(ACCEPT, "application/json, text/event-stream")
        .header(SESSION, UNKNOWN)
        .header(VERSION, version)
        .body(body.boxed_unsync());
    let exchanged = http.send_request(request.ok()?, None, Box::new(ready(Ok(()))));
    let status = Box::into_pin(exchanged).await.ok()?.0.status();
    Some(match status {
        StatusCode::NOT_FOUND => Finding::ok("sessions", "the server keeps them, and reports lost ones with 404"),
        status if status.is_success() => {
            let text = format!("the server keeps them, but answers {} if it does not know one", status.as_u16());
            Finding::warning("sessions", format!("{text}: after a restart, clients may not notice"))
        }
        status => {
            let text = format!("the server keeps them, but reports lost ones with {} instead of 404", status.as_u16());
            Finding::note("sessions", format!("{text}; the proxy tolerates it (quirk session-gone)"))
        }
    })
}
