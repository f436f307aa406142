//! An outgoing message to the server, and its purpose. It passes from `route` through
//! `era` to `back`, and returns whole if the proxy has to send it again.

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
    /// How many lost sessions the message has survived.
    pub(crate) recoveries: u32,
    /// How often the proxy sent it.
    pub(crate) attempts: u32,
    /// The delivery status of all attempts but the last.
    pub(crate) delivered: Delivered,
    /// When the client sent it, or the back first received it.
    pub(crate) since: Option<Time>,
    /// The session in which it was last sent.
    pub(crate) session: Arc<SessionContext>,
    /// The client wrote it in the modern era's form.
    pub(crate) modern: bool,
    /// Counts the times that the server wanted the request again.
    pub(crate) round: u32,
}

/// What the era adds to a message: to each of a session, or to this one.
#[derive(Debug, Default)]
pub(crate) struct SessionContext {
    /// Numbers the sessions; 0 before the first.
    pub(crate) number: u64,
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    /// The server gave the session an id, so it can report that the id is unknown.
    pub(crate) named: bool,
    /// The era has no sessions, and a stream that broke cannot be resumed.
    pub(crate) stateless: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A client's request.
    Request {
        key: RequestKey,
        /// Sending it twice does no harm.
        repeatable: bool,
    },
    /// A client's `subscriptions/listen`, which lasts.
    Watch(RequestKey),
    /// The client's `initialize`.
    Initialize(RequestKey),
    /// The proxy repeats `initialize` for a lost session.
    Reinitialize(RequestKey),
    /// The proxy repeats a setting of the lost session.
    Restore(RequestKey),
    /// The proxy's keep-alive ping.
    KeepAlive(RequestKey),
    /// The proxy's `server/discover`.
    Discover(RequestKey),
    /// The proxy's `tools/list`.
    Lookup(RequestKey),
    /// The proxy's `subscriptions/listen`.
    Subscribe(RequestKey),
    /// `notifications/initialized`, from the client or the proxy.
    Initialized,
    /// Any other notification.
    Notification,
    /// The client's answer to a request of the server.
    Answer,
    /// The stream for the server's unsolicited messages.
    Listen,
    /// The one stream of an HTTP+SSE session, for all messages from the server.
    Stream,
    /// Ends the session.
    Goodbye,
}

/// The properties of a purpose.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Traits {
    /// The request, if the message is one.
    pub(crate) key: Option<RequestKey>,
    /// The client made the request and waits for its answer.
    pub(crate) of_client: bool,
    /// The proxy may send it again even if the server may have executed it.
    pub(crate) repeatable: bool,
    /// It opens a session.
    pub(crate) handshake: bool,
    /// The machine does not exit before the server has handled it.
    pub(crate) busy: bool,
    /// How long the server may be silent about it.
    pub(crate) patience: Patience,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Patience {
    /// As long as the user allows for a request.
    Request,
    /// The same, but a minute at most.
    Message,
    /// The limit for a ping.
    Ping,
    /// The limit for a request that a server of the other era may not understand.
    Probe,
    /// A short while: nobody waits any longer.
    Afterglow,
    /// No limit.
    Endless,
}

impl Traits {
    /// The traits of a finished call, for which nobody waits.
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
    pub(crate) fn traits(self) -> Traits {
        let message = Traits { busy: true, patience: Patience::Message, ..Traits::SETTLED };
        let stream = Traits { patience: Patience::Endless, ..Traits::SETTLED };
        let request = |key| Traits { key: Some(key), busy: true, patience: Patience::Request, ..Traits::SETTLED };
        match self {
            Self::Request { key, repeatable } => Traits { of_client: true, repeatable, ..request(key) },
            Self::Watch(key) => Traits { of_client: true, busy: false, patience: Patience::Endless, ..request(key) },
            Self::Initialize(key) => Traits { of_client: true, repeatable: true, handshake: true, ..request(key) },
            Self::Reinitialize(key) => Traits { repeatable: true, handshake: true, ..request(key) },
            Self::Restore(key) => Traits { repeatable: true, ..request(key) },
            Self::KeepAlive(key) => Traits { repeatable: true, busy: false, patience: Patience::Ping, ..request(key) },
            Self::Discover(key) => Traits { repeatable: true, patience: Patience::Probe, ..request(key) },
            Self::Lookup(key) => Traits { repeatable: true, ..request(key) },
            Self::Subscribe(key) => Traits { busy: false, patience: Patience::Endless, ..request(key) },
            Self::Initialized => Traits { repeatable: true, ..message },
            Self::Notification | Self::Answer | Self::Goodbye => message,
            Self::Listen | Self::Stream => stream,
        }
    }
}

impl Timed for Outgoing {
    /// The total time limit of a request.
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
            modern: false,
            round: 0,
        }
    }

    /// The failure of the last attempt, combined with the earlier ones.
    pub(crate) fn failure(&self, failure: Failure) -> Failure {
        let mut failure = failure.after(self.delivered);
        failure.data.attempt = self.attempts;
        failure.data.retry_safe |= self.purpose.traits().repeatable;
        failure
    }
}
