//! The Worker itself: who may come in, and where to. It keeps nothing, and the
//! bodies of sessions pass through it untouched.

use crate::answer;
use crate::page;
use crate::platform;
use crate::session::{LENGTH, ORIGIN, PRINCIPAL, UPSTREAM};
use crate::settings::{self, Access, Settings};
use crate::shell::log;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use mcp_proxy_core::Turned;
use sha2::{Digest, Sha256};
use std::fmt::Write;
use std::net::IpAddr;
use subtle::ConstantTimeEq;
use wasm_bindgen::JsCast;
use wasm_bindgen_futures::JsFuture;
use worker::web_sys::{Request, Response};
use worker::{Env, Error, Result, Url};

/// What is looked at. The first ones are passed on to the session.
const LOOKED_AT: &str = "accept content-type last-event-id mcp-protocol-version mcp-session-id \
                         content-length origin host authorization cf-connecting-ip";
const PASSED: [&str; 5] = ["accept", "content-type", "last-event-id", "mcp-protocol-version", "mcp-session-id"];

/// A request, as far as the edge looks at it.
struct Asked {
    method: Method,
    url: Url,
    passed: [Option<String>; 5],
    length: Option<usize>,
    origin: Option<String>,
    host: Option<String>,
    credentials: Option<String>,
    address: Option<String>,
}

impl Asked {
    fn new(request: &Request) -> Result<Self> {
        let seen = platform::glance(request, LOOKED_AT);
        let mut seen = seen.split('\n').map(|line| (line != "\0").then(|| line.to_owned()));
        let mut next = || seen.next().flatten();
        Ok(Self {
            method: next().and_then(|method| method.parse().ok()).unwrap_or_default(),
            url: Url::parse(&next().unwrap_or_default())?,
            passed: std::array::from_fn(|_| next()),
            length: next().and_then(|length| length.parse().ok()),
            origin: next(),
            host: next(),
            credentials: next(),
            address: next(),
        })
    }

    fn session(&self) -> Option<&str> {
        let [.., session] = &self.passed;
        session.as_deref()
    }
}

/// Answers a request.
pub(crate) async fn answer(request: &Request, env: &Env) -> Result<Response> {
    let read = settings::current(env);
    let asked = Asked::new(request)?;
    if [Method::GET, Method::HEAD].contains(&asked.method)
        && let Some(page) = page::at(asked.url.path(), &read)?
    {
        return Ok(page.into());
    }
    let settings = match &*read {
        Ok(settings) => settings,
        Err(problems) => {
            let message = format!("this Worker is misconfigured: {}", problems.join(" "));
            return Ok(answer::refusal(StatusCode::SERVICE_UNAVAILABLE, -32000, &message)?.into());
        }
    };
    let Some(name) = endpoint(asked.url.path()).filter(|name| settings.upstreams.contains_key(*name)) else {
        return Ok(answer::refusal(StatusCode::NOT_FOUND, -32000, "there is no MCP endpoint at this path")?.into());
    };
    if let Err(turned) = settings.door.admit(&knocking(&asked), &asked.url.origin().ascii_serialization()) {
        return Ok(turned_away(turned)?.into());
    }
    if asked.method == Method::OPTIONS {
        return Ok(answer::preflight(asked.origin.as_deref())?.into());
    }
    if let Some(refused) = refuse(&asked, request, env, settings).await? {
        if let Some(origin) = &asked.origin {
            answer::share(refused.headers(), origin)?;
        }
        return Ok(refused.into());
    }
    forward(&asked, request, env, settings, name).await
}

fn turned_away(turned: Turned) -> Result<worker::Response> {
    let (name, what) = match turned {
        Turned::Origin => ("ALLOWED_ORIGINS", "the Origin"),
        Turned::Host => ("ALLOWED_HOSTS", "the Host"),
    };
    log("warn", "EDGE", &format!("{what} of a request is not in {name}"));
    answer::refusal(StatusCode::FORBIDDEN, -32000, &format!("{what} of this request is not allowed here"))
}

