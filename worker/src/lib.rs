//! The Worker's entry points.

use worker::{Context, DurableObject, Env, Method, Request, Response, Result, State, durable_object, event};

/// Answers a request at the edge.
#[event(fetch)]
async fn fetch(request: Request, _env: Env, _context: Context) -> Result<Response> {
    if request.method() == Method::Get && request.path() == "/health" {
        return Response::from_json(&serde_json::json!({"status": "ok", "version": env!("CARGO_PKG_VERSION")}));
    }
    Response::error("not here", 404)
}

/// One session, and everything that belongs to it.
#[durable_object(alarm)]
pub struct Session {
    _state: State,
}

impl DurableObject for Session {
    fn new(state: State, _env: Env) -> Self {
        Self { _state: state }
    }

    async fn fetch(&self, _request: Request) -> Result<Response> {
        Response::error("not yet", 501)
    }

    async fn alarm(&self) -> Result<Response> {
        Response::ok("")
    }
}
