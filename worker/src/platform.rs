//! The platform, as far as `platform.js` speaks for it.

#![allow(unsafe_code, unreachable_pub, clippy::allow_attributes_without_reason, reason = "generated")]

use wasm_bindgen::JsValue;
use wasm_bindgen::prelude::{Closure, wasm_bindgen};
use worker::js_sys::{Function, Promise, Uint8Array};
use worker::web_sys::{ReadableStream, Request, Response};

/// Is told `(id, status, headers, body)` when a call is answered, without headers that are the same as
/// the last time; says whether more is wanted.
pub(crate) type Begun = Closure<dyn Fn(u32, u16, Option<String>, Option<Vec<u8>>) -> bool>;
/// Is told `(id, bytes)` of what comes of a call; says whether more is wanted.
pub(crate) type Piece = Closure<dyn Fn(u32, Vec<u8>) -> bool>;
/// Is told `(id, whole)` when nothing more comes of a call.
pub(crate) type Ended = Closure<dyn Fn(u32, bool)>;
/// Is told `(id, count)` when a client takes some of a response.
pub(crate) type Took = Closure<dyn Fn(u32, u32)>;
/// Is told `(id)` when a client takes no more of a response.
pub(crate) type Gone = Closure<dyn Fn(u32)>;
/// Is told `(id, method, known, body)` of a request; nothing of a body that is too long.
pub(crate) type Asked = Closure<dyn Fn(u32, String, String, Option<Vec<u8>>)>;
/// Makes the response where a session is unknown (`true`) or does not answer, for this origin.
pub(crate) type Fail = Closure<dyn Fn(bool, Option<String>) -> JsValue>;

#[wasm_bindgen(module = "/src/platform.js")]
extern "C" {
    /// Ends the object, for this reason, when the WebAssembly instance that it
    /// was made in has ended. A panic ends the instance, which all sessions of the isolate
    /// share, and nothing that waits in it is ever woken; so this watches from
    /// outside, until what comes back is called.
    pub(crate) fn watch(object: &JsValue, reason: &str) -> Function;

    /// The number of what the operator has set. What differs has another number.
    pub(crate) fn environment(env: &JsValue) -> u32;

    /// What the operator has set, as JSON: variables and secrets.
    pub(crate) fn variables(env: &JsValue) -> String;

    /// 128 random bits, in hexadecimal digits.
    pub(crate) fn secret() -> String;

    /// A line for the method and the URL of a request, and for the value of
    /// each header that the edge looks at; NUL where there is none.
    pub(crate) fn glance(request: &Request) -> String;

    /// The name of an object that serves no session yet. None is made by this.
    #[wasm_bindgen(catch)]
    pub(crate) fn fresh(env: &JsValue) -> Result<String, JsValue>;

    /// Hands a request on, with what the edge knows of it, to the object of
    /// this name: as it is, or with the body that was read of it. Resolves with
    /// the response.
    pub(crate) fn forward(
        env: &JsValue,
        name: &str,
        request: &Request,
        body: Option<&Uint8Array>,
        known: &str,
        fail: &Fail,
    ) -> Promise;

    /// The object that counts the sessions of whoever has this name; nothing
    /// where there are no such objects.
    pub(crate) fn counter(env: &JsValue, name: &str) -> String;
    /// Takes or keeps a place for a session, for so many milliseconds, among at
    /// most so many of its client. Resolves with whether there is one.
    pub(crate) fn enter(env: &JsValue, client: &str, session: &str, most: f64, lease: f64) -> Promise;
    /// Gives the place back.
    pub(crate) fn leave(env: &JsValue, client: &str, session: &str) -> Promise;

    /// The body of a request, of which this length was said. Resolves with its
    /// bytes; with nothing if it is longer than the limit.
    pub(crate) fn read(request: &Request, limit: f64, length: f64) -> Promise;

    /// Reads a body on for a while, without looking at it.
    pub(crate) fn drain(body: Option<&ReadableStream>) -> Promise;

    /// What passes between a session and the world. It waits, so that the
    /// machine need not.
    #[derive(Debug)]
    pub(crate) type Traffic;
    #[wasm_bindgen(constructor)]
    pub(crate) fn new(begun: &Begun, piece: &Piece, ended: &Ended, took: &Took, gone: &Gone) -> Traffic;
    /// Takes a request of the client; resolves with the response.
    #[wasm_bindgen(method)]
    pub(crate) fn ask(this: &Traffic, request: &Request, limit: f64, asked: &Asked) -> Promise;
    /// The response to a request.
    #[wasm_bindgen(method)]
    pub(crate) fn respond(this: &Traffic, id: u32, response: &Response);
    /// How responses begin from now on; headers are lines: name, value, name, value…
    /// Each text that crosses over costs more than what stands in it, so this
    /// is said only when it changes.
    #[wasm_bindgen(method)]
    pub(crate) fn head(this: &Traffic, status: u16, headers: &str);
    /// A response of one piece.
    #[wasm_bindgen(method)]
    pub(crate) fn whole(this: &Traffic, id: u32, body: &[u8]);
    /// A response that is written while it is read.
    #[wasm_bindgen(method)]
    pub(crate) fn stream(this: &Traffic, id: u32) -> Pipe;
    /// How calls are made from now on.
    #[wasm_bindgen(method)]
    pub(crate) fn address(this: &Traffic, method: &str, url: &str, headers: &str);
    /// Makes a call.
    #[wasm_bindgen(method)]
    pub(crate) fn call(this: &Traffic, id: u32, body: &[u8]) -> Promise;
    /// More is wanted of a call.
    #[wasm_bindgen(method)]
    pub(crate) fn resume(this: &Traffic, id: u32);
    /// Nothing more is wanted of a call.
    #[wasm_bindgen(method)]
    pub(crate) fn cancel(this: &Traffic, id: u32);
    /// Nothing more is wanted of any call.
    #[wasm_bindgen(method, js_name = cancelAll)]
    pub(crate) fn cancel_all(this: &Traffic);
}

#[wasm_bindgen]
extern "C" {
    /// Calls back after so many milliseconds, once.
    #[wasm_bindgen(js_name = setTimeout)]
    pub(crate) fn set_timeout(ring: &Closure<dyn Fn()>, wait: f64) -> JsValue;
    #[wasm_bindgen(js_name = clearTimeout)]
    pub(crate) fn clear_timeout(timer: &JsValue);

    /// A response that is written while it is read.
    #[derive(Debug)]
    pub(crate) type Pipe;
    #[wasm_bindgen(method)]
    pub(crate) fn write(this: &Pipe, bytes: &[u8]);
    #[wasm_bindgen(method)]
    pub(crate) fn close(this: &Pipe);
    #[wasm_bindgen(method)]
    pub(crate) fn abort(this: &Pipe);
}
