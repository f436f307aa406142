//! Requests of revision 2026-07-28, which has no sessions. Those of one principal with the
//! same capabilities share an object, whose machine has one session with a legacy server.
//! A request that the server may ask questions about goes to another object while it could
//! be mistaken for one that is open. A request that was parked goes back to its
//! object, which the `requestState` names.

use crate::answer;
use crate::edge::{Asked, Way, forward, refuse};
use crate::known::{Known, Stateless};
use crate::learned;
use crate::place::Place;
use crate::platform;
use crate::shell::now;
use mcp_proxy_core::ModernRequest;
use std::cell::RefCell;
use std::collections::BTreeMap;
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::JsFuture;
use worker::Result;
use worker::js_sys::Uint8Array;
use worker::web_sys::{Request, Response};

/// How many objects requests of one kind may have at once. Beyond that they share one, and
/// the server gets an error for a question that could belong to several.
const MOST_OBJECTS: usize = 16;

thread_local! {
    /// The objects for which this isolate has leased a place, and until when it need not
    /// ask again.
    static PLACED: RefCell<BTreeMap<String, u64>> = const { RefCell::new(BTreeMap::new()) };
}

/// How many objects to remember.
const MOST_PLACED: usize = 4096;

/// Hands a request to the first object that serves it.
pub(crate) async fn serve(
    way: &Way<'_>,
    asked: &Asked<'_>,
    request: &Request,
    body: &Uint8Array,
    modern: &ModernRequest,
    known: Known<'_>,
) -> Result<JsValue> {
    let principal = way.settings.edge.access.principal(asked.head.authorization);
    let mut full = false;
    for (object, how) in objects(way, asked, modern) {
        if full && how == Stateless::Exclusive {
            continue;
        }
        if how != Stateless::Parked && !has_place(way, known.client, &object).await {
            full = true;
            continue;
        }
        // The object before this one may have told something.
        let server = learned::write(learned::found(way.env, way.name));
        let known = Known { stateless: how.text(), server: &server, ..known };
        let response = JsFuture::from(forward(way, asked, request, &object, Some(body), known)).await?;
        learned::from(way, &principal, &response);
        if !is_elsewhere(&response) {
            return Ok(response);
        }
    }
    refuse(&answer::too_many_sessions(), asked).map(answer::raw)
}

/// Whether the client may have this object. No object is made for a client that has as
/// many as it may have.
async fn has_place(way: &Way<'_>, client: &str, object: &str) -> bool {
    let limits = &way.settings.limits;
    let Some(place) = Place::new(way.env, client, object, limits) else { return true };
    let now = now();
    if PLACED.with_borrow(|placed| placed.get(object).is_some_and(|until| now < *until)) {
        return true;
    }
    let taken = place.take().await;
    if taken {
        let until = now + u64::try_from(limits.alarm.as_millis()).unwrap_or_default();
        PLACED.with_borrow_mut(|placed| {
            placed.retain(|_, until| now < *until);
            if placed.len() < MOST_PLACED {
                placed.insert(object.to_owned(), until);
            }
        });
    }
    taken
}

/// The objects that may serve a request, in order.
fn objects(way: &Way<'_>, asked: &Asked<'_>, modern: &ModernRequest) -> impl Iterator<Item = (String, Stateless)> {
    let env = way.env.as_ref();
    let principal = way.settings.edge.access.principal(asked.head.authorization);
    let kind = format!("stateless\n{}\n{principal}\n{}", way.name, modern.capabilities);
    let parked = modern.parked.clone().filter(|place| platform::is_object(env, place));
    // A request that was parked elsewhere, or nowhere, only needs a machine that says so.
    let how = if modern.exclusive && modern.parked.is_none() { Stateless::Exclusive } else { Stateless::Shared };
    let alone = if how == Stateless::Exclusive { MOST_OBJECTS } else { 0 };
    let tries = (0..alone).map(move |at| (at, how)).chain([(0, Stateless::Shared)]);
    let shared = tries.map(move |(at, how)| (platform::shared(env, &format!("{kind}\n{at}")), how));
    parked.into_iter().map(|place| (place, Stateless::Parked)).chain(shared)
}

/// Whether an object has passed on a request.
fn is_elsewhere(response: &JsValue) -> bool {
    let response = response.dyn_ref::<Response>();
    response.is_some_and(|response| response.status() == answer::ELSEWHERE.as_u16())
}
