//! What to do with a message, in either direction, in revisions up to 2025-11-25: two
//! tables over the message and the open requests. They only decide. Session state does
//! not belong here.

use super::{Role, cancelled_request, progress_token, repeatable, reported_token, role};
use crate::note::Note;
use crate::outgoing::Purpose;
use crate::quirks::Quirks;
use crate::route::{Asked, RequestKey, Route};
use crate::wire::message::{Id, Kind, Message};

/// The proxy relays longer progress tokens, but does not remember them.
const LONGEST_TOKEN: usize = 256;

/// What to do with a message from the client.
#[derive(Debug)]
pub(crate) enum FromClient {
    /// The server must answer it. It reports progress under `token`. If `repeatable`, it
    /// is safe to send the request twice.
    Request { asked: Asked, token: Option<Id>, repeatable: bool },
    /// The client no longer waits for this request. The server gets the message.
    Cancel(RequestKey),
    /// The server gets this answer to its own question.
    Answer(Id),
    /// The server gets it.
    Send(Purpose),
    /// Drop it.
    Drop(Note),
}

/// What to do with a message from the server.
#[derive(Debug)]
pub(crate) enum FromServer {
    /// It answers this request of the client or the proxy.
    Answer(RequestKey),
    /// Ask the client. `aside`: the server continues with other requests meanwhile.
    Ask { aside: bool },
    /// Report progress of this request to the client.
    Progress(RequestKey),
    /// The client no longer needs to answer this question.
    Withdraw(Id),
    /// The client gets it.
    Deliver,
    /// Nobody waits for this answer. `deliver`: the client gets it anyway.
    Late { deliver: bool },
}

pub(crate) fn from_client(message: &Message, route: &Route) -> FromClient {
    match &message.kind {
        Kind::Request { method, .. } => {
            let asked = if role(method) == Role::Initialize { Asked::Session } else { Asked::Plain };
            let token = progress_token(message.params()).filter(|token| token.text().len() <= LONGEST_TOKEN);
            FromClient::Request { asked, token, repeatable: repeatable(method) }
        }
        Kind::Response { id } => match id.clone().filter(|id| route.is_asked(id)) {
            Some(id) => FromClient::Answer(id),
            None => FromClient::Drop(Note::StrayAnswer),
        },
        Kind::Notification { method } => match role(method) {
            Role::Cancelled => cancellation(message, route),
            Role::Initialized => FromClient::Send(Purpose::Initialized),
            Role::Initialize | Role::Progress | Role::Ping | Role::Plain => FromClient::Send(Purpose::Notification),
        },
    }
}

/// The protocol does not allow a client to cancel `initialize`.
fn cancellation(message: &Message, route: &Route) -> FromClient {
    let named = cancelled_request(message.params()).and_then(|id| route.by_client(&id));
    match named.map(|key| (key, route.asked(key))) {
        Some((_, Some(Asked::Session))) => FromClient::Drop(Note::InitializeCancelled),
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
                question.map_or(FromServer::Deliver, FromServer::Withdraw)
            }
            Role::Initialize | Role::Initialized | Role::Ping | Role::Plain => FromServer::Deliver,
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
