//! What a legacy client hears from a modern server outside its requests: one
//! `subscriptions/listen` for all list changes and subscribed resources. A change opens the
//! new stream before it closes the old one. Reading streams belongs to `back`.

use super::Reply;
use super::modern::envelope::Envelope;
use super::modern::errors::{INVALID_PARAMS, METHOD_NOT_FOUND};
use super::modern::subscriptions::{self, Filter};
use super::stateless::{request, stamped};
use super::step::Step;
use crate::backoff;
use crate::outgoing::{Outgoing, Purpose};
use crate::rng::Rng;
use crate::route::{Asked, RequestKey, Route};
use crate::time::{Deadline, Time, Why, earlier};
use crate::wire::message::{self, Kind, Message};
use std::time::Duration;

/// How many resources to subscribe to.
const MOST_RESOURCES: usize = 1000;
/// After this many short streams in a row that brought nothing, the proxy gives up.
const MOST_TRIES: u32 = 20;
/// A stream that lasted this long was no failure: paths cut idle streams.
const LASTING: Duration = Duration::from_secs(30);
/// How long the server may take to acknowledge a stream.
const ACKNOWLEDGEMENT: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
pub(super) struct Listening {
    /// The lists whose changes the server announces, and the resources that the client
    /// has subscribed to.
    wanted: Filter,
    subscribes: bool,
    started: bool,
    current: Option<Stream>,
    opening: Option<Stream>,
    /// Subscriptions whose answer waits for the server, or for the next stream.
    waiting: Vec<Waiting>,
    /// When to open the stream again, and how many in a row brought nothing.
    again: Option<Time>,
    tries: u32,
    /// Changes may have been missed.
    pub(super) missed: bool,
}

/// What a client wants to change.
#[derive(Debug)]
pub(super) struct Change {
    pub(super) uri: String,
    pub(super) subscribes: bool,
    /// When the client must have its answer.
    pub(super) until: Option<Time>,
}

#[derive(Debug)]
struct Waiting {
    request: RequestKey,
    uri: String,
    until: Option<Time>,
}

#[derive(Debug)]
struct Stream {
    key: RequestKey,
    filter: Filter,
    /// When the proxy asked for it, or the server acknowledged it.
    since: Time,
}

impl Listening {
    /// Learns what the server announces.
    pub(super) fn announced(&mut self, capabilities: &str) {
        let resources = std::mem::take(&mut self.wanted.resources);
        self.wanted = Filter { resources, ..Filter::announced(capabilities) };
        let resources = message::member(capabilities, "resources").unwrap_or_default();
        self.subscribes = message::member(resources, "subscribe") == Some("true");
    }

    /// A resource that the client subscribed to before.
    pub(super) fn remember(&mut self, params: &str) {
        self.wanted.resources.extend(message::text_member(params, "uri"));
    }

    pub(super) fn deadline(&self) -> Option<Deadline> {
        let opened = self.opening.as_ref().map(|stream| stream.since.after(ACKNOWLEDGEMENT));
        let deadline = |at| Deadline { at, why: Why::Reopen };
        let waiting = self.waiting.iter().filter_map(|waiting| waiting.until).min();
        let waiting = waiting.map(|at| Deadline { at, why: Why::Total });
        earlier(waiting, earlier(self.again.map(deadline), opened.map(deadline)))
    }

    /// The client is ready for notifications.
    pub(super) fn start(&mut self, now: Time, route: &mut Route, envelope: &Envelope) -> Vec<Step> {
        if std::mem::replace(&mut self.started, true) {
            return Vec::new();
        }
        self.open(now, route, envelope)
    }

    pub(super) fn change(
        &mut self,
        now: Time,
        key: RequestKey,
        Change { uri, subscribes, until }: Change,
        route: &mut Route,
        envelope: &Envelope,
    ) -> Vec<Step> {
        if !self.subscribes {
            let why = "the server does not support subscriptions to resources";
            return vec![Step::Answer(key, Reply::error(METHOD_NOT_FOUND, why))];
        }
        self.started = true;
        self.again = self.again.map(|_| now);
        if !subscribes {
            self.wanted.resources.remove(&uri);
            let mut steps = vec![Step::Answer(key, Reply::empty())];
            steps.extend(self.open(now, route, envelope));
            return steps;
        }
        if self.wanted.resources.len() >= MOST_RESOURCES && !self.wanted.resources.contains(&uri) {
            let why = format!("there are already {MOST_RESOURCES} subscriptions");
            return vec![Step::Answer(key, Reply::error(INVALID_PARAMS, &why))];
        }
        self.wanted.resources.insert(uri.clone());
        self.waiting.push(Waiting { request: key, uri, until });
        self.open(now, route, envelope)
    }

    /// Opens a stream for what is wanted now, unless one is being opened.
    fn open(&mut self, now: Time, route: &mut Route, envelope: &Envelope) -> Vec<Step> {
        self.again = None;
        if !self.started || self.opening.is_some() {
            return Vec::new();
        }
        if self.wanted.is_empty() {
            return self.current.take().map(|stream| Step::Close(stream.key)).into_iter().collect();
        }
        if self.current.as_ref().is_some_and(|stream| stream.filter == self.wanted) {
            return self.settle_waiting();
        }
        let (key, id) = route.open_own(Asked::Subscription);
        let body = request(&id, "subscriptions/listen", &envelope.add_to(&self.wanted.to_params()));
        self.opening = Some(Stream { key, filter: self.wanted.clone(), since: now });
        vec![Step::Send(stamped(Outgoing::new(Purpose::Subscribe(key), body.bytes.clone()), &body, &[]))]
    }

