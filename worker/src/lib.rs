//! The proxy as a Cloudflare Worker: Streamable HTTP for clients, in front of servers
//! that speak HTTP+SSE. The Worker itself ([`edge`]) checks and routes requests. One
//! Durable Object per session ([`session`]) owns the machine and its connections to the
//! server. Clients without sessions share objects ([`stateless`]).

mod answer;
#[cfg(feature = "crash")]
mod crash;
mod edge;
mod keep;
mod known;
mod learned;
mod lines;
mod machine;
mod metadata;
mod opening;
mod outlet;
mod page;
mod place;
mod platform;
mod session;
mod settings;
mod shell;
mod stateless;

use wasm_bindgen::JsValue;
use wasm_bindgen::prelude::wasm_bindgen;
use worker::Env;
use worker::js_sys::Promise;
use worker::web_sys::Request;

/// Answers a request at the edge.
#[wasm_bindgen]
pub fn fetch(request: Request, env: Env, _context: JsValue) -> Promise {
    edge::answer(request, env)
}
