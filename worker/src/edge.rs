//! The Worker itself: who may come in, and where to. It keeps nothing, and the
//! bodies of sessions pass through it untouched. Only what names no session is
//! read here: no object is made for what does not open one.

use crate::answer;
use crate::known::Known;
use crate::opening::Refusal;
use crate::page;
use crate::place::Place;
use crate::platform::{self, Fail};
use crate::settings::{self, Access, Read, Settings};
use crate::shell::log;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use mcp_proxy_core::Rejection;
use sha2::{Digest, Sha256};
use std::fmt::Write;
use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use subtle::ConstantTimeEq;
use wasm_bindgen::prelude::Closure;
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::{JsFuture, future_to_promise};
use worker::js_sys::{Promise, Uint8Array};
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

/// Where a request goes.
struct Way<'a> {
    env: &'a Env,
    settings: &'a Settings,
    /// The name of the server.
    name: &'a str,
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

    /// How many bytes the body is said to have.
    fn said_length(&self) -> Option<&'a str> {
        self.length.filter(|length| length.parse::<usize>().is_ok())
    }

    /// What its session is to know of it, as far as the request itself says.
    fn known(&self) -> Known<'a> {
        let passed = self.passed.map(Option::unwrap_or_default);
        Known { origin: self.origin.unwrap_or_default(), passed, ..Known::default() }
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
    if !admits(&settings.access, asked.credentials) {
        return Ok(Answer::Later(seen));
    }
    if let Some(refused) = refuse(&asked, settings)? {
        return answer::shared(refused, asked.origin).map(Answer::Ready);
    }
    let Some(session) = asked.session().filter(|_| !asked.is_over(settings.limits.body)) else {
        return Ok(Answer::Later(seen));
    };
    let (object, _) = session.split_once('.').unwrap_or_default();
    let known = Known { length: asked.said_length().unwrap_or("-"), ..asked.known() };
    Ok(Answer::Promised(forward(&Way { env, settings, name }, &asked, request, object, None, known)))
}

/// The same for what takes its time: a request that opens a session, is too
/// long, or comes from a stranger.
async fn answer_later(seen: &str, request: &Request, env: &Env) -> Result<JsValue> {
    let (asked, read) = (Asked::new(seen), settings::current(env));
    let (settings, name) = match enter(&asked, &read)? {
        Ok(way) => way,
        Err(refused) => return Ok(answer::raw(refused)),
    };
    let refused = if !admits(&settings.access, asked.credentials) {
        turn_stranger_away(request, env).await?
    } else if asked.is_over(settings.limits.body) {
        JsFuture::from(platform::drain(request.body().as_ref())).await?;
        answer::too_long(settings.limits.body)?
    } else if limited(request, env).await {
        let message = "too many sessions are being opened; try again later";
        answer::refusal(StatusCode::TOO_MANY_REQUESTS, -32000, message)?
    } else {
        return open(&Way { env, settings, name }, &asked, request).await;
    };
    answer::shared(refused, asked.origin).map(answer::raw)
}

/// Hands a request that opens a session on to a new object. Nothing else gets
/// an object, and nobody gets more than the operator allows.
async fn open(way: &Way<'_>, asked: &Asked<'_>, request: &Request) -> Result<JsValue> {
    let Way { env, settings, name } = way;
    let limit = settings.limits.body;
    let length = asked.said_length().and_then(|length| length.parse().ok()).unwrap_or(f64::NAN);
    let read = JsFuture::from(platform::read(request, limit as f64, length)).await?;
    let Ok(body) = read.dyn_into::<Uint8Array>() else {
        return answer::shared(answer::too_long(limit)?, asked.origin).map(answer::raw);
    };
    if let Some(config) = settings.upstreams.get(*name)
        && let Some(refusal) = Refusal::of(config, asked.known().headers(), body.to_vec(), settings.verbose)
    {
        return refusal.response(asked.origin).map(answer::raw);
    }
    let object = platform::fresh(env.as_ref())?;
    let client = platform::counter(env.as_ref(), &counted_as(&settings.access, asked, request));
    if let Some(place) = Place::new(env, &client, &object, &settings.limits)
        && !place.take().await
    {
        log("warn", "EDGE", "a client has too many sessions open (MAX_SESSIONS)");
        return answer::shared(answer::too_many_open()?, asked.origin).map(answer::raw);
    }
    let known = Known { length: &body.length().to_string(), client: &client, ..asked.known() };
    Ok(JsFuture::from(forward(way, asked, request, &object, Some(&body), known)).await?)
}

