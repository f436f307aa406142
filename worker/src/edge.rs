//! The entry of the Worker: it reads the head of a request, asks `mcp-proxy-edge` about
//! it, and forwards it to the object of its session. Bodies of sessions pass through it
//! unchanged. It reads only the bodies of requests that name no session, because only an
//! `initialize` or a modern request gets an object. It remembers only what it can lose
//! (see [`learned`](crate::learned)).

use crate::answer;
use crate::known::Known;
use crate::learned;
use crate::metadata;
use crate::opening;
use crate::page;
use crate::place::Place;
use crate::platform::{self, Fail};
use crate::settings::{self, Read, Settings};
use crate::shell::log;
use crate::stateless;
use http::Method;
use mcp_proxy_core::ModernRequest;
use mcp_proxy_edge::{self as edge, Refusal, Verdict, cors};
use std::panic::AssertUnwindSafe;
use wasm_bindgen::prelude::Closure;
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::{JsFuture, future_to_promise};
use worker::js_sys::{Promise, Uint8Array};
use worker::web_sys::Request;
use worker::{Env, Response, Result};

thread_local! {
    /// The response where a session is unknown, or does not answer.
    static FAILED: Fail = Closure::new(|unknown, origin: Option<String>| {
        failed(unknown, origin.as_deref()).map_or(JsValue::UNDEFINED, answer::raw)
    });
}

/// A request, as far as the edge looks at it.
pub(crate) struct Asked<'a> {
    pub(crate) head: edge::Request<'a>,
    /// The values of the headers that its object gets.
    passed: [Option<&'a str>; 7],
    /// The headers that repeat arguments of a tool.
    mirrored: &'a str,
}

/// Where a request goes.
pub(crate) struct Way<'a> {
    pub(crate) env: &'a Env,
    pub(crate) settings: &'a Settings,
    /// The name of the server.
    pub(crate) name: &'a str,
}

/// The answer to a request.
enum Answer {
    /// The response.
    Ready(Response),
    /// The response of its session.
    Promised(Promise),
    /// The edge must wait for something. These are the parts of the request that it reads.
    Later(String),
}

impl<'a> Asked<'a> {
    fn new(seen: &'a str) -> Self {
        let mut seen = seen.split('\n').map(|line| Some(line).filter(|line| *line != "\0"));
        let mut next = || seen.next().flatten();
        let method = next().and_then(|method| method.parse().ok()).unwrap_or_default();
        let url = next().unwrap_or_default();
        let mut passed: [_; 7] = std::array::from_fn(|_| next());
        let [_, _, _, version, rpc_method, _, session] = passed;
        let [content_length, origin, host, authorization] = std::array::from_fn(|_| next());
        let mirrored = next().unwrap_or_default();
        let head =
            edge::Request { method, url, origin, host, authorization, session, version, rpc_method, content_length };
        // A machine must not see a session id that the edge ignores.
        let [.., last] = &mut passed;
        *last = head.session();
        Self { head, passed, mirrored }
    }

    /// Whether a header names the JSON-RPC method.
    fn names_method(&self) -> bool {
        self.head.rpc_method.is_some()
    }

