//! The proxy as a Cloudflare Worker: Streamable HTTP for clients, in front of
//! servers that speak HTTP+SSE. The Worker itself ([`edge`]) checks and routes;
//! one Durable Object for each session ([`session`]) owns the machine and its
//! connections to the server.

mod answer;
mod call;
#[cfg(feature = "crash")]
mod crash;
mod edge;
mod keep;
mod outlet;
mod page;
mod platform;
mod session;
mod settings;
mod shell;

use worker::web_sys::{Request, Response};
use worker::{Context, Env, Result, event};

/// Answers a request at the edge.
#[event(fetch)]
async fn fetch(request: Request, env: Env, _context: Context) -> Result<Response> {
    edge::answer(&request, &env).await
}