    /// A notification on a stream of the proxy's own.
    pub(super) fn heard(
        &mut self,
        now: Time,
        key: RequestKey,
        message: &Message,
        route: &mut Route,
        envelope: &Envelope,
    ) -> Vec<Step> {
        let Kind::Notification { method } = &message.kind else { return Vec::new() };
        if &**method == "notifications/subscriptions/acknowledged" {
            return self.acknowledged(now, key, message.params(), route, envelope);
        }
        // The stream that replaces it brings the same before it is acknowledged.
        let known = self.current.as_ref().is_some_and(|stream| stream.key == key);
        if !known || !self.wanted.admits(method, message.params()) {
            return Vec::new();
        }
        self.tries = 0;
        vec![Step::Notify(None, notification(method, subscriptions::untag(message.params()).as_deref()))]
    }

    fn acknowledged(
        &mut self,
        now: Time,
        key: RequestKey,
        params: &str,
        route: &mut Route,
        envelope: &Envelope,
    ) -> Vec<Step> {
        let Some(mut stream) = self.opening.take_if(|stream| stream.key == key) else { return Vec::new() };
        let asked = stream.filter.clone();
        let honoured = Filter::read(params).unwrap_or_default();
        stream.since = now;
        stream.filter.resources.retain(|uri| honoured.resources.contains(uri));
        let mut steps: Vec<Step> = self.current.replace(stream).map(|old| Step::Close(old.key)).into_iter().collect();
        let waiting = std::mem::take(&mut self.waiting);
        for Waiting { request, uri, until } in waiting {
            if !asked.resources.contains(&uri) {
                self.waiting.push(Waiting { request, uri, until });
            } else if honoured.resources.contains(&uri) {
                steps.push(Step::Answer(request, Reply::empty()));
            } else {
                let why = "the server does not announce changes of this resource";
                steps.push(Step::Answer(request, Reply::error(INVALID_PARAMS, why)));
            }
        }
        self.wanted.resources.retain(|uri| honoured.resources.contains(uri) || !asked.resources.contains(uri));
        if std::mem::take(&mut self.missed) {
            let changes = honoured.lists.iter().map(|list| notification(list.notification(), None));
            steps.extend(changes.map(|change| Step::Notify(None, change)));
        }
        steps.extend(self.open(now, route, envelope));
        steps
    }

    fn settle_waiting(&mut self) -> Vec<Step> {
        self.waiting.drain(..).map(|waiting| Step::Answer(waiting.request, Reply::empty())).collect()
    }

    /// A stream ended. `refused`: the server will not open one.
    pub(super) fn ended(&mut self, now: Time, key: RequestKey, refused: bool, rng: &mut Rng) -> Vec<Step> {
        let opening = self.opening.take_if(|stream| stream.key == key).is_some();
        let current = self.current.take_if(|stream| stream.key == key);
        if !opening && current.is_none() {
            return Vec::new();
        }
        if current.is_some_and(|stream| now.since(stream.since) >= LASTING) {
            self.tries = 0;
        }
        self.missed = true;
        let mut steps = Vec::new();
        if opening {
            let why = "the server opened no stream for subscriptions";
            for Waiting { request, uri, .. } in self.waiting.drain(..) {
                self.wanted.resources.remove(&uri);
                steps.push(Step::Answer(request, Reply::error(INVALID_PARAMS, why)));
            }
        }
        if !refused && self.tries < MOST_TRIES && !self.wanted.is_empty() {
            self.again = Some(now.after(backoff::reconnect(self.tries, self.tries, None, rng)));
            self.tries += 1;
        }
        steps
    }

    pub(super) fn tick(&mut self, now: Time, route: &mut Route, envelope: &Envelope, rng: &mut Rng) -> Vec<Step> {
        let late = self.opening.as_ref().filter(|stream| stream.since.after(ACKNOWLEDGEMENT) <= now);
        if let Some(key) = late.map(|stream| stream.key) {
            let mut steps = vec![Step::Close(key)];
            steps.extend(self.ended(now, key, false, rng));
            return steps;
        }
        if self.again.is_some_and(|at| at <= now) { self.open(now, route, envelope) } else { Vec::new() }
    }

    /// The requests that wait for an answer of the server.
    pub(super) fn withdraw(&mut self, key: RequestKey) {
        self.waiting.retain(|waiting| waiting.request != key);
    }

    /// The requests that have waited for too long.
    pub(super) fn overdue(&mut self, now: Time) -> Vec<RequestKey> {
        let late = |waiting: &mut Waiting| waiting.until.is_some_and(|until| until <= now);
        self.waiting.extract_if(.., late).map(|waiting| waiting.request).collect()
    }
}

fn notification(method: &str, params: Option<&str>) -> Vec<u8> {
    let params = params.map(|params| format!(",\"params\":{params}")).unwrap_or_default();
    format!("{{\"jsonrpc\":\"2.0\",\"method\":\"{method}\"{params}}}").into_bytes()
}