    /// What its object must know about it, as far as the request itself says.
    fn known(&self) -> Known<'a> {
        let passed = self.passed.map(Option::unwrap_or_default);
        let origin = self.head.origin.unwrap_or_default();
        Known { origin, passed, mirrored: self.mirrored, ..Known::default() }
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

/// Answers a request, unless the edge must wait for something.
fn answer_now(request: &Request, env: &Env) -> Result<Answer> {
    let seen = platform::glance(request);
    let (asked, read) = (Asked::new(&seen), settings::current(env));
    if let Some(page) = page(&asked, &read, env)? {
        return Ok(Answer::Ready(page));
    }
    let settings = match &*read {
        Ok(settings) => settings,
        Err(problems) => return answer::refused(&misconfigured(problems), None).map(Answer::Ready),
    };
    match settings.edge.judge(&asked.head) {
        Verdict::Refuse(refusal) => refuse(&refusal, &asked).map(Answer::Ready),
        Verdict::Preflight => {
            let requested = request.headers().get("access-control-request-headers").ok().flatten();
            answer::whole(cors::preflight(asked.head.origin, requested.as_deref())).map(Answer::Ready)
        }
        Verdict::Session { upstream, place } => {
            let announced = asked.head.content_length.filter(|_| asked.head.length().is_some());
            let known = Known { length: announced.unwrap_or("-"), ..asked.known() };
            let way = Way { env, settings, name: upstream };
            Ok(Answer::Promised(forward(&way, &asked, request, place, None, known)))
        }
        Verdict::Describe { .. } | Verdict::Stranger { .. } | Verdict::TooLong | Verdict::Open { .. } => {
            Ok(Answer::Later(seen))
        }
    }
}

/// Answers a request that names no session, is too long, comes from a stranger, or asks for
/// metadata.
async fn answer_later(seen: &str, request: &Request, env: &Env) -> Result<JsValue> {
    let (asked, read) = (Asked::new(seen), settings::current(env));
    let settings = match &*read {
        Ok(settings) => settings,
        Err(problems) => return answer::refused(&misconfigured(problems), None).map(answer::raw),
    };
    let refusal = match settings.edge.judge(&asked.head) {
        Verdict::Open { upstream: name } => return open(&Way { env, settings, name }, &asked, request).await,
        Verdict::Describe { upstream: name } => return metadata::answer(&Way { env, settings, name }, &asked).await,
        Verdict::Stranger { .. } if limited(request, env).await => Refusal::TooManyAttempts,
        Verdict::Stranger { upstream } => Refusal::Unauthorized(asked.head.resource(upstream).challenge()),
        Verdict::TooLong => {
            JsFuture::from(platform::drain(request.body().as_ref())).await?;
            answer::too_long(settings.edge.max_body)
        }
        // The settings have changed in between.
        Verdict::Refuse(refusal) => refusal,
        Verdict::Preflight | Verdict::Session { .. } => Refusal::NotOpened,
    };
    refuse(&refusal, &asked).map(answer::raw)
}

/// The page or the health of the Worker, if the request asks for one.
fn page(asked: &Asked<'_>, read: &Read, env: &Env) -> Result<Option<Response>> {
    let reads = [Method::GET, Method::HEAD].contains(&asked.head.method);
    if reads { page::at(asked.head.path(), read, env) } else { Ok(None) }
}

fn misconfigured(problems: &[String]) -> Refusal {
    Refusal::Misconfigured(format!("this Worker is misconfigured: {}", problems.join(" ")))
}

/// Forwards a request that names no session: to a new object if it opens a session, or to
/// an object that serves modern requests. No other request gets an object, and no client
/// gets more objects than the operator allows.
async fn open(way: &Way<'_>, asked: &Asked<'_>, request: &Request) -> Result<JsValue> {
    let Way { env, settings, name } = way;
    let (edge, origin) = (&settings.edge, asked.head.origin);
    let principal = edge.access.principal(asked.head.authorization);
    let client = || {
        let name = edge.access.client(asked.head.authorization, &address(request), learned::is_admitted);
        platform::counter(env.as_ref(), &name)
    };
    let server = learned::write(learned::found(env, name));
    // Only a modern client names its method in a header, and it opens no session.
    if !asked.names_method() && limited(request, env).await {
        return refuse(&Refusal::TooManyOpenings, asked).map(answer::raw);
    }
    let length = asked.head.length().map_or(f64::NAN, |length| length as f64);
    let read = JsFuture::from(platform::read(request, edge.max_body as f64, length)).await?;
    let Ok(body) = read.dyn_into::<Uint8Array>() else {
        return refuse(&answer::too_long(edge.max_body), asked).map(answer::raw);
    };
    if let Some(modern) = ModernRequest::read(&asked.known().headers(), &body.to_vec()) {
        let known = Known { length: &body.length().to_string(), client: &client(), ..asked.known() };
        return stateless::serve(way, asked, request, &body, &modern, known).await;
    }
    if asked.names_method() && limited(request, env).await {
        return refuse(&Refusal::TooManyOpenings, asked).map(answer::raw);
    }
    if let Some(config) = edge.upstreams.get(*name)
        && let Some(refusal) = opening::Refusal::of(config, asked.known().headers(), body.to_vec(), settings.verbose)
    {
        return refusal.response(origin).map(answer::raw);
    }
    let object = platform::fresh(env.as_ref())?;
    let client = client();
    if let Some(place) = Place::new(env, &client, &object, &settings.limits)
        && !place.take().await
    {
        return refuse(&answer::too_many_sessions(), asked).map(answer::raw);
    }
    let known = Known { length: &body.length().to_string(), client: &client, server: &server, ..asked.known() };
    let response = JsFuture::from(forward(way, asked, request, &object, Some(&body), known)).await?;
    learned::from(way, &principal, &response);
    Ok(response)
}

/// Refuses a request. Logs a line if the operator may have to change a setting.
pub(crate) fn refuse(refusal: &Refusal, asked: &Asked<'_>) -> Result<Response> {
    if let Some(line) = warning(refusal) {
        log("warn", "EDGE", line);
    }
    answer::refused(refusal, asked.head.origin)
}

/// The line in the log for a refusal that a setting may have caused.
fn warning(refusal: &Refusal) -> Option<&'static str> {
    if *refusal == Refusal::Origin {
        Some("the Origin of a request is not in ALLOWED_ORIGINS")
    } else if *refusal == Refusal::Host {
        Some("the Host of a request is not in ALLOWED_HOSTS")
    } else if *refusal == Refusal::NoMetadata {
        Some("the server has no metadata that say who issues tokens for it (AUTHORIZATION_SERVERS)")
    } else if *refusal == Refusal::MetadataFailed {
        Some("the server did not answer when it was asked for its metadata")
    } else if matches!(refusal, Refusal::Unauthorized(_)) {
        Some("a request came without the credentials that it needs")
    } else if *refusal == answer::too_many_sessions() {
        Some("a client has too many sessions open (MAX_SESSIONS)")
    } else {
        None
    }
}

