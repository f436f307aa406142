//! The exchanges of an HTTP client that asks for what bytes tell it to, and the
//! laws about them that need no model: one head, nothing before it and nothing
//! after the end, whole events, and nothing told again to who has not asked.

use crate::driver::is_valid;
use http::{HeaderValue, Method, Request, request};
use mcp_proxy_core::{ExchangeId, HttpTransport, Output};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

const SESSION: &str = "session";
const VERSIONS: [&str; 2] = ["2025-03-26", "v999"];

/// Those of 2026-07-28 have its name in them.
const MODERN: &str = "2026-07-28";

pub(crate) const BODIES: [&str; 17] = [
    r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}"#,
    r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
    r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"progressToken":0}}}"#,
    r#"{"jsonrpc":"2.0","id":"2","method":"tools/call"}"#,
    r#"{"jsonrpc":"2.0","id":3,"method":"tools/list"}"#,
    r#"{"jsonrpc":"2.0","id":4,"method":"resources/subscribe","params":{"uri":"a:b"}}"#,
    r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#,
    r#"{"jsonrpc":"2.0","id":"q","result":{}}"#,
    r#"[{"jsonrpc":"2.0","id":5,"method":"tools/call"},{"jsonrpc":"2.0","id":6,"method":"tools/list"}]"#,
    r#"[{"jsonrpc":"2.0","id":7,"method":"tools/call"},{"jsonrpc":"2.0","id":7,"method":"tools/list"}]"#,
    r#"{"jsonrpc":"2.0","id":8,"method":"tools/call","params":[}"#,
    "[]",
    r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{},"roots":{}}}}}"#,
    r#"{"jsonrpc":"2.0","id":"2","method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{},"roots":{}}}}}"#,
    r#"{"jsonrpc":"2.0","id":3,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{},"roots":{}}}}}"#,
    r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"inputResponses":{"q":{}},"requestState":"{state}","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{},"roots":{}}}}}"#,
    r#"{"jsonrpc":"2.0","id":8,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{},"roots":{}}}}}"#,
];

/// What the machine is told of the client.
pub(crate) fn client(setting: u8) -> HttpTransport {
    let mut client = HttpTransport::new(HeaderValue::from_static(SESSION));
    client.recovers = setting & 32 == 0;
    if setting & 16 != 0 {
        client.hold = Duration::ZERO;
    }
    if setting & 64 != 0 {
        (client.replay_events, client.most_open, client.queue_bytes) = (2, 2, 100);
    }
    client
}

#[derive(Default)]
pub(crate) struct Visits {
    live: BTreeMap<ExchangeId, Visit>,
    begun: u64,
    /// The ids of all events.
    ids: Vec<String>,
    known: BTreeSet<String>,
    /// Any request may wait for its answer.
    patient: bool,
}

#[derive(Default)]
struct Visit {
    posts: bool,
    resumes: bool,
    status: Option<u16>,
    events: bool,
    finished: bool,
    unread: usize,
}

impl Visits {
    pub(crate) fn new(client: &HttpTransport) -> Self {
        Self { patient: !client.hold.is_zero(), ..Self::default() }
    }

    /// A request of this kind; `which` of the events it has seen, where it matters. Most
    /// modern requests repeat in headers what they must.
    pub(crate) fn begin(&mut self, kind: u8, which: u8, body: &[u8]) -> (ExchangeId, request::Parts) {
        let method = match kind {
            8 | 9 | 14 => Method::GET,
            10 => Method::DELETE,
            11 => Method::PUT,
            _ => Method::POST,
        };
        let mut request = Request::builder().method(&method).uri("/mcp");
        if kind != 12 {
            request = request.header("content-type", "application/json");
        }
        if kind != 14 {
            request = request.header("accept", "application/json, text/event-stream");
        }
        request = match kind {
            0 => request,
            13 => request.header("mcp-session-id", "another"),
            _ => request.header("mcp-session-id", SESSION),
        };
        if kind == 15 {
            request = request.header("mcp-protocol-version", VERSIONS[usize::from(which) % 2]);
        }
        let said = serde_json::from_slice::<Value>(body).unwrap_or_default();
        if let Some(method) = said["method"].as_str().filter(|_| which < 128 && said.to_string().contains(MODERN)) {
            request = request.header("mcp-protocol-version", MODERN).header("mcp-method", method);
        }
        let resumes = kind == 9 && !self.ids.is_empty();
        if resumes {
            request = request.header("last-event-id", &self.ids[usize::from(which) % self.ids.len()]);
        }
        self.begun += 1;
        let id = ExchangeId(self.begun);
        self.live.insert(id, Visit { posts: method == Method::POST, resumes, ..Visit::default() });
        (id, request.body(()).unwrap().into_parts().0)
    }

