//! The events that a log may report, each with who is to blame. Shells turn them into
//! lines. Formatting, secrets and bodies do not belong here, and no code may react to a
//! note.

use crate::boundary::{CallError, CallId};
use crate::config::Transport;
use crate::wire::message::{Fault, Id};
use http::{Method, StatusCode};
use std::time::Duration;

/// An event for the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Note {
    /// The client's line was not a message and had no id to answer.
    BadLine(Fault),
    /// Members of a batch were not messages, or there were too many.
    BadMembers {
        /// Whose batch it was.
        from: Blame,
        /// How many members; `None` if the proxy did not read the rest.
        count: Option<usize>,
    },
    /// The client answered a request that is not open.
    StrayAnswer,
    /// The client cancelled its `initialize`, which the protocol forbids.
    InitializeCancelled,
    /// An exchange with the server is over, or carries events from now on. Sent only if
    /// [`Config::trace`](crate::Config::trace) is set.
    Exchange(Box<Exchange>),
    /// A call failed, and the proxy retries it.
    CallRepeated {
        /// How long until the retry.
        wait: Duration,
        /// What happened; `None` if the server asked for the retry.
        cause: Option<CallError>,
    },
    /// The proxy could not deliver a notification or an answer of the client.
    Undelivered {
        /// The status, if there was a response.
        status: Option<StatusCode>,
    },
    /// A session is open.
    SessionOpened {
        /// The server's transport.
        transport: Transport,
        /// The protocol version that both agreed on.
        version: Option<String>,
    },
    /// The server lists a tool with an annotation that no client may accept.
    ToolDropped {
        /// The tool.
        name: String,
        /// What is wrong.
        why: &'static str,
    },
    /// The server refused a message with this status; the proxy tries HTTP+SSE.
    SseTried(Option<StatusCode>),
    /// The stream of an HTTP+SSE session named its endpoint.
    StreamOpened,
    /// The stream of an HTTP+SSE session named another endpoint, which the proxy ignores.
    SecondEndpoint,
    /// The stream of an HTTP+SSE session ended, and with it the session.
    StreamLost,
    /// The server no longer knows the session; the proxy opens a new one.
    SessionLost,
    /// A new session replaces the lost one.
    SessionRestored,
    /// The proxy could not replace the lost session.
    SessionNotRestored,
    /// The server offers no listening stream; `None`: the response was not an event
    /// stream.
    ListenRefused(Option<StatusCode>),
    /// The listening stream ended; the proxy reopens it after this wait.
    ListenEnded(Duration),
    /// A stream ended before its answer; the proxy resumes it after this wait.
    StreamResumed(Duration),
    /// The server sent something that is not a message.
    BadMessage(Fault),
    /// The server answered a request that is not open: a late answer.
    LateAnswer,
    /// The server used one id for two questions.
    RepeatedAsk,
    /// The server's question had an id that is too long, or the server keeps asking
    /// without accepting answers.
    AskDropped,
    /// A modern server sent a request, or a server sent one in its response to
    /// `server/discover`. No revision allows either.
    AskForbidden,
    /// The shell reported an impossible fact.
    Unexpected(CallId),
}

/// One HTTP exchange with the server, for troubleshooting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exchange {
    /// The HTTP method.
    pub method: Method,
    /// The path, without possible keys.
    pub path: String,
    /// The JSON-RPC method and the id of the message.
    pub message: Option<(String, Option<Id>)>,
    /// The server's transport, as far as the proxy knows it.
    pub transport: Transport,
    /// The status, if there was a response.
    pub status: Option<StatusCode>,
    /// How the exchange ended.
    pub outcome: Outcome,
}

/// How an exchange ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It stays open; its response carries the server's unsolicited messages.
    Listening,
    /// It ended properly, after that many bytes and this time.
    Ended(usize, Duration),
    /// It failed, after this time.
    Failed(CallError, Duration),
    /// The proxy dropped it, after this time.
    Dropped(Duration),
}

/// Who is to blame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blame {
    /// Nobody: normal operation.
    Nobody,
    /// The client.
    Client,
    /// The server.
    Server,
    /// The network between the proxy and the server.
    Link,
    /// The core or the shell.
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
            | Self::AskForbidden
            | Self::SecondEndpoint
            | Self::ToolDropped { .. }
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