/// Forwards a request to an object, with its body if the edge has read it. The object's
/// response passes unchanged.
pub(crate) fn forward(
    way: &Way<'_>,
    asked: &Asked<'_>,
    request: &Request,
    object: &str,
    body: Option<&Uint8Array>,
    known: Known<'_>,
) -> Promise {
    let (access, authorization) = (&way.settings.edge.access, asked.head.authorization);
    let metadata = if access.is_forwarded() { asked.head.resource(way.name).metadata() } else { String::new() };
    let known = Known {
        upstream: way.name,
        metadata: &metadata,
        principal: &access.principal(authorization),
        credentials: access.forwarded(authorization).unwrap_or_default(),
        ..known
    };
    FAILED.with(|fail| platform::forward(way.env.as_ref(), object, request, body, &known.write(), fail))
}

/// The response where a session is unknown, or does not answer.
fn failed(unknown: bool, origin: Option<&str>) -> Result<Response> {
    if unknown {
        return answer::refused(&Refusal::UnknownSession, origin);
    }
    log("error", "EDGE", "a session did not answer");
    answer::refused(&Refusal::Restarted, origin)
}

/// The address of a client. The platform sets it, so the client cannot choose it.
fn address(request: &Request) -> String {
    request.headers().get("cf-connecting-ip").ok().flatten().unwrap_or_default()
}

/// Whether this address has opened too many sessions or tried too many credentials, if
/// the operator has set a limit. A client can change everything else at no cost.
async fn limited(request: &Request, env: &Env) -> bool {
    let Ok(limiter) = env.rate_limiter("RATE_LIMITER") else { return false };
    let outcome = limiter.limit(edge::network(&address(request))).await;
    if let Err(error) = &outcome {
        log("error", "EDGE", &format!("the rate limiter does not answer: {error}"));
    }
    outcome.is_ok_and(|outcome| !outcome.success)
}
