//! The Worker itself: who may come in, and where to. It keeps nothing, and the
//! bodies of sessions pass through it untouched.

use crate::answer;
use crate::known::Known;
use crate::page;
use crate::platform::{self, Fail};
use crate::settings::{self, Access, Read, Settings};
use crate::shell::log;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use mcp_proxy_core::Turned;
use sha2::{Digest, Sha256};
use std::fmt::Write;
use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use subtle::ConstantTimeEq;
use wasm_bindgen::JsValue;
use wasm_bindgen::prelude::Closure;
use wasm_bindgen_futures::{JsFuture, future_to_promise};
use worker::js_sys::Promise;
use worker::web_sys::Request;
use worker::{Env, Response, Result, Url};

thread_local! {
    /// The response where a session is unknown, or does not answer.
    static FAILED: Fail = Closure::new(|unknown, origin: Option<String>| {
        failed(unknown, origin.as_deref()).map_or(JsValue::UNDEFINED, answer::raw)
    });
}

/// A request, as far as the edge looks at it.
struct Asked<'a> {
    method: Method,
    url: &'a str,
    passed: [Option<&'a str>; 5],
    length: Option<&'a str>,
    origin: Option<&'a str>,
    host: Option<&'a str>,
    credentials: Option<&'a str>,
}

/// What comes of a request.
enum Answer {
    /// This.
    Ready(Response),
    /// What its session says.
    Promised(Promise),
    /// Not known at once; this was seen of it.
    Later(String),
}

impl<'a> Asked<'a> {
    fn new(seen: &'a str) -> Self {
        let mut seen = seen.split('\n').map(|line| Some(line).filter(|line| *line != "\0"));
        let mut next = || seen.next().flatten();
        Self {
            method: next().and_then(|method| method.parse().ok()).unwrap_or_default(),
            url: next().unwrap_or_default(),
            passed: std::array::from_fn(|_| next()),
            length: next(),
            origin: next(),
            host: next(),
            credentials: next(),
        }
    }

    fn session(&self) -> Option<&str> {
        let [.., session] = self.passed;
        session
    }

    fn path(&self) -> &str {
        let (_, rest) = self.url.split_once("://").unwrap_or_default();
        let rest = rest.split(['?', '#']).next().unwrap_or_default();
        rest.find('/').and_then(|at| rest.get(at..)).unwrap_or("/")
    }

    fn is_over(&self, limit: usize) -> bool {
        self.length.and_then(|length| length.parse::<usize>().ok()).is_some_and(|length| length > limit)
    }
}

/// Answers a request.
pub(crate) fn answer(request: Request, env: Env) -> Promise {
    match answer_now(&request, &env) {
        Ok(Answer::Promised(promise)) => promise,
        Ok(Answer::Ready(response)) => Promise::resolve(&answer::raw(response)),
        Ok(Answer::Later(seen)) => future_to_promise(AssertUnwindSafe(async move {
            let answered = answer_later(&seen, &request, &env).await;
            answered.or_else(|error| answer::broken(&error).map(answer::raw)).map_err(JsValue::from)
        })),
        Err(error) => answer::settled(answer::broken(&error)),
    }
}

/// Answers a request, if that can be done at once.
fn answer_now(request: &Request, env: &Env) -> Result<Answer> {
    let seen = platform::glance(request);
    let (asked, read) = (Asked::new(&seen), settings::current(env));
    let (settings, name) = match enter(&asked, &read)? {
        Ok(way) => way,
        Err(refused) => return Ok(Answer::Ready(refused)),
    };
    if let Some(refused) = refuse(&asked, settings)? {
        return answer::shared(refused, asked.origin).map(Answer::Ready);
    }
    if asked.session().is_none() || asked.is_over(settings.limits.body) {
        return Ok(Answer::Later(seen));
    }
    Ok(Answer::Promised(forward(&asked, request, env, settings, name)))
}

/// The same for what takes its time: a request that opens a session, or is too long.
async fn answer_later(seen: &str, request: &Request, env: &Env) -> Result<JsValue> {
    let (asked, read) = (Asked::new(seen), settings::current(env));
    let (settings, name) = match enter(&asked, &read)? {
        Ok(way) => way,
        Err(refused) => return Ok(answer::raw(refused)),
    };
    let refused = if asked.is_over(settings.limits.body) {
        JsFuture::from(platform::drain(request.body().as_ref())).await?;
        answer::too_long(settings.limits.body)?
    } else if limited(request, env).await {
        let message = "too many sessions are being opened; try again later";
        answer::refusal(StatusCode::TOO_MANY_REQUESTS, -32000, message)?
    } else {
        return Ok(JsFuture::from(forward(&asked, request, env, settings, name)).await?);
    };
    answer::shared(refused, asked.origin).map(answer::raw)
}

