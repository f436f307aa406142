//! Bindings to the platform through `platform.js`.

#![allow(unsafe_code, unreachable_pub, clippy::allow_attributes_without_reason, reason = "generated")]

use wasm_bindgen::JsValue;
use wasm_bindgen::prelude::{Closure, wasm_bindgen};
use worker::js_sys::{Function, Promise, Uint8Array};
use worker::web_sys::{ReadableStream, Request, Response};

/// Called with `(id, status, headers, body)` when a call's response begins; without
/// headers if they are the same as the last time. Returns whether to read more.
pub(crate) type Begun = Closure<dyn Fn(u32, u16, Option<String>, Option<Vec<u8>>) -> bool>;
/// Called with `(id, bytes)` for each piece of a call's response. Returns whether to read
/// more.
pub(crate) type Piece = Closure<dyn Fn(u32, Vec<u8>) -> bool>;
/// Called with `(id, whole)` when a call's response has ended.
pub(crate) type Ended = Closure<dyn Fn(u32, bool)>;
/// Called with `(id, count)` when a client has read part of a response.
pub(crate) type Took = Closure<dyn Fn(u32, u32)>;
/// Called with `(id)` when a client stops reading a response.
pub(crate) type Gone = Closure<dyn Fn(u32)>;
/// Called with `(id, method, known, body)` for a request; without the body if it is too
/// long.
pub(crate) type Asked = Closure<dyn Fn(u32, String, String, Option<Vec<u8>>)>;
/// Makes the response for this origin when a session is unknown (`true`) or does not
/// answer.
pub(crate) type Fail = Closure<dyn Fn(bool, Option<String>) -> JsValue>;

#[wasm_bindgen(module = "/src/platform.js")]
extern "C" {
    /// Ends the object with this reason when its WebAssembly instance has ended. A panic
    /// ends the instance, which all sessions of the isolate share, and nothing wakes the
    /// tasks that wait in it. So this watches from outside, until the returned function
    /// is called.
    pub(crate) fn watch(object: &JsValue, reason: &str) -> Function;

    /// The number of the operator's settings. Different settings have different numbers.
    pub(crate) fn environment(env: &JsValue) -> u32;

    /// The operator's settings as JSON: variables and secrets.
    pub(crate) fn variables(env: &JsValue) -> String;

    /// 128 random bits, in hexadecimal digits.
    pub(crate) fn secret() -> String;

    /// The method and the URL of a request, and the value of each header that the edge
    /// reads, one per line; NUL for a missing header.
    pub(crate) fn glance(request: &Request) -> String;

    /// The name of an object without a session. This does not create the object.
    #[wasm_bindgen(catch)]
    pub(crate) fn fresh(env: &JsValue) -> Result<String, JsValue>;

    /// The name of the object that serves clients without sessions under this name. This
    /// does not create the object.
    pub(crate) fn shared(env: &JsValue, name: &str) -> String;

    /// Whether there can be an object with this name.
    #[wasm_bindgen(js_name = isObject)]
    pub(crate) fn is_object(env: &JsValue, name: &str) -> bool;

    /// Forwards a request, with what the edge knows about it, to the object with this
    /// name: unchanged, or with the body that the edge has read. Resolves with the
    /// response.
    pub(crate) fn forward(
        env: &JsValue,
        name: &str,
        request: &Request,
        body: Option<&Uint8Array>,
        known: &str,
        fail: &Fail,
    ) -> Promise;

    /// The object that counts the sessions of the client with this name; empty if the
    /// deployment has no such objects.
    pub(crate) fn counter(env: &JsValue, name: &str) -> String;
    /// Leases or renews a session's place for `lease` milliseconds, among at most `most`
    /// of its client. Resolves with whether it has one.
    pub(crate) fn enter(env: &JsValue, client: &str, session: &str, most: f64, lease: f64) -> Promise;
    /// Releases the place.
    pub(crate) fn leave(env: &JsValue, client: &str, session: &str) -> Promise;

    /// Reads the body of a request that announced this length. Resolves with its bytes,
    /// or with nothing if it is longer than the limit.
    pub(crate) fn read(request: &Request, limit: f64, length: f64) -> Promise;

    /// Asks a server for a document. Resolves with the bytes if there is one of at most this
    /// length, else with the status, or with 0 if no answer came in time.
    #[wasm_bindgen(js_name = lookUp)]
    pub(crate) fn look_up(url: &str, limit: f64) -> Promise;

    /// Reads and discards a body for a while.
    pub(crate) fn drain(body: Option<&ReadableStream>) -> Promise;

    /// The traffic of a session with clients and the server. It waits, so that the
    /// machine need not.
    #[derive(Debug)]
    pub(crate) type Traffic;
    #[wasm_bindgen(constructor)]
    pub(crate) fn new(begun: &Begun, piece: &Piece, ended: &Ended, took: &Took, gone: &Gone) -> Traffic;
    /// Accepts a client's request; resolves with the response.
    #[wasm_bindgen(method)]
    pub(crate) fn ask(this: &Traffic, request: &Request, limit: f64, asked: &Asked) -> Promise;
    #[wasm_bindgen(method)]
    pub(crate) fn respond(this: &Traffic, id: u32, response: &Response);
    /// Sets the head of the next responses; headers are lines: name, value, name, value…
    /// Each string that crosses the boundary costs more than its contents, so the shell
    /// calls this only when the head changes.
    #[wasm_bindgen(method)]
    pub(crate) fn head(this: &Traffic, status: u16, headers: &str);
    /// Sends a response with a single body.
    #[wasm_bindgen(method)]
    pub(crate) fn whole(this: &Traffic, id: u32, body: &[u8]);
    /// Starts a streamed response.
    #[wasm_bindgen(method)]
    pub(crate) fn stream(this: &Traffic, id: u32) -> Pipe;
    /// Sets method, URL and headers of the next calls.
    #[wasm_bindgen(method)]
    pub(crate) fn address(this: &Traffic, method: &str, url: &str, headers: &str);
    #[wasm_bindgen(method)]
    pub(crate) fn call(this: &Traffic, id: u32, body: &[u8]) -> Promise;
    /// Resumes reading a call's response.
    #[wasm_bindgen(method)]
    pub(crate) fn resume(this: &Traffic, id: u32);
    /// Cancels a call.
    #[wasm_bindgen(method)]
    pub(crate) fn cancel(this: &Traffic, id: u32);
    #[wasm_bindgen(method, js_name = cancelAll)]
    pub(crate) fn cancel_all(this: &Traffic);
}

#[wasm_bindgen]
extern "C" {
    /// Calls `ring` once, after `wait` milliseconds.
    #[wasm_bindgen(js_name = setTimeout)]
    pub(crate) fn set_timeout(ring: &Closure<dyn Fn()>, wait: f64) -> JsValue;
    #[wasm_bindgen(js_name = clearTimeout)]
    pub(crate) fn clear_timeout(timer: &JsValue);

    /// The writing end of a streamed response.
    #[derive(Debug)]
    pub(crate) type Pipe;
    #[wasm_bindgen(method)]
    pub(crate) fn write(this: &Pipe, bytes: &[u8]);
    #[wasm_bindgen(method)]
    pub(crate) fn close(this: &Pipe);
    #[wasm_bindgen(method)]
    pub(crate) fn abort(this: &Pipe);
}
