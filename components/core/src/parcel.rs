//! A message on its way to the server, and what it is for. It passes from
//! `route` through `era` to `back`, and comes back whole when it has to be
//! sent again.

use crate::failure::{Delivered, Failure};
use crate::time::Time;
use crate::wire::message::Id;
use bytes::Bytes;
use std::time::Duration;

/// One thing to bring to the server.
#[derive(Debug, Clone)]
pub(crate) struct Parcel {
    pub(crate) errand: Errand,
    pub(crate) body: Bytes,
    /// How many lost sessions it has outlived.
    pub(crate) recoveries: u32,
    /// How often it was sent.
    pub(crate) attempts: u32,
    /// What is known of all attempts but the last.
    pub(crate) delivered: Delivered,
    /// When the client said it, or it was first given to the back.
    pub(crate) since: Option<Time>,
}

/// What a call is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Errand {
    /// A request of the client.
    Request {
        id: Id,
        /// Sending it twice does no harm.
        repeatable: bool,
    },
    /// The client's `initialize`.
    Initialize(Id),
    /// The same, sent again by us for a lost session.
    Reinitialize(Id),
    /// A setting of the lost session, sent again by us.
    Restore(Id),
    /// A ping of ours.
    KeepAlive(Id),
    /// `notifications/initialized`, of the client or ours.
    Initialized,
    /// Any other notification.
    Notification,
    /// The client's answer to a request of the server.
    Answer,
    /// The stream for what the server says unasked.
    Listen,
    /// The one stream of an HTTP+SSE session: all that the server says.
    Stream,
    /// The end of the session.
    Goodbye,
    /// Nothing any more: it is answered, or nobody waits.
    Settled,
}

impl Parcel {
    pub(crate) fn new(errand: Errand, body: impl Into<Bytes>) -> Self {
        Self { errand, body: body.into(), recoveries: 0, attempts: 0, delivered: Delivered::No, since: None }
    }

    /// When it has taken `limit`, if it is a request of the client.
    pub(crate) fn due(&self, limit: Duration) -> Option<Time> {
        self.errand.request().and(self.since).map(|since| since.after(limit))
    }

    /// The failure of its last attempt, in the light of the earlier ones.
    pub(crate) fn failure(&self, mut failure: Failure) -> Failure {
        failure.data.attempt = self.attempts;
        if failure.data.delivered == Delivered::No && self.delivered != Delivered::No {
            failure.data.delivered = self.delivered;
            failure.data.retry_safe = false;
        }
        failure.data.retry_safe |= self.errand.repeatable();
        failure
    }
}

impl Errand {
    /// The response must bring an answer.
    pub(crate) fn wants_answer(&self) -> bool {
        match self {
            Self::Request { .. }
            | Self::Initialize(_)
            | Self::Reinitialize(_)
            | Self::Restore(_)
            | Self::KeepAlive(_) => true,
            Self::Initialized
            | Self::Notification
            | Self::Answer
            | Self::Listen
            | Self::Stream
            | Self::Goodbye
            | Self::Settled => false,
        }
    }

    /// It may be sent again although it may have been carried out.
    pub(crate) fn repeatable(&self) -> bool {
        match self {
            Self::Request { repeatable, .. } => *repeatable,
            Self::Initialize(_) | Self::Reinitialize(_) | Self::Restore(_) | Self::KeepAlive(_) | Self::Initialized => {
                true
            }
            Self::Notification | Self::Answer | Self::Listen | Self::Stream | Self::Goodbye | Self::Settled => false,
        }
    }

    /// It opens a session.
    pub(crate) fn handshake(&self) -> bool {
        matches!(self, Self::Initialize(_) | Self::Reinitialize(_))
    }

    /// The request of the client that this is.
    pub(crate) fn request(&self) -> Option<&Id> {
        match self {
            Self::Request { id, .. } | Self::Initialize(id) => Some(id),
            Self::Reinitialize(_)
            | Self::Restore(_)
            | Self::KeepAlive(_)
            | Self::Initialized
            | Self::Notification
            | Self::Answer
            | Self::Listen
            | Self::Stream
            | Self::Goodbye
            | Self::Settled => None,
        }
    }

    /// The id of a request that is ours alone; the client knows nothing of it.
    pub(crate) fn own(&self) -> Option<&Id> {
        match self {
            Self::Reinitialize(id) | Self::Restore(id) | Self::KeepAlive(id) => Some(id),
            Self::Request { .. }
            | Self::Initialize(_)
            | Self::Initialized
            | Self::Notification
            | Self::Answer
            | Self::Listen
            | Self::Stream
            | Self::Goodbye
            | Self::Settled => None,
        }
    }
}
