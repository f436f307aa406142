//! The Worker itself: who may come in, and where to. It keeps nothing, and the
//! bodies of sessions pass through it untouched.

use crate::answer;
use crate::body;
use crate::page;
use crate::session::{ORIGIN, PRINCIPAL, UPSTREAM};
use crate::settings::{Access, Settings};
use crate::shell::log;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use mcp_proxy_core::Turned;
use sha2::{Digest, Sha256};
use std::fmt::Write;
use subtle::ConstantTimeEq;
use worker::{Env, Headers, Method, Request, RequestInit, Response, Result, Stub, Url};

/// What a session is told of a request, beside who asks.
const PASSED: [&str; 5] = ["accept", "content-type", "last-event-id", "mcp-protocol-version", "mcp-session-id"];
const SESSION_ID: &str = "mcp-session-id";

/// Answers a request.
pub(crate) async fn answer(request: Request, env: &Env) -> Result<Response> {
    let settings = Settings::read(env);
    let path = request.path();
    if matches!(request.method(), Method::Get | Method::Head)
        && let Some(page) = page::at(&path, &settings)?
    {
        return Ok(page);
    }
    let settings = match settings {
        Ok(settings) => settings,
        Err(problems) => {
            let message = format!("this Worker is misconfigured: {}", problems.join(" "));
            return answer::refusal(StatusCode::SERVICE_UNAVAILABLE, -32000, &message);
        }
    };
    let Some(name) = endpoint(&path).filter(|name| settings.upstreams.contains_key(*name)) else {
        return answer::refusal(StatusCode::NOT_FOUND, -32000, "there is no MCP endpoint at this path");
    };
    let origin = request.headers().get("origin")?;
    if let Err(turned) = settings.door.admit(&knocking(&request)?, &own(&request.url()?)) {
        let (name, why) = match turned {
            Turned::Origin => ("ALLOWED_ORIGINS", "the Origin"),
            Turned::Host => ("ALLOWED_HOSTS", "the Host"),
        };
        log("warn", "EDGE", &format!("{why} of a request is not in {name}"));
        return answer::refusal(StatusCode::FORBIDDEN, -32000, &format!("{why} of this request is not allowed here"));
    }
    if request.method() == Method::Options {
        return answer::preflight(origin.as_deref());
    }
    let response = endpoint_answer(request, env, &settings, name, origin.as_deref()).await?;
    match (response, &origin) {
        (Reached::Session(response), _) => Ok(response),
        (Reached::Edge(response), Some(origin)) => {
            answer::share(response.headers(), origin)?;
            Ok(response)
        }
        (Reached::Edge(response), None) => Ok(response),
    }
}

/// How far a request came.
enum Reached {
    /// No further than here.
    Edge(Response),
    /// To its session, which has said all there is to say.
    Session(Response),
}

async fn endpoint_answer(
    mut request: Request,
    env: &Env,
    settings: &Settings,
    name: &str,
    origin: Option<&str>,
) -> Result<Reached> {
    let refuse = |status, code, message: &str| answer::refusal(status, code, message).map(Reached::Edge);
    let credentials = request.headers().get("authorization")?;
    if !admits(&settings.access, credentials.as_deref()) {
        let refused = answer::refusal(StatusCode::UNAUTHORIZED, -32000, "this endpoint wants a bearer token")?;
        refused.headers().set("www-authenticate", "Bearer")?;
        return Ok(Reached::Edge(refused));
    }
    if !matches!(request.method(), Method::Get | Method::Post | Method::Delete) {
        let refused = answer::refusal(StatusCode::METHOD_NOT_ALLOWED, -32600, "only GET, POST and DELETE are for MCP")?;
        refused.headers().set("allow", "GET, POST, DELETE, OPTIONS")?;
        return Ok(Reached::Edge(refused));
    }
    let length = request.headers().get("content-length")?.and_then(|length| length.parse().ok()).unwrap_or(0);
    if length > settings.limits.body {
        body::read(&mut request, 0).await?;
        return answer::too_long(settings.limits.body).map(Reached::Edge);
    }
    let principal = principal(&settings.access, credentials.as_deref());
    let sessions = env.durable_object("SESSIONS")?;
    let session = request.headers().get(SESSION_ID)?;
    let stub = match session.as_deref() {
        Some(session) => {
            let object = session.split_once('.').map_or("", |(object, _)| object);
            match sessions.id_from_string(object) {
                Ok(id) => id.get_stub()?,
                Err(_) => return answer::no_such_session().map(Reached::Edge),
            }
        }
        None if request.method() != Method::Post => {
            return refuse(StatusCode::BAD_REQUEST, -32600, "the Mcp-Session-Id header is missing");
        }
        None if limited(env, &request, &principal).await => {
            return refuse(StatusCode::TOO_MANY_REQUESTS, -32000, "too many sessions are opened; try again later");
        }
        None => sessions.unique_id()?.get_stub()?,
    };
    let mut headers = passed(&request)?;
    headers.push((UPSTREAM, name.to_owned()));
    headers.push((PRINCIPAL, principal));
    headers.extend(origin.map(|origin| (ORIGIN, origin.to_owned())));
    if let (Access::Forwarded { .. }, Some(credentials)) = (&settings.access, credentials) {
        headers.push(("authorization", credentials));
    }
    forward(&stub, &request, headers).await
}