/// Turns somebody away who may not come in. Whoever tries too often is not even told why.
async fn turn_stranger_away(request: &Request, env: &Env) -> Result<Response> {
    if limited(request, env).await {
        let message = "too many requests without the credentials that they need; try again later";
        return answer::refusal(StatusCode::TOO_MANY_REQUESTS, -32000, message);
    }
    log("warn", "EDGE", "a request came without the credentials that it needs");
    let refused = answer::refusal(StatusCode::UNAUTHORIZED, -32000, "this endpoint wants a bearer token")?;
    refused.headers().set("www-authenticate", "Bearer")?;
    Ok(refused)
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
    if let Err(rejection) = settings.origins.admit(&knocking(asked), &own_origin(asked)) {
        return turned_away(rejection).map(Err);
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

fn turned_away(rejection: Rejection) -> Result<Response> {
    let (name, what) = match rejection {
        Rejection::Origin => ("ALLOWED_ORIGINS", "the Origin"),
        Rejection::Host => ("ALLOWED_HOSTS", "the Host"),
    };
    log("warn", "EDGE", &format!("{what} of a request is not in {name}"));
    answer::refusal(StatusCode::FORBIDDEN, -32000, &format!("{what} of this request is not allowed here"))
}

/// Why a request goes no further than here.
fn refuse(asked: &Asked<'_>, settings: &Settings) -> Result<Option<Response>> {
    // The server is to get them as they are, or not at all.
    if matches!(settings.access, Access::Forwarded { .. })
        && asked.credentials.is_some_and(|given| !given.bytes().all(|byte| matches!(byte, b' '..=b'~')))
    {
        let message = "the Authorization header has control characters in it, or others that are not printable ASCII";
        return answer::refusal(StatusCode::BAD_REQUEST, -32600, message).map(Some);
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

/// Hands a request on to its session, with its body if that was read. What the
/// session says passes untouched.
fn forward(
    way: &Way<'_>,
    asked: &Asked<'_>,
    request: &Request,
    object: &str,
    body: Option<&Uint8Array>,
    known: Known<'_>,
) -> Promise {
    let access = &way.settings.access;
    let forwarded = matches!(access, Access::Forwarded { .. });
    let known = Known {
        upstream: way.name,
        principal: &principal(access, asked.credentials),
        credentials: asked.credentials.filter(|_| forwarded).unwrap_or_default(),
        ..known
    };
    FAILED.with(|fail| platform::forward(way.env.as_ref(), object, request, body, &known.write(), fail))
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

/// Whose sessions are counted together: those of the same credentials, where the
/// server knows them; else those of the same address.
fn counted_as(access: &Access, asked: &Asked<'_>, request: &Request) -> String {
    let principal = principal(access, asked.credentials);
    if principal.is_empty() { format!("at {}", address(request)) } else { principal }
}

/// Where a client is, as far as it cannot choose that.
fn address(request: &Request) -> String {
    network(&request.headers().get("cf-connecting-ip").ok().flatten().unwrap_or_default())
}

/// Whether this address opens too many sessions, or tries too many credentials,
/// where the operator has set a limit. What else a client says of itself costs it
/// nothing to change.
async fn limited(request: &Request, env: &Env) -> bool {
    let Ok(limiter) = env.rate_limiter("RATE_LIMITER") else { return false };
    let outcome = limiter.limit(address(request)).await;
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
