//! The habits of a server: what it is, and how it goes about things every time.
//! What happens once is a mood, and not here.

use crate::dice::Dice;
use mcp_proxy_core::Transport;
use serde_json::{Value, json};

#[derive(Debug, Clone)]
pub(crate) struct Habits {
    pub(crate) kind: Kind,
    pub(crate) place: Place,
    /// It issues session ids.
    pub(crate) sessions: bool,
    /// It has a listening stream.
    pub(crate) listens: bool,
    /// It refuses a second stream while it takes the first for open.
    pub(crate) single: bool,
    /// Percent of answers that come by event stream.
    pub(crate) streams: u64,
    /// Its streams carry event ids and can be resumed.
    pub(crate) resumable: bool,
    /// Percent of resumed streams that end at once without an event.
    pub(crate) empty: u64,
    /// Percent of messages at which it forgets its sessions.
    pub(crate) amnesia: u64,
    /// Percent of tool calls that ask the client something.
    pub(crate) asks: u64,
    /// Percent of events that are sent twice.
    pub(crate) echoes: u64,
    /// It closes streams that listen after so long, again and again.
    pub(crate) closes: Option<u64>,
    /// What it tells those whose stream it closes: when to come back.
    pub(crate) retry: Option<u64>,
    /// How it refuses a message at the URL of its stream.
    pub(crate) refusal: u16,
    pub(crate) endpoint: Endpoint,
    /// How it says that a session is gone.
    pub(crate) gone: Gone,
    /// Its load balancer wants a cookie back.
    pub(crate) sticky: bool,
    /// The version of the protocol that it speaks.
    pub(crate) version: &'static str,
    /// It says when its tools change.
    pub(crate) announces: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Streamable,
    /// HTTP+SSE of 2024-11-05.
    Sse,
    /// No MCP server at all.
    Nothing,
}

/// Where it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Root,
    Folder,
    /// In a folder of which it does not know.
    Stripped,
}

/// What an HTTP+SSE server says of its endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Endpoint {
    /// Where it is, after so long.
    After(u64),
    Never,
    /// Something else first.
    Late,
    /// That it is elsewhere.
    Foreign,
}

/// How a Streamable HTTP server says that it does not know a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gone {
    Status(u16),
    /// With a success, and an error of JSON-RPC in it.
    Answered,
}

/// The words that go with it.
pub(crate) const GONE: &str = "Session not found";

const GONES: [Gone; 8] = [
    Gone::Status(404),
    Gone::Status(404),
    Gone::Status(404),
    Gone::Status(400),
    Gone::Status(401),
    Gone::Status(410),
    Gone::Status(503),
    Gone::Answered,
];

const VERSIONS: [&str; 7] =
    ["2025-11-25", "2025-11-25", "2025-11-25", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

const REFUSALS: [u16; 12] = [404, 404, 405, 405, 405, 400, 400, 406, 415, 501, 405, 403];

impl Habits {
    pub(crate) fn of(dice: &mut Dice) -> Self {
        let kind = match dice.between(0, 19) {
            0..=10 => Kind::Streamable,
            11..=18 => Kind::Sse,
            _ => Kind::Nothing,
        };
        Self {
            kind,
            place: dice.pick(&[Place::Root, Place::Root, Place::Folder, Place::Stripped], Place::Root),
            sessions: dice.chance(85),
            listens: dice.chance(70),
            single: dice.chance(30),
            streams: dice.pick(&[0, 30, 70, 100], 50),
            resumable: dice.chance(60),
            empty: dice.pick(&[0, 0, 30, 100], 0),
            amnesia: dice.pick(&[0, 0, 3, 15], 0),
            asks: dice.pick(&[0, 20, 60], 20),
            echoes: dice.pick(&[0, 0, 0, 30], 0),
            closes: dice.pick(&[None, None, None, None, None, None, Some(0), Some(3000)], None),
            retry: dice.pick(&[None, Some(0), Some(500), Some(2000)], None),
            refusal: dice.pick(&REFUSALS, 405),
            endpoint: match dice.between(0, 39) {
                0..=35 => Endpoint::After(dice.pick(&[0, 0, 50, 4000], 0)),
                36 => Endpoint::After(11_000),
                37 => Endpoint::Never,
                38 => Endpoint::Late,
                _ => Endpoint::Foreign,
            },
            gone: dice.pick(&GONES, Gone::Status(404)),
            sticky: dice.chance(20),
            version: dice.pick(&VERSIONS, "2025-11-25"),
            announces: dice.chance(30),
        }
    }

    pub(crate) fn speaks(&self) -> Transport {
        match self.kind {
            Kind::Streamable => Transport::StreamableHttp,
            Kind::Sse => Transport::Sse,
            Kind::Nothing => Transport::Auto,
        }
    }

    /// What it says of itself in the answer to `initialize`.
    pub(crate) fn capabilities(&self) -> Value {
        if self.announces { json!({"tools": {"listChanged": true}}) } else { json!({}) }
    }

    /// The path that the user was told.
    pub(crate) fn path(&self) -> &'static str {
        match self.place {
            Place::Root => "/mcp",
            Place::Folder | Place::Stripped => "/team/a/mcp",
        }
    }

    /// Where messages of HTTP+SSE really go, without the session.
    pub(crate) fn desk(&self) -> &'static str {
        match self.place {
            Place::Root => "/messages",
            Place::Folder | Place::Stripped => "/team/a/messages",
        }
    }

    /// The endpoint that its stream names.
    pub(crate) fn named(&self, session: &str) -> String {
        match (self.endpoint, self.place) {
            (Endpoint::Foreign, _) => format!("https://elsewhere.test/messages?s={session}"),
            (_, Place::Root | Place::Stripped) => format!("/messages?s={session}"),
            (_, Place::Folder) => format!("messages?s={session}"),
        }
    }
}
