//! Pages for people: the page at `/`, and the health of the Worker for monitoring.

use crate::learned;
use crate::settings::Read;
use http::StatusCode;
use mcp_proxy_edge::{Access, path_of};
use serde_json::{Value, json};
use worker::{Env, Response, Result};

const PAGE: &str = include_str!("../page/page.html");
const STYLE: &str = include_str!("../page/page.css");
const SCRIPT: &str = include_str!("../page/page.js");
const VERSION: &str = env!("CARGO_PKG_VERSION");
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; \
                      img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// In place of an era or a transport: nobody has used the server lately.
const NOT_KNOWN: &str = "not known yet";

/// The page at this path, if there is one.
pub(crate) fn at(path: &str, settings: &Read, env: &Env) -> Result<Option<Response>> {
    match path {
        "/" => file("text/html; charset=utf-8", PAGE.replace("{{CONFIG}}", &shown(settings, env))).map(Some),
        "/page.css" => file("text/css; charset=utf-8", STYLE.to_owned()).map(Some),
        "/page.js" => file("text/javascript; charset=utf-8", SCRIPT.to_owned()).map(Some),
        "/health" => health(settings, env).map(Some),
        _ => Ok(None),
    }
}

fn file(kind: &str, text: String) -> Result<Response> {
    let response = Response::ok(text)?;
    let headers = response.headers();
    headers.set("content-type", kind)?;
    headers.set("content-security-policy", POLICY)?;
    headers.set("x-content-type-options", "nosniff")?;
    headers.set("referrer-policy", "no-referrer")?;
    headers.set("cache-control", "no-cache")?;
    Ok(response)
}

fn health(settings: &Read, env: &Env) -> Result<Response> {
    let (status, body) = match settings {
        Ok(settings) => {
            let names = settings.edge.upstreams.keys();
            let servers: Vec<Value> = names.map(|name| endpoint(name, env)).collect();
            (StatusCode::OK, json!({"status": "ok", "version": VERSION, "servers": servers}))
        }
        Err(problems) => {
            let body = json!({"status": "misconfigured", "version": VERSION, "problems": problems});
            (StatusCode::SERVICE_UNAVAILABLE, body)
        }
    };
    let response = Response::from_json(&body)?.with_status(status.as_u16());
    response.headers().set("cache-control", "no-store")?;
    Ok(response)
}

/// An endpoint, and how its server speaks.
fn endpoint(name: &str, env: &Env) -> Value {
    let (era, transport) = learned::found(env, name).and_then(learned::words).unwrap_or((NOT_KNOWN, NOT_KNOWN));
    json!({"name": name, "path": path_of(name), "era": era, "transport": transport})
}

/// The page's configuration, as JSON that is safe inside HTML.
fn shown(settings: &Read, env: &Env) -> String {
    let config: Value = match settings {
        Ok(settings) => {
            let auth = match settings.edge.access {
                Access::Public => "public",
                Access::Token(_) => "token",
                Access::Forwarded { .. } => "forwarded",
            };
            let names = settings.edge.upstreams.keys();
            let endpoints: Vec<Value> = names.map(|name| endpoint(name, env)).collect();
            json!({"version": VERSION, "auth": auth, "endpoints": endpoints, "problems": []})
        }
        Err(problems) => json!({"version": VERSION, "auth": "public", "endpoints": [], "problems": problems}),
    };
    config.to_string().replace('<', "\\u003c")
}
