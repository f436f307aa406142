//! The vocabulary between the machine and its shell: facts that go in,
//! commands that come out. One closed enum each way; a log of `(Time, Input)`
//! *is* a run. Nothing here decides anything.

use crate::config::Snapshot;
use crate::note::Note;
use bytes::Bytes;

/// A byte stream that connects the machine with a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// The client's stdio.
    Client,
}

/// Names one HTTP exchange that the machine started. Never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub u64);

/// Names one HTTP exchange that a client started. The shell makes it, and
/// never uses it twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExchangeId(pub u64);

/// Something the shell reads from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// A byte stream.
    Side(Side),
    /// The response of a call.
    Call(CallId),
}

/// Something the shell writes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sink {
    /// A byte stream.
    Side(Side),
    /// The request body of a call.
    Call(CallId),
    /// The response to a client.
    Exchange(ExchangeId),
}

/// A fact, in the past tense.
#[derive(Debug)]
pub enum Input<'a> {
    /// Time has passed; nothing else happened.
    Tick,
    /// Bytes arrived.
    Bytes(Side, &'a [u8]),
    /// The peer will send no more.
    Eof(Side),
    /// A client made an HTTP request. Who the client is, and whether it may, the
    /// shell has looked into.
    Request(ExchangeId, http::request::Parts, Bytes),
    /// The client no longer reads the response.
    Gone(ExchangeId),
    /// A call's response began.
    Head(CallId, http::response::Parts),
    /// A piece of a call's response body arrived.
    Chunk(CallId, &'a [u8]),
    /// A call's response ended properly.
    End(CallId),
    /// A call failed, before or in the middle of its response. What the shell
    /// knows of the cause, in words for people; may be empty.
    Failed(CallId, CallError, &'a str),
    /// That many more bytes have left: of [`Output::Write`], of [`Output::Send`],
    /// or of the body of an [`Output::Call`].
    Flushed(Sink, usize),
    /// The shell was told to stop: whoever waits is answered, the session ended.
    Stop,
    /// The client can no longer be reached, or the shell must leave now.
    Shutdown,
}

/// A command.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "each is moved twice; a box for every call costs more")]
pub enum Output {
    /// Write these bytes, in order. They are whole lines.
    Write(Side, Bytes),
    /// Start an HTTP exchange; report its course under this id.
    Call(CallId, http::Request<Bytes>),
    /// Drop that exchange; no fact about it is wanted any more.
    Cancel(CallId),
    /// Begin the response to a client.
    Respond(ExchangeId, http::response::Parts),
    /// Write these bytes to the response, in order.
    Send(ExchangeId, Bytes),
    /// The response is complete.
    Finish(ExchangeId),
    /// Break the response off, and forget what was not written.
    Abort(ExchangeId),
    /// Store this in place of the last snapshot, before the commands that follow:
    /// with it another machine goes on with the client's session.
    Snapshot(Snapshot),
    /// Something worth a line in a log.
    Note(Note),
    /// The machine is done; nothing follows.
    Exit(Exit),
}

/// How the machine ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// The client closed its side and everything open was answered.
    Drained,
    /// The shell asked for it.
    Stopped,
}

/// Why a call brought no (complete) response. The split that matters is
/// whether the request can have reached the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallError {
    /// Nobody listens there, or the host is down.
    Refused,
    /// The name could not be resolved.
    Unresolved,
    /// No connection within the connect limit.
    ConnectTimeout,
    /// The TLS handshake failed.
    Tls,
    /// The shell's policy forbids this destination.
    Denied,
    /// The connection broke after it had been made.
    Reset,
    /// The peer spoke broken HTTP, or the shell could not say what happened.
    Protocol,
}

impl CallError {
    /// The request cannot have reached the server.
    #[must_use]
    pub fn before_sending(self) -> bool {
        match self {
            Self::Refused | Self::Unresolved | Self::ConnectTimeout | Self::Tls | Self::Denied => true,
            Self::Reset | Self::Protocol => false,
        }
    }

    /// Trying again may help.
    pub(crate) fn passing(self) -> bool {
        match self {
            Self::Tls | Self::Denied => false,
            Self::Refused | Self::Unresolved | Self::ConnectTimeout | Self::Reset | Self::Protocol => true,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Refused => "connection refused",
            Self::Unresolved => "host name could not be resolved",
            Self::ConnectTimeout => "no connection within the connect timeout",
            Self::Tls => "TLS handshake failed",
            Self::Denied => "destination not allowed",
            Self::Reset => "connection lost",
            Self::Protocol => "connection lost, or not HTTP",
        }
    }
}

impl std::fmt::Display for CallError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.words())
    }
}