/// Hands a request on as it is, with no headers but these.
async fn forward(stub: &Stub, request: &Request, pairs: Vec<(&str, String)>) -> Result<Reached> {
    let headers = Headers::new();
    for (name, value) in pairs {
        headers.set(name, &value)?;
    }
    let mut init = RequestInit::new();
    init.with_method(request.method()).with_headers(headers);
    init.with_body(request.inner().body().map(Into::into));
    let inner = Request::new_with_init("https://session/", &init)?;
    match stub.fetch_with_request(inner).await {
        Ok(response) => Ok(Reached::Session(response)),
        Err(_) => {
            log("error", "EDGE", "a session did not answer");
            let message = "the session was restarted; whether the request was carried out is not known";
            let refused = answer::refusal(StatusCode::SERVICE_UNAVAILABLE, -32000, message)?;
            refused.headers().set("retry-after", "1")?;
            Ok(Reached::Edge(refused))
        }
    }
}

/// The name in `/mcp` or `/<name>/mcp`. Nothing else of a path means anything.
fn endpoint(path: &str) -> Option<&str> {
    let name = path.strip_suffix("/mcp")?;
    if name.is_empty() { Some("") } else { name.strip_prefix('/').filter(|name| !name.is_empty()) }
}

fn knocking(request: &Request) -> Result<HeaderMap> {
    let mut headers = HeaderMap::new();
    for name in [header::ORIGIN, header::HOST] {
        if let Some(value) = request.headers().get(name.as_str())? {
            let value = HeaderValue::from_bytes(value.as_bytes());
            headers.insert(name, value.unwrap_or(HeaderValue::from_static("null")));
        }
    }
    Ok(headers)
}

fn own(url: &Url) -> String {
    url.origin().ascii_serialization()
}

fn passed(request: &Request) -> Result<Vec<(&'static str, String)>> {
    let mut headers = Vec::with_capacity(PASSED.len() + 4);
    for name in PASSED {
        if let Some(value) = request.headers().get(name)? {
            headers.push((name, value));
        }
    }
    Ok(headers)
}

fn admits(access: &Access, credentials: Option<&str>) -> bool {
    match access {
        Access::Public => true,
        Access::Forwarded { anonymous } => *anonymous || credentials.is_some(),
        Access::Token(token) => credentials.and_then(bearer).is_some_and(|given| same(given, token)),
    }
}

fn bearer(credentials: &str) -> Option<&str> {
    let (scheme, token) = credentials.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// Compares in a time that does not tell how much fits.
fn same(given: &str, token: &str) -> bool {
    Sha256::digest(given).ct_eq(&Sha256::digest(token)).into()
}

/// Whom a session belongs to: everybody, or whoever has these credentials.
fn principal(access: &Access, credentials: Option<&str>) -> String {
    match (access, credentials) {
        (Access::Forwarded { .. }, Some(credentials)) => {
            Sha256::digest(credentials).iter().fold(String::new(), |mut text, byte| {
                write!(text, "{byte:02x}").ok();
                text
            })
        }
        (Access::Public | Access::Token(_) | Access::Forwarded { .. }, _) => String::new(),
    }
}

/// Whether too many sessions are being opened, where the operator has set a limit.
async fn limited(env: &Env, request: &Request, principal: &str) -> bool {
    let Ok(limiter) = env.rate_limiter("RATE_LIMITER") else { return false };
    let address = request.headers().get("cf-connecting-ip").ok().flatten().unwrap_or_default();
    let key = if principal.is_empty() { address } else { principal.to_owned() };
    limiter.limit(key).await.is_ok_and(|outcome| !outcome.success)
}
