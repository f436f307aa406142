//! The vocabulary between the machine and its shell: facts go in, commands come out. Each
//! direction is one closed enum, so a log of `(Time, Input)` is a complete run. Decisions
//! do not belong here.

use crate::config::Snapshot;
use crate::note::Note;
use bytes::Bytes;

/// A byte stream that connects the machine with a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// The client's stdio.
    Client,
}

/// Names one HTTP exchange that the machine started. Never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub u64);

/// Names one HTTP exchange that a client started. The shell chooses the id and never
/// reuses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExchangeId(pub u64);

/// A source that the shell reads from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// A byte stream.
    Side(Side),
    /// The response of a call.
    Call(CallId),
}

/// A destination that the shell writes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sink {
    /// A byte stream.
    Side(Side),
    /// The request body of a call.
    Call(CallId),
    /// The response to a client.
    Exchange(ExchangeId),
}

/// A fact that the shell reports, in the past tense.
#[derive(Debug)]
pub enum Input<'a> {
    /// Time has passed, and nothing else happened.
    Tick,
    /// Bytes arrived.
    Bytes(Side, &'a [u8]),
    /// The peer will send no more bytes.
    Eof(Side),
    /// A client sent an HTTP request. The shell has authenticated the client and admitted
    /// the request.
    Request(ExchangeId, http::request::Parts, Bytes),
    /// The client no longer reads the response.
    Gone(ExchangeId),
    /// A call's response began.
    Head(CallId, http::response::Parts),
    /// A piece of a call's response body arrived.
    Chunk(CallId, &'a [u8]),
    /// A call's response is complete.
    End(CallId),
    /// A call failed before its response or during it. The text describes the cause for
    /// people and may be empty.
    Failed(CallId, CallError, &'a str),
    /// This many more bytes have left: of an [`Output::Write`], of an [`Output::Send`], or
    /// of the body of an [`Output::Call`].
    Flushed(Sink, usize),
    /// The shell waits for a person, for example for a login, before calls can go on. The
    /// text says why for the client, and is empty if nothing has changed. Until then, the
    /// server's silence does not count; the shell repeats this every few seconds.
    Waiting(&'a str),
    /// A request to stop: the machine answers open requests and ends the session.
    Stop,
    /// The shell can no longer reach the client, or must exit now.
    Shutdown,
}

/// A command to the shell.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "each is moved twice; a box for every call costs more")]
pub enum Output {
    /// Write these bytes, in order. They are whole lines.
    Write(Side, Bytes),
    /// Start an HTTP exchange, and report its progress under this id.
    Call(CallId, http::Request<Bytes>),
    /// Drop this exchange, and report nothing more about it.
    Cancel(CallId),
    /// Begin the response to a client.
    Respond(ExchangeId, http::response::Parts),
    /// Write these bytes to the response, in order.
    Send(ExchangeId, Bytes),
    /// The response is complete.
    Finish(ExchangeId),
    /// Break the response off, and drop its unwritten bytes.
    Abort(ExchangeId),
    /// Replace the stored snapshot with this one before you carry out later commands. With
    /// it, another machine can continue the client's session.
    Snapshot(Snapshot),
    /// A note for the log.
    Note(Note),
    /// The machine has exited; no output follows.
    Exit(Exit),
}

/// How the machine ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Every open request has its answer. The client closed its side or ended its session,
    /// or the shell reported [`Input::Stop`].
    Drained,
    /// The shell reported [`Input::Shutdown`].
    Stopped,
}

/// Why a call has no complete response. The main distinction is whether the request can
/// have reached the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallError {
    /// No server listens there, or the host is down.
    Refused,
    /// The host name could not be resolved.
    Unresolved,
    /// No connection within the connect limit.
    ConnectTimeout,
    /// The TLS handshake failed.
    Tls,
    /// The shell's policy forbids this destination.
    Denied,
    /// The connection broke after it was established.
    Reset,
    /// The peer sent invalid HTTP, or the shell does not know the cause.
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

    /// A retry may succeed.
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
