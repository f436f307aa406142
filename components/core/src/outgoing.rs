//! A message on its way to the server, and its purpose. It passes from `route`
//! through `era` to `back`, and comes back whole when it has to be sent again.

use crate::failure::{Delivered, Failure};
use crate::route::RequestKey;
use crate::time::{Deadline, Time, Why};
use crate::timetable::Timed;
use bytes::Bytes;
use http::{HeaderName, HeaderValue};
use std::sync::Arc;
use std::time::Duration;

/// A message to the server, or a stream to open there.
#[derive(Debug, Clone)]
pub(crate) struct Outgoing {
    pub(crate) purpose: Purpose,
    pub(crate) body: Bytes,
    /// How many lost sessions it has outlived.
    pub(crate) recoveries: u32,
    /// How often it was sent.
    pub(crate) attempts: u32,
    /// What is known of all attempts but the last.
    pub(crate) delivered: Delivered,
    /// When the client said it, or it was first given to the back.
    pub(crate) since: Option<Time>,
    /// The session in which it was last sent.
    pub(crate) session: Arc<SessionContext>,
}

/// What the era adds to every message of a session.
#[derive(Debug, Default)]
pub(crate) struct SessionContext {
    /// Counts the sessions; 0 before the first.
    pub(crate) number: u64,
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    /// The server gave it a name, and can say that it does not know it.
    pub(crate) named: bool,
}

/// What a message is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A request of the client.
    Request {
        key: RequestKey,
        /// Sending it twice does no harm.
        repeatable: bool,
    },
    /// The client's `initialize`.
    Initialize(RequestKey),
    /// The same, sent again by us for a lost session.
    Reinitialize(RequestKey),
    /// A setting of the lost session, sent again by us.
    Restore(RequestKey),
    /// A ping of ours.
    KeepAlive(RequestKey),
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
}

/// What follows from a purpose.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Traits {
    /// The request that it is.
    pub(crate) key: Option<RequestKey>,
    /// The client made that request, and waits for its answer.
    pub(crate) of_client: bool,
    /// It may be sent again although it may have been carried out.
    pub(crate) repeatable: bool,
    /// It opens a session.
    pub(crate) handshake: bool,
    /// The machine does not leave before the server has dealt with it.
    pub(crate) busy: bool,
    /// How long the server may be silent about it.
    pub(crate) patience: Patience,
}

/// How long the server may be silent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Patience {
    /// As long as the user allows for a request.
    Request,
    /// The same, but a minute at most.
    Message,
    /// As long as for a ping.
    Ping,
    /// For a while: nobody waits any more.
    Afterglow,
    /// As long as it likes.
    Endless,
}

impl Traits {
    /// Of what nobody waits for any more.
    pub(crate) const SETTLED: Self = Self {
        key: None,
        of_client: false,
        repeatable: false,
        handshake: false,
        busy: false,
        patience: Patience::Afterglow,
    };

    /// The server must answer it.
    pub(crate) fn wants_answer(self) -> bool {
        self.key.is_some()
    }
}

impl Purpose {
    /// The table of purposes.
    pub(crate) fn traits(self) -> Traits {
        let message = Traits { busy: true, patience: Patience::Message, ..Traits::SETTLED };
        let stream = Traits { patience: Patience::Endless, ..Traits::SETTLED };
        let request = |key| Traits { key: Some(key), busy: true, patience: Patience::Request, ..Traits::SETTLED };
        match self {
            Self::Request { key, repeatable } => Traits { of_client: true, repeatable, ..request(key) },
            Self::Initialize(key) => Traits { of_client: true, repeatable: true, handshake: true, ..request(key) },
            Self::Reinitialize(key) => Traits { repeatable: true, handshake: true, ..request(key) },
            Self::Restore(key) => Traits { repeatable: true, ..request(key) },
            Self::KeepAlive(key) => Traits { repeatable: true, busy: false, patience: Patience::Ping, ..request(key) },
            Self::Initialized => Traits { repeatable: true, ..message },
            Self::Notification | Self::Answer | Self::Goodbye => message,
            Self::Listen | Self::Stream => stream,
        }
    }
}

impl Timed for Outgoing {
    /// The longest time that a request may take.
    type Terms = Option<Duration>;

    fn due(&self, limit: &Option<Duration>) -> Option<Deadline> {
        let since = self.since.filter(|_| self.purpose.traits().of_client)?;
        Some(Deadline { at: since.after((*limit)?), why: Why::Total })
    }
}

impl Outgoing {
    pub(crate) fn new(purpose: Purpose, body: impl Into<Bytes>) -> Self {
        Self {
            purpose,
            body: body.into(),
            recoveries: 0,
            attempts: 0,
            delivered: Delivered::No,
            since: None,
            session: Arc::default(),
        }
    }

    /// The failure of its last attempt, in the light of the earlier ones.
    pub(crate) fn failure(&self, mut failure: Failure) -> Failure {
        failure.data.attempt = self.attempts;
        if failure.data.delivered == Delivered::No && self.delivered != Delivered::No {
            failure.data.delivered = self.delivered;
            failure.data.retry_safe = false;
        }
        failure.data.retry_safe |= self.purpose.traits().repeatable;
        failure
    }
}
