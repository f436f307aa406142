//! The messages in a client's POST, and whether a session accepts them. Parsing of bodies
//! and open requests do not belong here.

use crate::era;
use crate::front::http::refusal::Refusal;
use crate::wire::message::{Id, Kind, Malformed, Message, Parsed};
use http::StatusCode;

/// The messages of one POST.
pub(super) enum Posted {
    One(Message),
    /// A batch over the session's limit holds one member too many.
    Batch(Vec<Result<Message, Malformed>>),
}

impl Posted {
    pub(super) fn new(parsed: Parsed, most: usize) -> Self {
        match parsed {
            Parsed::One(message) => Self::One(message),
            Parsed::Batch(batch) => Self::Batch(batch.take(most.saturating_add(1)).collect()),
        }
    }

    pub(super) fn each(self) -> Box<dyn Iterator<Item = Message>> {
        match self {
            Self::One(message) => Box::new(std::iter::once(message)),
            Self::Batch(members) => Box::new(members.into_iter().filter_map(Result::ok)),
        }
    }

    /// The ids of the requests among them.
    pub(super) fn requests(&self) -> impl Iterator<Item = &Id> {
        let (one, batch) = match self {
            Self::One(message) => (Some(message), None),
            Self::Batch(members) => (None, Some(members.iter().flatten())),
        };
        one.into_iter().chain(batch.into_iter().flatten()).filter_map(request)
    }
}

/// The id, if the message is a request.
pub(super) fn request(message: &Message) -> Option<&Id> {
    match &message.kind {
        Kind::Request { id, .. } => Some(id),
        Kind::Notification { .. } | Kind::Response { .. } => None,
    }
}

/// Checks that the version has batches, and that the batch is small enough and valid.
pub(super) fn is_batch(version: &str, members: &[Result<Message, Malformed>], most: usize) -> Result<(), Refusal> {
    if !era::batches(version) {
        return Err(Refusal::bad_request(format!("protocol version {version} has no batches")));
    }
    if members.len() > most {
        let message = format!("the batch has more than {most} messages");
        return Err(Refusal::new(StatusCode::TOO_MANY_REQUESTS, message));
    }
    for member in members {
        let message = member.as_ref().map_err(|bad| Refusal::malformed(bad.clone()))?;
        if matches!(&message.kind, Kind::Request { method, .. } if era::opens_session(method)) {
            return Err(Refusal::bad_request("initialize must not be part of a batch").of(request(message)));
        }
    }
    Ok(())
}
