//! What the edge learns: from the responses of objects, how a server speaks and which
//! principals it has admitted; from a server's metadata, who issues tokens for it. Each
//! isolate remembers this on its own, for a while. So it may know nothing, and an object must
//! work without it.

use crate::edge::Way;
use crate::platform;
use crate::shell::now;
use mcp_proxy_core::{Era, Found, Transport};
use mcp_proxy_edge::resource::Answer;
use std::cell::RefCell;
use std::collections::BTreeMap;
use wasm_bindgen::{JsCast, JsValue};
use worker::Env;
use worker::web_sys::Response;

/// The header in which an object tells the edge how it speaks to its server.
pub(crate) const SERVER: &str = "mcp-proxy-server";
/// The value of that header if the object was told something that turned out wrong.
pub(crate) const DOUBT: &str = "unknown";

/// How long, in milliseconds. Then the next object asks the server again.
const LIFETIME: u64 = 10 * 60 * 1000;
/// The same for metadata, and for the answer that there are none.
const DESCRIBED_FOR: u64 = 60 * 1000;
const UNDESCRIBED_FOR: u64 = 5 * 1000;
/// How many servers and principals to remember.
const MOST: usize = 4096;

thread_local! {
    /// How servers speak, by the number of the settings and the name of the server.
    static SERVERS: RefCell<Memory<(u32, String), Found>> = RefCell::new(Memory::default());
    /// The principals that a server has admitted.
    static ADMITTED: RefCell<Memory<String, ()>> = RefCell::new(Memory::default());
    /// What servers answer when they are asked for their metadata.
    static DESCRIBED: RefCell<Memory<(u32, String), Answer>> = RefCell::new(Memory::default());
}

/// Values that are forgotten after a while.
struct Memory<K, V>(BTreeMap<K, (V, u64)>);

impl<K, V> Default for Memory<K, V> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Ord, V: Clone> Memory<K, V> {
    fn get(&self, key: &K) -> Option<V> {
        self.0.get(key).filter(|(_, until)| now() < *until).map(|(value, _)| value.clone())
    }

    fn put(&mut self, key: K, value: V, lifetime: u64) {
        let now = now();
        if self.0.len() >= MOST {
            self.0.retain(|_, (_, until)| now < *until);
        }
        if self.0.len() < MOST || self.0.contains_key(&key) {
            self.0.insert(key, (value, now + lifetime));
        }
    }
}

/// What this isolate knows about the server of this name.
pub(crate) fn found(env: &Env, name: &str) -> Option<Found> {
    SERVERS.with_borrow(|servers| servers.get(&key(env, name)))
}

/// Whether a server is known to have admitted this principal.
pub(crate) fn is_admitted(principal: &str) -> bool {
    ADMITTED.with_borrow(|admitted| admitted.get(&principal.to_owned()).is_some())
}

/// Learns from the response of an object to a request of this principal.
pub(crate) fn from(way: &Way<'_>, principal: &str, response: &JsValue) {
    let headers = response.dyn_ref::<Response>().map(Response::headers);
    let Some(said) = headers.and_then(|headers| headers.get(SERVER).ok().flatten()) else { return };
    match read(&said) {
        Some(found) => {
            SERVERS.with_borrow_mut(|servers| servers.put(key(way.env, way.name), found, LIFETIME));
            if !principal.is_empty() {
                ADMITTED.with_borrow_mut(|admitted| admitted.put(principal.to_owned(), (), LIFETIME));
            }
        }
        None => drop(SERVERS.with_borrow_mut(|servers| servers.0.remove(&key(way.env, way.name)))),
    }
}

/// What a server has answered when it was last asked for its metadata.
pub(crate) fn described(way: &Way<'_>) -> Option<Answer> {
    DESCRIBED.with_borrow(|described| described.get(&key(way.env, way.name)))
}

/// A server has answered this when it was asked for its metadata.
pub(crate) fn describes(way: &Way<'_>, answer: &Answer) {
    let lifetime = if matches!(answer, Answer::Found(_)) { DESCRIBED_FOR } else { UNDESCRIBED_FOR };
    DESCRIBED.with_borrow_mut(|described| described.put(key(way.env, way.name), answer.clone(), lifetime));
}

fn key(env: &Env, name: &str) -> (u32, String) {
    (platform::environment(env.as_ref()), name.to_owned())
}

/// How a server speaks, in words: its era and its transport.
pub(crate) fn words(found: Found) -> Option<(&'static str, &'static str)> {
    let era = match found.era {
        Era::Legacy => "legacy",
        Era::Modern => "modern",
        Era::Auto => return None,
    };
    let transport = match found.transport {
        Transport::StreamableHttp => "streamable-http",
        Transport::Sse => "http+sse",
        Transport::Auto => return None,
    };
    Some((era, transport))
}

/// The same in one text; empty for nothing.
pub(crate) fn write(found: Option<Found>) -> String {
    found.and_then(words).map_or_else(String::new, |(era, transport)| format!("{era} {transport}"))
}

pub(crate) fn read(text: &str) -> Option<Found> {
    let (era, transport) = text.split_once(' ')?;
    let era = [("legacy", Era::Legacy), ("modern", Era::Modern)].into_iter().find(|(word, _)| *word == era)?.1;
    let transports = [("streamable-http", Transport::StreamableHttp), ("http+sse", Transport::Sse)];
    let transport = transports.into_iter().find(|(word, _)| *word == transport)?.1;
    Some(Found { era, transport })
}