/// Why a request goes no further than here.
async fn refuse(asked: &Asked, request: &Request, env: &Env, settings: &Settings) -> Result<Option<worker::Response>> {
    if !admits(&settings.access, asked.credentials.as_deref()) {
        log("warn", "EDGE", "a request came without the credentials that it needs");
        let refused = answer::refusal(StatusCode::UNAUTHORIZED, -32000, "this endpoint wants a bearer token")?;
        refused.headers().set("www-authenticate", "Bearer")?;
        return Ok(Some(refused));
    }
    if ![Method::GET, Method::POST, Method::DELETE].contains(&asked.method) {
        let refused = answer::refusal(StatusCode::METHOD_NOT_ALLOWED, -32600, "only GET, POST and DELETE are for MCP")?;
        refused.headers().set("allow", "GET, POST, DELETE, OPTIONS")?;
        return Ok(Some(refused));
    }
    if asked.length.is_some_and(|length| length > settings.limits.body) {
        JsFuture::from(platform::drain(request.body().as_ref())).await?;
        return answer::too_long(settings.limits.body).map(Some);
    }
    if asked.session().is_some() {
        return Ok(None);
    }
    if asked.method != Method::POST {
        return answer::refusal(StatusCode::BAD_REQUEST, -32600, "the Mcp-Session-Id header is missing").map(Some);
    }
    if limited(asked, env).await {
        let message = "too many sessions are being opened; try again later";
        return answer::refusal(StatusCode::TOO_MANY_REQUESTS, -32000, message).map(Some);
    }
    Ok(None)
}

/// Hands a request on to its session. What the session says passes untouched.
async fn forward(asked: &Asked, request: &Request, env: &Env, settings: &Settings, name: &str) -> Result<Response> {
    let mut lines = String::new();
    let mut add = |name: &str, value: &str| lines.extend([name, "\n", value, "\n"]);
    for (name, value) in PASSED.iter().zip(&asked.passed) {
        if let Some(value) = value {
            add(name, value);
        }
    }
    add(UPSTREAM, name);
    add(PRINCIPAL, &principal(&settings.access, asked.credentials.as_deref()));
    if let Some(length) = asked.length {
        add(LENGTH, &length.to_string());
    }
    if let Some(origin) = &asked.origin {
        add(ORIGIN, origin);
    }
    if let (Access::Forwarded { .. }, Some(credentials)) = (&settings.access, &asked.credentials) {
        add("authorization", credentials);
    }
    let object = asked.session().map(|session| session.split_once('.').map_or("", |(object, _)| object));
    let sessions = env.durable_object("SESSIONS")?;
    let response = match JsFuture::from(platform::forward(sessions.as_ref(), object, request, &lines)).await {
        Ok(response) if response.is_undefined() => answer::no_such_session()?,
        Ok(response) => return response.dyn_into().map_err(|_| Error::RustError("not a response".to_owned())),
        Err(_) => {
            log("error", "EDGE", "a session did not answer");
            let message = "the session was restarted; whether the request was carried out is not known";
            let refused = answer::refusal(StatusCode::SERVICE_UNAVAILABLE, -32000, message)?;
            refused.headers().set("retry-after", "1")?;
            refused
        }
    };
    if let Some(origin) = &asked.origin {
        answer::share(response.headers(), origin)?;
    }
    Ok(response.into())
}

/// The name in `/mcp` or `/<name>/mcp`. Nothing else of a path means anything.
fn endpoint(path: &str) -> Option<&str> {
    let name = path.strip_suffix("/mcp")?;
    if name.is_empty() { Some("") } else { name.strip_prefix('/').filter(|name| !name.is_empty()) }
}

fn knocking(asked: &Asked) -> HeaderMap {
    let pairs = [(header::ORIGIN, &asked.origin), (header::HOST, &asked.host)];
    let value = |value: &str| HeaderValue::from_bytes(value.as_bytes()).unwrap_or(HeaderValue::from_static("null"));
    pairs.into_iter().filter_map(|(name, given)| Some((name, value(given.as_deref()?)))).collect()
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

/// Whether this address opens too many sessions, where the operator has set a
/// limit. What else a client says of itself costs it nothing to change.
async fn limited(asked: &Asked, env: &Env) -> bool {
    let Ok(limiter) = env.rate_limiter("RATE_LIMITER") else { return false };
    let outcome = limiter.limit(network(asked.address.as_deref().unwrap_or_default())).await;
    if let Err(error) = &outcome {
        log("error", "EDGE", &format!("the rate limiter does not answer: {error}"));
    }
    outcome.is_ok_and(|outcome| !outcome.success)
}

/// What one client has of the addresses: all that begin with these 64 bits, if
/// they have so many.
fn network(address: &str) -> String {
    match address.parse() {
        Ok(IpAddr::V6(long)) => {
            long.segments().iter().take(4).fold(String::new(), |text, part| format!("{text}{part:x}:"))
        }
        Ok(IpAddr::V4(_)) | Err(_) => address.to_owned(),
    }
}
