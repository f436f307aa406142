//! What to do with a message, in either direction, in revisions up to 2025-11-25: two
//! tables over the message and the open requests. They only decide. Session state does
//! not belong here.

use super::{Role, cancelled_request, metadata, repeatable, reported_token, role};
use crate::failure::Failure;
use crate::note::Note;
use crate::outgoing::{Outgoing, Purpose};
use crate::quirks::Quirks;
use crate::route::{Asked, RequestKey, Route};
use crate::wire::message::{self, Id, Kind, Message};

/// The proxy relays longer progress tokens, but does not remember them.
const LONGEST_TOKEN: usize = 256;

/// What to do with a message from the client.
#[derive(Debug)]
pub(crate) enum FromClient {
    /// The server must answer it. It reports progress under `token`. If `repeatable`, it
    /// is safe to send the request twice. `modern`: it has the form of 2026-07-28.
    Request { asked: Asked, token: Option<Id>, repeatable: bool, modern: bool },
    /// The client no longer waits for this request. The server gets the message.
    Cancel(RequestKey),
    /// The server gets this answer to its own question.
    Answer(Id),
    /// The server gets it.
    Send(Purpose),
    /// Drop it.
    Drop(Option<Note>),
}

/// What to do with a message from the server.
#[derive(Debug)]
pub(crate) enum FromServer {
    /// It answers this request of the client or the proxy.
    Answer(RequestKey),
    /// Ask the client. `aside`: the server continues with other requests meanwhile.
    Ask { aside: bool },
    /// The client gets the question in place of an answer.
    Park { aside: bool },
    /// Report progress of this request to the client.
    Progress(RequestKey),
    /// Nobody needs to answer this question any longer. `tell`: the client knows it.
    Withdraw { question: Id, tell: bool },
    /// The client gets it.
    Deliver,
    /// Those of the client's requests get it that asked for it.
    Distribute,
    /// Drop it.
    Drop(Note),
    /// Nobody waits for this answer. `deliver`: the client gets it anyway.
    Late { deliver: bool },
}

/// How a request is cancelled at the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cancellation {
    /// The client's notification goes on to the server.
    Relay,
    /// The proxy sends a notification.
    Notify,
    /// The proxy closes the response.
    Close,
}

/// What a modern server needs, or what the client gets in its place.
#[derive(Debug)]
pub(crate) enum Step {
    /// Send it to the server.
    Send(Outgoing),
    /// Answer the client's `initialize`: the server is known.
    Opened(RequestKey, Reply),
    /// Answer this request of the client.
    Answer(RequestKey, Reply),
    /// The server has answered, but the client's request stays open.
    Release(RequestKey),
    /// Answer the client with this raw result, and keep the server's side open.
    Park(RequestKey, String),
    /// The client's request `retry` continues the parked one.
    Adopt {
        parked: RequestKey,
        retry: RequestKey,
    },
    /// A parked request is over.
    Discard(RequestKey),
    /// Close the stream of this request of the proxy.
    Close(RequestKey),
    /// Ask the client this, under this id.
    Ask(Id, Vec<u8>),
    /// The client need not answer this question any longer.
    Withdraw(Id),
    /// The client gets this notification, which may belong to one of its requests.
    Notify(Option<RequestKey>, Vec<u8>),
    Note(Note),
}

/// An answer to a request of the client.
#[derive(Debug)]
pub(crate) enum Reply {
    /// A raw result.
    Result(String),
    /// A raw error.
    Error(String),
    /// The server's answer.
    Message(Message),
    /// The proxy's own error.
    Failure(Failure),
}

impl Reply {
    pub(crate) fn empty() -> Self {
        Self::Result("{}".to_owned())
    }

    pub(crate) fn error(code: i64, message: &str) -> Self {
        Self::Error(message::error_body::<()>(code, message, None))
    }
}

pub(crate) fn from_client(message: &Message, route: &Route) -> FromClient {
    match &message.kind {
        Kind::Request { method, .. } => {
            let (token, modern) = metadata(message.params());
            let modern = modern || role(method) == Role::Discover;
            let asked = if role(method) == Role::Initialize && !modern { Asked::Session } else { Asked::Plain };
            let token = token.filter(|token| token.text().len() <= LONGEST_TOKEN);
            FromClient::Request { asked, token, repeatable: repeatable(method), modern }
        }
        Kind::Response { id } => match id.clone().filter(|id| route.is_asked(id)) {
            Some(id) => FromClient::Answer(id),
            None => FromClient::Drop(Some(Note::StrayAnswer)),
        },
        Kind::Notification { method } => match role(method) {
            Role::Cancelled => cancellation(message, route),
            Role::Initialized => FromClient::Send(Purpose::Initialized),
            Role::Initialize | Role::Progress | Role::Ping | Role::Discover | Role::Plain => {
                FromClient::Send(Purpose::Notification)
            }
        },
    }
}

/// The protocol does not allow a client to cancel `initialize`.
fn cancellation(message: &Message, route: &Route) -> FromClient {
    let named = cancelled_request(message.params()).and_then(|id| route.by_client(&id));
    match named.map(|key| (key, route.asked(key))) {
        Some((_, Some(Asked::Session))) => FromClient::Drop(Some(Note::InitializeCancelled)),
        Some((key, _)) => FromClient::Cancel(key),
        None => FromClient::Send(Purpose::Notification),
    }
}

/// `origin` is the request whose response carried the message.
pub(crate) fn from_server(message: &Message, origin: Option<RequestKey>, route: &Route, quirks: Quirks) -> FromServer {
    match &message.kind {
        Kind::Response { id } => match answers(id.as_ref(), origin, route, quirks.null_id) {
            Some(key) => FromServer::Answer(key),
            None => {
                let of_client = id.as_ref().is_some_and(|id| !route.is_ours(id));
                FromServer::Late { deliver: of_client && !quirks.late_answers }
            }
        },
        Kind::Request { method, .. } => FromServer::Ask { aside: role(method) == Role::Ping },
        Kind::Notification { method } => match role(method) {
            Role::Progress => {
                let token = reported_token(message.params());
                let request = token.and_then(|token| route.by_token(&token));
                request.map_or(FromServer::Deliver, FromServer::Progress)
            }
            Role::Cancelled => {
                let question = cancelled_request(message.params()).filter(|id| route.is_asked(id));
                question.map_or(FromServer::Deliver, |question| FromServer::Withdraw { question, tell: true })
            }
            Role::Initialize | Role::Initialized | Role::Ping | Role::Discover | Role::Plain => FromServer::Deliver,
        },
    }
}

/// An answer belongs to the open request with its id. Without an id, or with an id that
/// lost precision in a double, it belongs to the request whose response carried it. A
/// response to one of the proxy's own requests needs no id at all.
fn answers(id: Option<&Id>, origin: Option<RequestKey>, route: &Route, nameless: bool) -> Option<RequestKey> {
    let alike = |own: &Id| id.map_or(nameless, |id| id.same_as_double(own));
    let fits = |own: &Id| route.is_ours(own) || alike(own);
    let fits = |key: &RequestKey| route.wire_id(*key).is_some_and(fits);
    id.and_then(|id| route.by_wire(id)).or_else(|| origin.filter(fits))
}
