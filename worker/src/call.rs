//! One exchange with the server: what the machine asks for, as a fetch, and its
//! course as facts.

use crate::platform::{self, Begun};
use crate::shell::Shell;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, StatusCode, response};
use mcp_proxy_core::{CallError, CallId, Input, Sink};
use std::rc::Rc;
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::JsFuture;
use worker::js_sys::{Reflect, Uint8Array};
use worker::web_sys::{AbortSignal, ReadableStreamDefaultReader};

/// Carries a call out, and tells the machine how it goes.
pub(crate) async fn run(shell: Rc<Shell>, run: u64, id: CallId, request: Request<Bytes>, signal: AbortSignal) {
    let length = request.body().len();
    let Ok(begun) = JsFuture::from(start(&request, &signal)).await else {
        // The platform does not say how far a request has come.
        return shell.tell(run, Input::Failed(id, CallError::Reset));
    };
    drop(request);
    let begun: Begun = begun.unchecked_into();
    let taken = Input::Flushed(Sink::Call(id), length);
    let Some(head) = head(&begun) else { return shell.tell(run, Input::Failed(id, CallError::Protocol)) };
    if let Some(body) = begun.whole() {
        let body = body.to_vec();
        let piece = Some(Input::Chunk(id, &body)).filter(|_| !body.is_empty());
        let facts = [Some(taken), Some(Input::Head(id, head)), piece, Some(Input::End(id))];
        return shell.tell_all(run, facts.into_iter().flatten());
    }
    shell.tell_all(run, [taken, Input::Head(id, head)]);
    let Some(reader) = begun.reader() else { return shell.tell(run, Input::End(id)) };
    while shell.runs(run, id) {
        shell.wanted(run, id).await;
        match read(&reader).await {
            Ok(Some(chunk)) => shell.tell(run, Input::Chunk(id, &chunk)),
            Ok(None) => return shell.tell(run, Input::End(id)),
            Err(_) => return shell.tell(run, Input::Failed(id, CallError::Reset)),
        }
    }
}

fn start(request: &Request<Bytes>, signal: &AbortSignal) -> worker::js_sys::Promise {
    let body = Some(request.body()).filter(|body| !body.is_empty());
    let body = body.map(|body| Uint8Array::from(body.as_ref()));
    platform::call(&request.uri().to_string(), request.method().as_str(), &lines(request.headers()), body, signal)
}

/// The next piece of a body.
async fn read(reader: &ReadableStreamDefaultReader) -> Result<Option<Vec<u8>>, JsValue> {
    let read = JsFuture::from(reader.read()).await?;
    let value = Reflect::get(&read, &"value".into())?;
    Ok((!value.is_undefined()).then(|| Uint8Array::new(&value).to_vec()))
}

fn head(begun: &Begun) -> Option<response::Parts> {
    let mut parts = http::Response::new(()).into_parts().0;
    parts.status = StatusCode::from_u16(begun.status()).ok()?;
    parts.headers = headers(&begun.headers());
    Some(parts)
}

/// Headers as the machine knows them, of lines: name, value, name, value…
pub(crate) fn headers(lines: &str) -> HeaderMap {
    let mut lines = lines.split('\n');
    let pairs = std::iter::from_fn(|| Some((lines.next()?, lines.next()?)));
    let known = |(name, value): (&str, &str)| {
        Some((HeaderName::try_from(name).ok()?, HeaderValue::from_bytes(value.as_bytes()).ok()?))
    };
    pairs.filter_map(known).collect()
}

/// The same the other way round.
pub(crate) fn lines(headers: &HeaderMap) -> String {
    headers.iter().fold(String::new(), |lines, (name, value)| {
        lines + name.as_str() + "\n" + &String::from_utf8_lossy(value.as_bytes()) + "\n"
    })
}