/// The way of a request to its server; or what stands in it.
fn enter<'r>(asked: &'r Asked<'_>, read: &'r Read) -> Result<std::result::Result<(&'r Settings, &'r str), Response>> {
    if [Method::GET, Method::HEAD].contains(&asked.method)
        && let Some(page) = page::at(asked.path(), read)?
    {
        return Ok(Err(page));
    }
    let settings = match read {
        Ok(settings) => settings,
        Err(problems) => {
            let message = format!("this Worker is misconfigured: {}", problems.join(" "));
            return answer::refusal(StatusCode::SERVICE_UNAVAILABLE, -32000, &message).map(Err);
        }
    };
    let Some(name) = endpoint(asked.path()).filter(|name| settings.upstreams.contains_key(*name)) else {
        return answer::refusal(StatusCode::NOT_FOUND, -32000, "there is no MCP endpoint at this path").map(Err);
    };
    if let Err(turned) = settings.door.admit(&knocking(asked), &own_origin(asked)) {
        return turned_away(turned).map(Err);
    }
    if asked.method == Method::OPTIONS {
        return answer::preflight(asked.origin).map(Err);
    }
    Ok(Ok((settings, name)))
}

/// The origin that the Worker is at, for a page that asks.
fn own_origin(asked: &Asked<'_>) -> String {
    let url = asked.origin.and_then(|_| Url::parse(asked.url).ok());
    url.map(|url| url.origin().ascii_serialization()).unwrap_or_default()
}

fn turned_away(turned: Turned) -> Result<Response> {
    let (name, what) = match turned {
        Turned::Origin => ("ALLOWED_ORIGINS", "the Origin"),
        Turned::Host => ("ALLOWED_HOSTS", "the Host"),
    };
    log("warn", "EDGE", &format!("{what} of a request is not in {name}"));
    answer::refusal(StatusCode::FORBIDDEN, -32000, &format!("{what} of this request is not allowed here"))
}

/// Why a request goes no further than here.
fn refuse(asked: &Asked<'_>, settings: &Settings) -> Result<Option<Response>> {
    if !admits(&settings.access, asked.credentials) {
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
    if asked.session().is_none() && asked.method != Method::POST {
        return answer::refusal(StatusCode::BAD_REQUEST, -32600, "the Mcp-Session-Id header is missing").map(Some);
    }
    Ok(None)
}

/// Hands a request on to its session. What the session says passes untouched.
fn forward(asked: &Asked<'_>, request: &Request, env: &Env, settings: &Settings, name: &str) -> Promise {
    let forwarded = matches!(settings.access, Access::Forwarded { .. });
    let known = Known {
        length: asked.length.filter(|length| length.parse::<usize>().is_ok()).unwrap_or("-"),
        upstream: name,
        principal: &principal(&settings.access, asked.credentials),
        origin: asked.origin.unwrap_or_default(),
        credentials: asked.credentials.filter(|_| forwarded).unwrap_or_default(),
        passed: asked.passed.map(Option::unwrap_or_default),
    };
    let object = asked.session().map(|session| session.split_once('.').map_or("", |(object, _)| object));
    FAILED.with(|fail| platform::forward(env.as_ref(), object, request, &known.write(), fail))
}

/// The response where a session is unknown, or does not answer.
fn failed(unknown: bool, origin: Option<&str>) -> Result<Response> {
    if unknown {
        return answer::shared(answer::no_such_session()?, origin);
    }
    log("error", "EDGE", "a session did not answer");
    let message = "the session was restarted; whether the request was carried out is not known";
    let refused = answer::refusal(StatusCode::SERVICE_UNAVAILABLE, -32000, message)?;
    refused.headers().set("retry-after", "1")?;
    answer::shared(refused, origin)
}

/// The name in `/mcp` or `/<name>/mcp`. Nothing else of a path means anything.
fn endpoint(path: &str) -> Option<&str> {
    let name = path.strip_suffix("/mcp")?;
    if name.is_empty() { Some("") } else { name.strip_prefix('/').filter(|name| !name.is_empty()) }
}

fn knocking(asked: &Asked<'_>) -> HeaderMap {
    let pairs = [(header::ORIGIN, asked.origin), (header::HOST, asked.host)];
    let value = |value: &str| HeaderValue::from_bytes(value.as_bytes()).unwrap_or(HeaderValue::from_static("null"));
    pairs.into_iter().filter_map(|(name, given)| Some((name, value(given?)))).collect()
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
async fn limited(request: &Request, env: &Env) -> bool {
    let Ok(limiter) = env.rate_limiter("RATE_LIMITER") else { return false };
    let address = request.headers().get("cf-connecting-ip").ok().flatten();
    let outcome = limiter.limit(network(&address.unwrap_or_default())).await;
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
