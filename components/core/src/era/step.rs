//! What a message leads to, in either direction, in revisions up to 2025-11-25: two
//! tables over the message and the open requests. The state of the session must
//! not enter, and nothing is carried out here.

use super::{Role, cancelled_request, progress_token, repeatable, reported_token, role};
use crate::note::Note;
use crate::outgoing::Purpose;
use crate::quirks::Quirks;
use crate::route::{Asked, RequestKey, Route};
use crate::wire::message::{Id, Kind, Message};

/// Longer progress tokens are passed on, but not remembered.
const LONGEST_TOKEN: usize = 256;

/// What becomes of a message of the client.
#[derive(Debug)]
pub(crate) enum FromClient {
    /// The server must answer it. `token`: under which it reports progress;
    /// `repeatable`: sending it twice does no harm.
    Request { asked: Asked, token: Option<Id>, repeatable: bool },
    /// The client no longer waits for this request, and the server gets the message.
    Cancel(RequestKey),
    /// The server gets the answer to this question of its own.
    Answer(Id),
    /// The server gets it.
    Send(Purpose),
    /// Nobody gets it.
    Drop(Note),
}

/// What becomes of a message of the server.
#[derive(Debug)]
pub(crate) enum FromServer {
    /// It answers this request, of the client or of our own.
    Answer(RequestKey),
    /// The client is asked. `aside`: the server goes on with other requests.
    Ask { aside: bool },
    /// The client hears of the progress of this request.
    Progress(RequestKey),
    /// The client need not answer this question any more.
    Withdraw(Id),
    /// The client gets it.
    Deliver,
    /// Nobody waits for this answer. `deliver`: the client gets it all the same.
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

/// `initialize` cannot be cancelled.
fn cancellation(message: &Message, route: &Route) -> FromClient {
    let named = cancelled_request(message.params()).and_then(|id| route.by_client(&id));
    match named.map(|key| (key, route.asked(key))) {
        Some((_, Some(Asked::Session))) => FromClient::Drop(Note::InitializeCancelled),
        Some((key, _)) => FromClient::Cancel(key),
        None => FromClient::Send(Purpose::Notification),
    }
}

/// `origin` is the request in whose response the message came.
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

/// An answer belongs to the open request with its id. Without an id, or with an id
/// that lost precision in a double, it belongs to the request in whose response it
/// came. A response to a request of our own needs no id at all.
fn answers(id: Option<&Id>, origin: Option<RequestKey>, route: &Route, nameless: bool) -> Option<RequestKey> {
    let alike = |own: &Id| id.map_or(nameless, |id| id.same_as_double(own));
    let fits = |own: &Id| route.is_ours(own) || alike(own);
    let fits = |key: &RequestKey| route.wire_id(*key).is_some_and(fits);
    id.and_then(|id| route.by_wire(id)).or_else(|| origin.filter(fits))
}
