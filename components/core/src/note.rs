//! Names of what a log may tell, each with whoever is to blame. Shells turn
//! them into lines. Formatting, secrets and bodies must not enter, and no code
//! may react to a note.

use crate::boundary::{CallError, CallId};
use crate::config::Transport;
use crate::wire::message::{Fault, Id};
use http::{Method, StatusCode};
use std::time::Duration;

/// Something worth a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Note {
    /// The client's line was no message, and there was no id to answer.
    BadLine(Fault),
    /// Members of a batch were no messages, or too many.
    BadMembers {
        /// Whose batch it was.
        from: Blame,
        /// How many of them; `None`: the rest was not read.
        count: Option<usize>,
    },
    /// The client answered a request that is not open.
    StrayAnswer,
    /// The client cancelled its `initialize`, which the protocol forbids.
    InitializeCancelled,
    /// An exchange with the server is over, or brings events from now on. Only
    /// where [`Config::trace`](crate::Config::trace) asks for it.
    Exchange(Box<Exchange>),
    /// A call did not go through and is repeated.
    CallRepeated {
        /// How long until then.
        wait: Duration,
        /// What happened, unless the server asked for it.
        cause: Option<CallError>,
    },
    /// A notification or an answer of the client was not delivered.
    Undelivered {
        /// The status, if there was a response.
        status: Option<StatusCode>,
    },
    /// A session is open.
    SessionOpened {
        /// How the server is spoken to.
        transport: Transport,
        /// The protocol version that both agreed on.
        version: Option<String>,
    },
    /// The server refused a message like this; HTTP+SSE is tried.
    SseTried(Option<StatusCode>),
    /// The stream of an HTTP+SSE session named its endpoint.
    StreamOpened,
    /// The stream of an HTTP+SSE session named another endpoint; it is ignored.
    SecondEndpoint,
    /// The stream of an HTTP+SSE session ended, and with it the session.
    StreamLost,
    /// The server no longer knows the session; a new one is being opened.
    SessionLost,
    /// A new session stands in for the lost one.
    SessionRestored,
    /// The lost session could not be replaced.
    SessionNotRestored,
    /// The server offers no listening stream; `None`: not an event stream.
    ListenRefused(Option<StatusCode>),
    /// The listening stream ended and is reopened after this wait.
    ListenEnded(Duration),
    /// A stream ended before its answer and is resumed after this wait.
    StreamResumed(Duration),
    /// The server sent something that is no message.
    BadMessage(Fault),
    /// The server answered a request that is not open: a late answer.
    LateAnswer,
    /// The server asked twice under one id.
    RepeatedAsk,
    /// The server asked under an id that is too long, or asks on and on and takes
    /// no answers.
    AskDropped,
    /// The shell reported something that cannot be.
    Unexpected(CallId),
}

/// One HTTP exchange with the server, for a person who looks for a fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exchange {
    /// The HTTP method.
    pub method: Method,
    /// The path, without what may be a key in it.
    pub path: String,
    /// The JSON-RPC method of the message that was sent, and its id.
    pub message: Option<(String, Option<Id>)>,
    /// How the server is spoken to, as far as it is known.
    pub transport: Transport,
    /// The status, if there was a response.
    pub status: Option<StatusCode>,
    /// What has become of it.
    pub outcome: Outcome,
}

/// What has become of an exchange.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Its response brings what the server says unasked, from now on.
    Listening,
    /// It ended properly, after so many bytes and this time.
    Ended(usize, Duration),
    /// It failed, after this time.
    Failed(CallError, Duration),
    /// We dropped it, after this time.
    Dropped(Duration),
}

/// Who is to blame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blame {
    /// Nobody: it is the ordinary course of things.
    Nobody,
    /// The client.
    Client,
    /// The server.
    Server,
    /// The network between us and the server.
    Link,
    /// Us, or the shell.
    Bug,
}

impl Note {
    /// Who is to blame for it.
    #[must_use]
    pub fn blame(&self) -> Blame {
        match self {
            Self::BadMembers { from, .. } => *from,
            Self::BadLine(_) | Self::StrayAnswer | Self::InitializeCancelled => Blame::Client,
            Self::CallRepeated { cause: Some(_), .. } | Self::Undelivered { status: None } => Blame::Link,
            Self::SessionLost
            | Self::SessionNotRestored
            | Self::BadMessage(_)
            | Self::LateAnswer
            | Self::RepeatedAsk
            | Self::AskDropped
            | Self::SecondEndpoint
            | Self::Undelivered { status: Some(_) } => Blame::Server,
            Self::Unexpected(_) => Blame::Bug,
            Self::Exchange(_)
            | Self::CallRepeated { cause: None, .. }
            | Self::SessionOpened { .. }
            | Self::SseTried(_)
            | Self::StreamOpened
            | Self::StreamLost
            | Self::SessionRestored
            | Self::ListenRefused(_)
            | Self::ListenEnded(_)
            | Self::StreamResumed(_) => Blame::Nobody,
        }
    }
}
