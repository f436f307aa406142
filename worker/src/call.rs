//! One exchange with the server: what the machine asks for, as a fetch, and its
//! course as facts.

use crate::shell::Shell;
use bytes::Bytes;
use futures::StreamExt;
use http::{HeaderMap, HeaderName, HeaderValue, Request, StatusCode};
use mcp_proxy_core::{CallError, CallId, Input, Sink};
use std::rc::Rc;
use worker::js_sys::Uint8Array;
use worker::{AbortController, AbortSignal, Fetch, Headers, Method, RequestInit, RequestRedirect, Response, Result};

/// A call under way; dropping it ends it.
#[derive(Debug, Default)]
pub(crate) struct Call(Option<AbortController>);

impl Call {
    pub(crate) fn new() -> (Self, AbortSignal) {
        let controller = AbortController::default();
        let signal = controller.signal();
        (Self(Some(controller)), signal)
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if let Some(controller) = self.0.take() {
            controller.abort();
        }
    }
}

/// Carries a call out, and tells the machine how it goes.
pub(crate) async fn run(shell: Rc<Shell>, run: u64, id: CallId, request: Request<Bytes>, signal: AbortSignal) {
    let length = request.body().len();
    let mut response = match start(request, &signal).await {
        Ok(response) => response,
        // The platform does not say how far a request has come.
        Err(_) => return shell.tell(run, Input::Failed(id, CallError::Reset)),
    };
    shell.tell(run, Input::Flushed(Sink::Call(id), length));
    let Some(head) = head(&response) else { return shell.tell(run, Input::Failed(id, CallError::Protocol)) };
    shell.tell(run, Input::Head(id, head));
    let Ok(mut body) = response.stream() else { return shell.tell(run, Input::End(id)) };
    loop {
        shell.wanted(run, id).await;
        match body.next().await {
            Some(Ok(chunk)) => shell.tell(run, Input::Chunk(id, &chunk)),
            Some(Err(_)) => return shell.tell(run, Input::Failed(id, CallError::Reset)),
            None => return shell.tell(run, Input::End(id)),
        }
        if !shell.runs(run, id) {
            return;
        }
    }
}

async fn start(request: Request<Bytes>, signal: &AbortSignal) -> Result<Response> {
    let (parts, body) = request.into_parts();
    let headers = Headers::new();
    for (name, value) in &parts.headers {
        headers.append(name.as_str(), &String::from_utf8_lossy(value.as_bytes()))?;
    }
    let mut init = RequestInit::new();
    init.with_method(Method::from(parts.method.as_str().to_owned())).with_headers(headers);
    init.with_redirect(RequestRedirect::Manual);
    if !body.is_empty() {
        init.with_body(Some(Uint8Array::from(body.as_ref()).into()));
    }
    let request = worker::Request::new_with_init(&parts.uri.to_string(), &init)?;
    Fetch::Request(request).send_with_signal(signal).await
}

fn head(response: &Response) -> Option<http::response::Parts> {
    let mut parts = http::Response::new(()).into_parts().0;
    parts.status = StatusCode::from_u16(response.status_code()).ok()?;
    parts.headers = headers(response.headers());
    Some(parts)
}

/// Headers as the machine knows them.
pub(crate) fn headers(headers: &Headers) -> HeaderMap {
    let pairs = headers.entries().map(|(name, value)| {
        let name = HeaderName::try_from(name).ok()?;
        Some((name, HeaderValue::from_bytes(value.as_bytes()).ok()?))
    });
    pairs.flatten().collect()
}
