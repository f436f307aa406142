//! The Worker itself: it reads a request, asks `mcp-proxy-edge` about it, and
//! passes it to its session. It keeps nothing, and the bodies of sessions pass
//! through it untouched. It reads only the bodies of requests that name no
//! session: no object is made for a request that does not open one.

use crate::answer;
use crate::known::Known;
use crate::opening;
use crate::page;
use crate::place::Place;
use crate::platform::{self, Fail};
use crate::settings::{self, Read, Settings};
use crate::shell::log;
use http::Method;
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
struct Asked<'a> {
    head: edge::Request<'a>,
    /// The values of the headers that its session gets.
    passed: [Option<&'a str>; 5],
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
        let method = next().and_then(|method| method.parse().ok()).unwrap_or_default();
        let url = next().unwrap_or_default();
        let passed: [_; 5] = std::array::from_fn(|_| next());
        let [.., session] = passed;
        let [content_length, origin, host, authorization] = std::array::from_fn(|_| next());
        Self { head: edge::Request { method, url, origin, host, authorization, session, content_length }, passed }
    }

    /// What its session is to know of it, as far as the request itself says.
    fn known(&self) -> Known<'a> {
        let passed = self.passed.map(Option::unwrap_or_default);
        Known { origin: self.head.origin.unwrap_or_default(), passed, ..Known::default() }
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
    if let Some(page) = page(&asked, &read)? {
        return Ok(Answer::Ready(page));
    }
    let settings = match &*read {
        Ok(settings) => settings,
        Err(problems) => return answer::refused(&misconfigured(problems), None).map(Answer::Ready),
    };
    match settings.edge.judge(&asked.head) {
        Verdict::Refuse(refusal) => refuse(&refusal, &asked).map(Answer::Ready),
        Verdict::Preflight => answer::whole(cors::preflight(asked.head.origin)).map(Answer::Ready),
        Verdict::Session { upstream, place } => {
            let announced = asked.head.content_length.filter(|_| asked.head.length().is_some());
            let known = Known { length: announced.unwrap_or("-"), ..asked.known() };
            let way = Way { env, settings, name: upstream };
            Ok(Answer::Promised(forward(&way, &asked, request, place, None, known)))
        }
        Verdict::Stranger | Verdict::TooLong | Verdict::Open { .. } => Ok(Answer::Later(seen)),
    }
}

/// The same for what takes its time: a request that opens a session, is too
/// long, or comes from a stranger.
async fn answer_later(seen: &str, request: &Request, env: &Env) -> Result<JsValue> {
    let (asked, read) = (Asked::new(seen), settings::current(env));
    let settings = match &*read {
        Ok(settings) => settings,
        Err(problems) => return answer::refused(&misconfigured(problems), None).map(answer::raw),
    };
    let refusal = match settings.edge.judge(&asked.head) {
        Verdict::Open { upstream: name } if !limited(request, env).await => {
            return open(&Way { env, settings, name }, &asked, request).await;
        }
        Verdict::Open { .. } => Refusal::TooManyOpenings,
        Verdict::Stranger if limited(request, env).await => Refusal::TooManyAttempts,
        Verdict::Stranger => Refusal::Unauthorized,
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

/// The page or the state of the Worker, if that is asked for.
fn page(asked: &Asked<'_>, read: &Read) -> Result<Option<Response>> {
    let reads = [Method::GET, Method::HEAD].contains(&asked.head.method);
    if reads { page::at(asked.head.path(), read) } else { Ok(None) }
}

fn misconfigured(problems: &[String]) -> Refusal {
    Refusal::Misconfigured(format!("this Worker is misconfigured: {}", problems.join(" ")))
}

/// Hands a request that opens a session on to a new object. Nothing else gets
/// an object, and nobody gets more than the operator allows.
async fn open(way: &Way<'_>, asked: &Asked<'_>, request: &Request) -> Result<JsValue> {
    let Way { env, settings, name } = way;
    let (edge, origin) = (&settings.edge, asked.head.origin);
    let length = asked.head.length().map_or(f64::NAN, |length| length as f64);
    let read = JsFuture::from(platform::read(request, edge.max_body as f64, length)).await?;
    let Ok(body) = read.dyn_into::<Uint8Array>() else {
        return refuse(&answer::too_long(edge.max_body), asked).map(answer::raw);
    };
    if let Some(config) = edge.upstreams.get(*name)
        && let Some(refusal) = opening::Refusal::of(config, asked.known().headers(), body.to_vec(), settings.verbose)
    {
        return refusal.response(origin).map(answer::raw);
    }
    let object = platform::fresh(env.as_ref())?;
    let client = edge.access.client(asked.head.authorization, &address(request));
    let client = platform::counter(env.as_ref(), &client);
    if let Some(place) = Place::new(env, &client, &object, &settings.limits)
        && !place.take().await
    {
        return refuse(&answer::too_many_sessions(), asked).map(answer::raw);
    }
    let known = Known { length: &body.length().to_string(), client: &client, ..asked.known() };
    Ok(JsFuture::from(forward(way, asked, request, &object, Some(&body), known)).await?)
}

/// Refuses a request, and tells the operator what may need attention.
fn refuse(refusal: &Refusal, asked: &Asked<'_>) -> Result<Response> {
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
    } else if *refusal == Refusal::Unauthorized {
        Some("a request came without the credentials that it needs")
    } else if *refusal == answer::too_many_sessions() {
        Some("a client has too many sessions open (MAX_SESSIONS)")
    } else {
        None
    }
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
    let (access, authorization) = (&way.settings.edge.access, asked.head.authorization);
    let known = Known {
        upstream: way.name,
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

/// Where a client is, as far as it cannot choose that.
fn address(request: &Request) -> String {
    request.headers().get("cf-connecting-ip").ok().flatten().unwrap_or_default()
}

/// Whether this address opens too many sessions, or tries too many credentials,
/// where the operator has set a limit. What else a client says of itself costs it
/// nothing to change.
async fn limited(request: &Request, env: &Env) -> bool {
    let Ok(limiter) = env.rate_limiter("RATE_LIMITER") else { return false };
    let outcome = limiter.limit(edge::network(&address(request))).await;
    if let Err(error) = &outcome {
        log("error", "EDGE", &format!("the rate limiter does not answer: {error}"));
    }
    outcome.is_ok_and(|outcome| !outcome.success)
}
