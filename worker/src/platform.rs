//! The platform, as far as `platform.js` speaks for it.

#![allow(unsafe_code, unreachable_pub, clippy::allow_attributes_without_reason, reason = "generated")]

use wasm_bindgen::JsValue;
use wasm_bindgen::prelude::{Closure, wasm_bindgen};
use worker::js_sys::{Function, Promise, Uint8Array};
use worker::web_sys::{AbortSignal, Headers, ReadableStream, ReadableStreamDefaultReader, Request};

#[wasm_bindgen(module = "/src/platform.js")]
extern "C" {
    /// Ends the object, for this reason, when the WebAssembly instance that it
    /// was made in has ended. A panic ends the instance, which all sessions of the isolate
    /// share, and nothing that waits in it is ever woken; so this watches from
    /// outside, until what comes back is called.
    pub(crate) fn watch(object: &JsValue, reason: &str) -> Function;

    /// What the operator has set, as JSON: variables and secrets.
    pub(crate) fn variables(env: &JsValue) -> String;

    /// 128 random bits, in hexadecimal digits.
    pub(crate) fn secret() -> String;

    /// A line for the method and the URL of a request, and for the value of
    /// each of these headers, whose names have spaces between them; NUL where
    /// there is none.
    pub(crate) fn glance(request: &Request, names: &str) -> String;

    /// All headers as lines: name, value, name, value… Each text that crosses
    /// over costs more than what stands in it.
    pub(crate) fn lines(headers: &Headers) -> String;

    /// The same the other way round. No name stands there twice.
    pub(crate) fn headers(lines: &str) -> Headers;

    /// Hands a request on as it is, with no headers but these lines, to the
    /// object of this name, or to a new one. Resolves with a response, or with
    /// nothing where there can be no such object.
    pub(crate) fn forward(objects: &JsValue, name: Option<&str>, request: &Request, lines: &str) -> Promise;

    /// The body of a request; nothing if it is longer than the limit.
    pub(crate) fn body(request: &Request, limit: f64, length: Option<f64>) -> Promise;

    /// Reads a body on for a while, without looking at it.
    pub(crate) fn drain(body: Option<&ReadableStream>) -> Promise;

    /// Starts a call, which resolves with a [`Begun`].
    pub(crate) fn call(
        url: &str,
        method: &str,
        lines: &str,
        content: Option<Uint8Array>,
        signal: &AbortSignal,
    ) -> Promise;

    /// A response that is written while it is read; says how much the client
    /// takes of it, and when it takes no more.
    pub(crate) fn pipe(id: u32, took: &Closure<dyn Fn(u32, u32)>, gone: &Closure<dyn Fn(u32)>) -> Pipe;
}

#[wasm_bindgen]
extern "C" {
    /// Calls back after so many milliseconds, once.
    #[wasm_bindgen(js_name = setTimeout)]
    pub(crate) fn set_timeout(ring: &Closure<dyn Fn()>, wait: f64) -> JsValue;
    #[wasm_bindgen(js_name = clearTimeout)]
    pub(crate) fn clear_timeout(timer: &JsValue);

    /// The response to a call.
    pub(crate) type Begun;
    #[wasm_bindgen(method, getter)]
    pub(crate) fn status(this: &Begun) -> u16;
    #[wasm_bindgen(method, getter)]
    pub(crate) fn headers(this: &Begun) -> String;
    /// The body, if it is short.
    #[wasm_bindgen(method, getter)]
    pub(crate) fn whole(this: &Begun) -> Option<Uint8Array>;
    /// The body otherwise.
    #[wasm_bindgen(method, getter)]
    pub(crate) fn reader(this: &Begun) -> Option<ReadableStreamDefaultReader>;

    /// A response that is written while it is read.
    #[derive(Debug)]
    pub(crate) type Pipe;
    #[wasm_bindgen(method, getter)]
    pub(crate) fn readable(this: &Pipe) -> ReadableStream;
    #[wasm_bindgen(method)]
    pub(crate) fn write(this: &Pipe, bytes: Uint8Array);
    #[wasm_bindgen(method)]
    pub(crate) fn close(this: &Pipe);
    #[wasm_bindgen(method)]
    pub(crate) fn abort(this: &Pipe);
}