    /// Only `initialize` waits for the server, unless requests were told to.
    pub(crate) fn answered(&self, id: ExchangeId) {
        let waits = |visit: &Visit| visit.status.is_none();
        assert!(self.live.get(&id).is_none_or(|visit| visit.posts || !waits(visit)), "no head for {id:?}");
        let waiting = self.live.values().filter(|visit| waits(visit)).count();
        assert!(self.patient || waiting <= 1, "{id:?} waits too");
    }

    /// After the exit, no request is answered.
    pub(crate) fn ignored(&mut self, id: ExchangeId) {
        self.live.retain(|other, visit| *other != id || visit.status.is_some());
    }

    /// The client takes all of some response.
    pub(crate) fn take(&mut self, which: u8) -> Option<(ExchangeId, usize)> {
        let id = self.nth(which)?;
        let visit = self.live.get_mut(&id)?;
        let bytes = std::mem::take(&mut visit.unread);
        if visit.finished {
            self.live.remove(&id);
        }
        Some((id, bytes))
    }

    pub(crate) fn lose(&mut self, which: u8) -> Option<ExchangeId> {
        let id = self.nth(which)?;
        self.live.remove(&id).map(|_| id)
    }

    fn nth(&self, which: u8) -> Option<ExchangeId> {
        let which = usize::from(which).checked_rem(self.live.len())?;
        self.live.keys().nth(which).copied()
    }

    pub(crate) fn obey(&mut self, output: Output) {
        match output {
            Output::Respond(id, parts) => {
                let visit = self.live.get_mut(&id).expect("a response to nobody");
                assert!(visit.status.replace(parts.status.as_u16()).is_none(), "two heads for {id:?}");
                visit.events = parts.headers.get("content-type").is_some_and(|kind| kind == "text/event-stream");
            }
            Output::Send(id, bytes) => self.sent(id, &bytes),
            Output::Finish(id) => {
                let visit = self.speaking(id);
                visit.finished = true;
                if visit.unread == 0 {
                    self.live.remove(&id);
                }
            }
            Output::Abort(id) => {
                let visit = self.live.remove(&id).expect("over before it was broken off");
                assert!(visit.status.is_some(), "{id:?} is broken off before it began");
            }
            Output::Write(..)
            | Output::Call(..)
            | Output::Cancel(_)
            | Output::Snapshot(_)
            | Output::Note(_)
            | Output::Exit(_) => {}
        }
    }

    /// After the exit, nobody waits.
    pub(crate) fn over(&self) {
        let open: Vec<_> = self.live.iter().filter(|(_, visit)| !visit.finished).map(|(id, _)| id).collect();
        assert!(open.is_empty(), "neither finished nor broken off: {open:?}");
    }

    fn speaking(&mut self, id: ExchangeId) -> &mut Visit {
        let visit = self.live.get_mut(&id).expect("said to nobody");
        assert!(visit.status.is_some() && !visit.finished, "{id:?} has not begun, or is over");
        visit
    }

    fn sent(&mut self, id: ExchangeId, bytes: &[u8]) {
        let visit = self.speaking(id);
        visit.unread += bytes.len();
        let (events, resumes) = (visit.events, visit.resumes);
        let text = std::str::from_utf8(bytes).unwrap();
        if !events {
            return is_valid(bytes);
        }
        for event in text.strip_suffix("\n\n").expect("half an event").split("\n\n") {
            let field = |name: &str| event.lines().find_map(|line| line.strip_prefix(name));
            if let Some(data) = field("data: ").filter(|data| !data.is_empty()) {
                is_valid(data.as_bytes());
            }
            if let Some(place) = field("id: ") {
                assert!(self.known.insert(place.to_owned()) || resumes, "told again: {event}");
                self.ids.push(place.to_owned());
            }
        }
    }
}
