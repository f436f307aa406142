//! A note for every exchange with the server, if the user asks for them: what the proxy
//! sent, the outcome, and how long it took. Otherwise this module stores and inspects
//! nothing. Notes must not contain bodies or credentials.

use crate::boundary::{CallError, CallId};
use crate::config::Transport;
use crate::note::{Exchange, Note, Outcome};
use crate::record::shown_path;
use crate::time::Time;
use crate::wire::message::{self, Id, Kind, Parsed};
use bytes::Bytes;
use http::{Method, Request, StatusCode};
use std::collections::BTreeMap;

/// The exchanges under way; `None` if the user does not want notes.
#[derive(Debug)]
pub(super) struct Trace(Option<BTreeMap<CallId, Started>>);

#[derive(Debug)]
struct Started {
    at: Time,
    method: Method,
    path: String,
    message: Option<(String, Option<Id>)>,
    status: Option<StatusCode>,
    bytes: usize,
}

impl Trace {
    pub(super) fn new(wanted: bool) -> Self {
        Self(wanted.then(BTreeMap::new))
    }

    pub(super) fn started(&mut self, now: Time, id: CallId, request: &Request<Bytes>) {
        let Some(exchanges) = &mut self.0 else { return };
        let started = Started {
            at: now,
            method: request.method().clone(),
            path: shown_path(request.uri().path()),
            message: message_of(request.body()),
            status: None,
            bytes: 0,
        };
        exchanges.insert(id, started);
    }

    /// A response began. For some responses this is the only note: a successful GET stays
    /// open for long, and nobody waits for the body of a DELETE.
    pub(super) fn head(&mut self, now: Time, id: CallId, status: StatusCode, transport: Transport) -> Option<Note> {
        let exchanges = self.0.as_mut()?;
        let started = exchanges.get_mut(&id)?;
        started.status = Some(status);
        let outcome = match started.method {
            Method::GET if status.is_success() => Outcome::Listening,
            Method::DELETE => Outcome::Ended(0, now.since(started.at)),
            _ => return None,
        };
        let note = started.note(transport, outcome);
        exchanges.remove(&id);
        Some(note)
    }

    pub(super) fn bytes(&mut self, id: CallId, count: usize) {
        if let Some(started) = self.0.as_mut().and_then(|exchanges| exchanges.get_mut(&id)) {
            started.bytes += count;
        }
    }

    pub(super) fn ended(&mut self, now: Time, id: CallId, transport: Transport) -> Option<Note> {
        let started = self.0.as_mut()?.remove(&id)?;
        Some(started.note(transport, Outcome::Ended(started.bytes, now.since(started.at))))
    }

    pub(super) fn failed(&mut self, now: Time, id: CallId, transport: Transport, error: CallError) -> Option<Note> {
        let started = self.0.as_mut()?.remove(&id)?;
        Some(started.note(transport, Outcome::Failed(error, now.since(started.at))))
    }

    pub(super) fn dropped(&mut self, now: Time, id: CallId, transport: Transport) -> Option<Note> {
        let started = self.0.as_mut()?.remove(&id)?;
        Some(started.note(transport, Outcome::Dropped(now.since(started.at))))
    }
}

impl Started {
    fn note(&self, transport: Transport, outcome: Outcome) -> Note {
        let Self { method, path, message, status, .. } = self;
        Note::Exchange(Box::new(Exchange {
            method: method.clone(),
            path: path.clone(),
            message: message.clone(),
            transport,
            status: *status,
            outcome,
        }))
    }
}

/// The method and id of the message in a body.
fn message_of(body: &Bytes) -> Option<(String, Option<Id>)> {
    let Ok(Parsed::One(message)) = message::parse(body.to_vec()) else { return None };
    match message.kind {
        Kind::Request { id, method } => Some((method.into(), Some(id))),
        Kind::Notification { method } => Some((method.into(), None)),
        Kind::Response { id } => Some(("answer".to_owned(), id)),
    }
}
