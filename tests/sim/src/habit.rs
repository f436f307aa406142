//! The habits of a server: the properties that stay the same for a whole run. Random
//! refusals of single requests are in `server`.

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
    /// It refuses a second stream while it believes that the first is open.
    pub(crate) single: bool,
    /// The percentage of answers that it sends on an event stream.
    pub(crate) streams: u64,
    /// Its streams carry event ids and can be resumed.
    pub(crate) resumable: bool,
    /// The percentage of resumed streams that end at once without an event.
    pub(crate) empty: u64,
    /// The percentage of messages at which it forgets its sessions.
    pub(crate) amnesia: u64,
    /// The percentage of tool calls that ask the client a question.
    pub(crate) asks: u64,
    /// The percentage of events that it sends twice.
    pub(crate) echoes: u64,
    /// It closes every listening stream after this long.
    pub(crate) closes: Option<u64>,
    /// The reconnection time that it sends before it closes a stream.
    pub(crate) retry: Option<u64>,
    /// How it refuses a message at the URL of its stream.
    pub(crate) refusal: u16,
    pub(crate) endpoint: Endpoint,
    /// How it reports an unknown session.
    pub(crate) gone: Gone,
    /// Its load balancer requires its cookie.
    pub(crate) sticky: bool,
    /// Its protocol version.
    pub(crate) version: &'static str,
    /// It declares that it reports changes of its tools.
    pub(crate) announces: bool,
    /// How it answers an unknown method.
    pub(crate) unknown: Unknown,
    /// It refuses the version of the first `server/discover`.
    pub(crate) picky: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Streamable,
    /// HTTP+SSE of 2024-11-05.
    Sse,
    /// 2026-07-28.
    Modern,
    /// No MCP server at all.
    Nothing,
}

/// How a legacy Streamable HTTP server answers `server/discover`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unknown {
    /// Like any message without a session.
    Sessionless,
    /// With a JSON-RPC error and this status.
    Error(u16),
    /// With a page and this status.
    Page(u16),
    /// With an empty result.
    Empty,
}

const UNKNOWNS: [Unknown; 8] = [
    Unknown::Sessionless,
    Unknown::Sessionless,
    Unknown::Error(200),
    Unknown::Error(400),
    Unknown::Page(404),
    Unknown::Page(500),
    Unknown::Empty,
    Unknown::Empty,
];

/// The location of its endpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Root,
    Folder,
    /// In a folder whose name a gateway strips.
    Stripped,
}

/// How an HTTP+SSE server names its endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Endpoint {
    /// Correctly, after this long.
    After(u64),
    Never,
    /// After another message.
    Late,
    /// On another origin.
    Foreign,
}

/// How a Streamable HTTP server reports an unknown session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gone {
    Status(u16),
    /// With a success status and a JSON-RPC error.
    Answered,
}

/// The text of that error.
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
            0..=7 => Kind::Streamable,
            8..=12 => Kind::Sse,
            13..=18 => Kind::Modern,
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
            unknown: dice.pick(&UNKNOWNS, Unknown::Sessionless),
            picky: dice.chance(10),
        }
    }

    pub(crate) fn speaks(&self) -> Transport {
        match self.kind {
            Kind::Streamable | Kind::Modern => Transport::StreamableHttp,
            Kind::Sse => Transport::Sse,
            Kind::Nothing => Transport::Auto,
        }
    }

    /// Its capabilities in the answer to `initialize`.
    pub(crate) fn capabilities(&self) -> Value {
        if self.announces { json!({"tools": {"listChanged": true}}) } else { json!({}) }
    }

    /// The path in the user's URL.
    pub(crate) fn path(&self) -> &'static str {
        match self.place {
            Place::Root => "/mcp",
            Place::Folder | Place::Stripped => "/team/a/mcp",
        }
    }

    /// The real path for messages of HTTP+SSE, without the session.
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
