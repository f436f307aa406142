//! A shell that does what bytes tell it to: any bytes from the client, any
//! response to any call, in any order that a shell can report. It looks after
//! the laws that can be seen from outside.

use crate::visits::{self, Visits};
use bytes::Bytes;
use http::{Method, Request, Response};
use mcp_proxy_core::{
    Blame, CallError, CallId, ClientTransport, Config, Era, Input, KeepAlive, Output, Proxy, Side, Sink, Source, Time,
    Transport,
};
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The longest message, so that the limit is met.
const MAX_MESSAGE: usize = 400;
/// After the last fact, so many ticks lead to the exit.
const MOST_TICKS: usize = 200;

/// In a request, what the last `requestState` stands in place of.
pub(crate) const STATE: &str = "{state}";

const LINES: [&str; 15] = [
    r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"roots":{}}}}"#,
    r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
    r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"progressToken":0}}}"#,
    r#"{"jsonrpc":"2.0","id":"2","method":"tools/call"}"#,
    r#"{"jsonrpc":"2.0","id":3,"method":"tools/list"}"#,
    r#"{"jsonrpc":"2.0","id":4,"method":"resources/subscribe","params":{"uri":"a:b"}}"#,
    r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#,
    r#"{"jsonrpc":"2.0","id":"q","result":{}}"#,
    r#"[{"jsonrpc":"2.0","id":5,"method":"tools/call"},{"jsonrpc":"2.0","id":5,"method":"tools/list"}]"#,
    r#"{"jsonrpc":"2.0","id":6,"method":"tools/call","params":[}"#,
    r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{},"roots":{}}}}}"#,
    r#"{"jsonrpc":"2.0","id":"2","method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{},"roots":{}}}}}"#,
    r#"{"jsonrpc":"2.0","id":3,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{},"roots":{}}}}}"#,
    r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"inputResponses":{"q":{}},"requestState":"{state}","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{},"roots":{}}}}}"#,
    r#"{"jsonrpc":"2.0","id":8,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{},"roots":{}}}}}"#,
];

const EVENTS: [&str; 15] = [
    "event: endpoint\ndata: /messages?s=1\n\n",
    "event: endpoint\ndata: https://evil.test/m\n\n",
    "id: e\nretry: 20\ndata:\n\n",
    ": still here\n\n",
    "data: {\"jsonrpc\":\"2.0\",\"id\":\"q\",\"method\":\"ping\"}\r\r",
    "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":0}}\r\n\r\n",
    "data: {\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-1,\"message\":\"Session not found\"}}\n\n",
    "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-1,\"message\":\"Session not found\"}}",
    "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":\"q\"}}\n\n",
    "data: [{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}},{\"jsonrpc\":\"2.0\",\"method\":\"x\"}]\n\n",
    "data: {\"jsonrpc\":\"2.0\",\"id\":\"q\",\"method\":\"ping\",\"result\":{}}\n\n",
    "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"error\":\"invalid_token\"}\n\n",
    "data: {\"jsonrpc\":\"2.0\",\"method\":\"x\",\"params\":null}\n\n",
    "data: {\"jsonrpc\":\"2.0\",\"id\":\"q\",\"method\":\"elicitation/create\",\"params\":{}}\n\n",
    "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n\n",
];

/// What answers bring: to a handshake of either era, and questions.
const RESULTS: [&str; 5] = [
    r#"{"protocolVersion":"2025-11-25"}"#,
    r#"{"supportedVersions":["2026-07-28"],"capabilities":{"resources":{"subscribe":true},"tools":{"listChanged":true}}}"#,
    r#"{"resultType":"complete"}"#,
    r#"{"resultType":"input_required","inputRequests":{"a":{"method":"roots/list"}},"requestState":"s"}"#,
    r#"{"resultType":"input_required","requestState":"s"}"#,
];

const HEADS: [(u16, &[(&str, &str)]); 16] = [
    (200, &[("content-type", "text/event-stream")]),
    (200, &[("content-type", "application/json"), ("mcp-session-id", "s")]),
    (200, &[("content-type", "text/event-stream"), ("mcp-session-id", "s")]),
    (200, &[("content-type", "application/json"), ("content-length", "30")]),
    (202, &[("set-cookie", "lb=1")]),
    (204, &[]),
    (307, &[("location", "/other")]),
    (308, &[("location", "https://evil.test/")]),
    (400, &[]),
    (401, &[]),
    (404, &[]),
    (405, &[]),
    (410, &[]),
    (429, &[("retry-after", "1")]),
    (500, &[]),
    (503, &[("retry-after", "99999999999")]),
];

const ERRORS: [CallError; 5] =
    [CallError::Refused, CallError::ConnectTimeout, CallError::Tls, CallError::Reset, CallError::Protocol];

/// What a run said, fact by fact.
pub(crate) type Outcome = Vec<String>;

pub(crate) struct Driver<'a> {
    proxy: Proxy,
    data: &'a [u8],
    /// The size of the pieces in which bytes are told.
    size: usize,
    now: u64,
    live: BTreeMap<CallId, Live>,
    over: BTreeSet<CallId>,
    cancelled: BTreeSet<CallId>,
    exited: bool,
    gone: bool,
    said: Outcome,
    /// The client's exchanges, if it speaks HTTP.
    visits: Option<Visits>,
    /// The last `requestState` that a client was told.
    state: String,
}

struct Live {
    request: Request<Bytes>,
    headed: bool,
}

impl<'a> Driver<'a> {
    /// A client on stdio.
    pub(crate) fn new(data: &'a [u8], size: usize) -> Self {
        Self::facing(data, size, false)
    }

    /// A client that speaks HTTP.
    pub(crate) fn http(data: &'a [u8], size: usize) -> Self {
        Self::facing(data, size, true)
    }

    fn facing(data: &'a [u8], size: usize, http: bool) -> Self {
        let mut config = Config::new("http://server.test/mcp").unwrap();
        let (setting, data) = data.split_first().map_or((0, data), |(first, rest)| (*first, rest));
        config.transport = match setting % 3 {
            0 => Transport::Auto,
            1 => Transport::StreamableHttp,
            _ => Transport::Sse,
        };
        config.era = if setting & 32 == 0 { Era::Legacy } else { Era::Auto };
        config.max_message = MAX_MESSAGE;
        config.request_timeout = Some(Duration::from_secs(20));
        config.total_timeout = (setting & 8 != 0).then_some(Duration::from_secs(30));
        config.keep_alive = if setting & 16 == 0 { KeepAlive::Auto } else { KeepAlive::Every(Duration::from_secs(5)) };
        let client = http.then(|| visits::client(setting));
        let visits = client.as_ref().map(Visits::new);
        config.client = client.map_or(ClientTransport::Lines, ClientTransport::Http);
        Self {
            proxy: Proxy::new(&config, u64::from(setting), Time(0)),
            data,
            size,
            now: 0,
            live: BTreeMap::new(),
            over: BTreeSet::new(),
            cancelled: BTreeSet::new(),
            exited: false,
            gone: false,
            said: Vec::new(),
            visits,
            state: String::new(),
        }
    }

    /// Does what the bytes say: an order and a call in each first byte, and
    /// what belongs to it after that.
    pub(crate) fn play(&mut self) {
        while let Some(byte) = self.byte() {
            let call = self.nth(byte >> 4);
            match (byte & 15, call) {
                (0, _) if self.visits.is_some() => self.visit_with(byte >> 4, |driver| driver.bytes().to_vec()),
                (1, _) if self.visits.is_some() => self.visit_with(byte >> 4, Self::body),
                (12, _) if self.visits.is_some() => self.taken(byte >> 4),
                (15, _) if self.visits.is_some() => self.lost(byte >> 4),
                (0, _) => self.client_bytes(),
                (1, _) => self.client_line(),
                (2, Some((call, false))) => self.head(call),
                (3, Some((call, true))) => self.chunk(call),
                (4, Some((call, true))) => self.event(call),
                (5, Some((call, true))) => self.answer(call),
                (6, Some((call, _))) => self.close(call),
                (7, Some((call, headed))) => self.fail(call, headed),
                (8 | 9, _) => self.wait(),
                (10 | 11, _) => self.wait_until_due(),
                (12, _) => self.tell(Input::Flushed(Sink::Side(Side::Client), usize::MAX)),
                (13, Some((call, _))) => self.tell(Input::Flushed(Sink::Call(call), 10)),
                (14, _) => self.late_facts(),
                (15, _) => self.leave(byte >> 4),
                (_, _) => {}
            }
        }
    }

    /// The client leaves, time passes, and the machine must leave too.
    pub(crate) fn end(mut self) -> Outcome {
        if self.visits.is_some() {
            self.tell(Input::Shutdown);
        }
        self.tell(Input::Eof(Side::Client));
        self.tell(Input::Flushed(Sink::Side(Side::Client), usize::MAX));
        for _ in 0..MOST_TICKS {
            self.wait_until_due();
        }
        assert!(self.exited, "no exit; next is {:?}", self.proxy.deadline());
        let forgotten = self.live.values().filter(|live| live.request.method() != Method::DELETE).count();
        assert_eq!(forgotten, 0, "calls that nobody ended");
        self.visits.iter().for_each(Visits::over);
        self.tell(Input::Tick);
        self.tell(Input::Shutdown);
        assert!(self.proxy.deadline().is_none());
        self.said
    }

    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.data.split_first()?;
        self.data = rest;
        Some(*first)
    }

    fn bytes(&mut self) -> &'a [u8] {
        let length = usize::from(self.byte().unwrap_or(0)).min(self.data.len());
        let (bytes, rest) = self.data.split_at(length);
        self.data = rest;
        bytes
    }

    /// One of a table, by the next byte.
    fn pick<T: Copy>(&mut self, table: &[T]) -> T {
        table[usize::from(self.byte().unwrap_or(0)) % table.len()]
    }

    /// A live call, and whether its response has begun.
    fn nth(&self, which: u8) -> Option<(CallId, bool)> {
        let which = usize::from(which).checked_rem(self.live.len())?;
        self.live.iter().nth(which).map(|(call, live)| (*call, live.headed))
    }

    // ----- facts -----------------------------------------------------------------

    fn visit_with(&mut self, kind: u8, body: impl FnOnce(&mut Self) -> Vec<u8>) {
        let body = body(self);
        let which = self.byte().unwrap_or(0);
        let Some((id, request)) = self.visits.as_mut().map(|visits| visits.begin(kind, which, &body)) else { return };
        self.tell(Input::Request(id, request, Bytes::from(body)));
        if let Some(visits) = &mut self.visits {
            if self.exited { visits.ignored(id) } else { visits.answered(id) }
        }
    }

    fn body(&mut self) -> Vec<u8> {
        self.pick(&visits::BODIES).replace(STATE, &self.state).into_bytes()
    }

    fn taken(&mut self, which: u8) {
        if let Some((id, bytes)) = self.visits.as_mut().and_then(|visits| visits.take(which)) {
            self.tell(Input::Flushed(Sink::Exchange(id), bytes));
        }
    }

    fn lost(&mut self, which: u8) {
        if let Some(id) = self.visits.as_mut().and_then(|visits| visits.lose(which)) {
            self.tell(Input::Gone(id));
        }
    }

    fn client_bytes(&mut self) {
        let bytes = self.bytes();
        self.client(bytes);
    }

    fn client_line(&mut self) {
        let line = format!("{}\n", self.pick(&LINES).replace(STATE, &self.state));
        self.client(line.as_bytes());
    }

    fn client(&mut self, bytes: &[u8]) {
        for piece in bytes.chunks(self.size) {
            self.tell(Input::Bytes(Side::Client, piece));
        }
    }

    fn head(&mut self, call: CallId) {
        let (status, headers) = self.pick(&HEADS);
        let response = headers
            .iter()
            .fold(Response::builder().status(status), |response, (name, value)| response.header(*name, *value));
        self.live.entry(call).and_modify(|live| live.headed = true);
        self.tell(Input::Head(call, response.body(()).unwrap().into_parts().0));
    }

    fn chunk(&mut self, call: CallId) {
        let bytes = self.bytes();
        self.response(call, bytes);
    }

    fn event(&mut self, call: CallId) {
        let event = self.pick(&EVENTS);
        self.response(call, event.as_bytes());
    }

    /// The answer to some call, as a body or as an event.
    fn answer(&mut self, call: CallId) {
        let to = self.byte().unwrap_or(0);
        let request = self.nth(to >> 1).and_then(|(call, _)| self.live.get(&call)).map(|live| live.request.body());
        let id = request.and_then(|body| serde_json::from_slice::<Value>(body).ok()).map(|value| value["id"].clone());
        let id = id.unwrap_or(Value::Null);
        let result = if to & 128 == 0 { self.pick(&RESULTS) } else { RESULTS[0] };
        let answer = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#);
        let answer = if to & 1 == 0 { answer } else { format!("data: {answer}\n\n") };
        self.response(call, answer.as_bytes());
    }

    fn response(&mut self, call: CallId, bytes: &[u8]) {
        for piece in bytes.chunks(self.size) {
            self.tell(Input::Chunk(call, piece));
        }
    }

    fn close(&mut self, call: CallId) {
        self.live.remove(&call);
        self.over.insert(call);
        self.tell(Input::End(call));
    }

    fn fail(&mut self, call: CallId, headed: bool) {
        let error = self.pick(&ERRORS);
        let error = if headed { CallError::Reset } else { error };
        self.live.remove(&call);
        self.over.insert(call);
        self.tell(Input::Failed(call, error, ""));
    }

    fn wait(&mut self) {
        let until = self.now + u64::from(self.byte().unwrap_or(0)) * 200;
        while let Some(deadline) = self.proxy.deadline().filter(|deadline| deadline.at.0 <= until) {
            self.now = self.now.max(deadline.at.0);
            self.tick();
        }
        self.now = until;
    }

    fn wait_until_due(&mut self) {
        if let Some(deadline) = self.proxy.deadline() {
            self.now = self.now.max(deadline.at.0);
            self.tick();
        }
    }

    /// Tick law: the next deadline is later, or there is none.
    fn tick(&mut self) {
        self.tell(Input::Tick);
        let next = self.proxy.deadline();
        assert!(next.is_none_or(|next| next.at.0 > self.now), "{next:?} after a tick at {}", self.now);
    }

    /// Facts about calls that were cancelled change nothing.
    fn late_facts(&mut self) {
        for call in self.cancelled.clone() {
            let before = self.said.len();
            self.tell(Input::Chunk(call, b"data: {}\n\n"));
            self.tell(Input::End(call));
            self.tell(Input::Failed(call, CallError::Refused, ""));
            assert_eq!(self.said.len(), before, "a late fact about {call:?}");
        }
    }

    fn leave(&mut self, how: u8) {
        match how {
            0 => self.tell(Input::Eof(Side::Client)),
            1 => {
                self.gone = true;
                self.tell(Input::Shutdown);
            }
            2 => self.tell(Input::Stop),
            3 => self.tell(Input::Waiting("waiting for a person")),
            _ => {}
        }
    }

    // ----- commands --------------------------------------------------------------

    fn tell(&mut self, input: Input<'_>) {
        self.proxy.handle(Time(self.now), input);
        while let Some(output) = self.proxy.poll() {
            assert!(!self.exited, "after the exit: {output:?}");
            self.said.push(format!("{} {output:?}", self.now));
            self.obey(output);
        }
        let unwanted = self.live.keys().find(|call| !self.proxy.wants(Source::Call(**call)));
        assert!(self.exited || unwanted.is_none(), "{unwanted:?} is neither over nor wanted");
    }

    fn obey(&mut self, output: Output) {
        match output {
            Output::Write(Side::Client, line) => self.written(&line),
            Output::Call(call, request) => {
                assert_eq!(request.uri().host(), Some("server.test"), "a call to another host");
                assert!(!self.over.contains(&call), "{call:?} is not new");
                let before = self.live.insert(call, Live { request, headed: false });
                assert!(before.is_none(), "{call:?} is not new");
            }
            Output::Cancel(call) => {
                assert!(self.live.remove(&call).is_some(), "{call:?} was over before its cancel");
                self.over.insert(call);
                self.cancelled.insert(call);
            }
            Output::Note(note) => assert_ne!(note.blame(), Blame::Bug, "{note:?}"),
            Output::Snapshot(_) => {}
            Output::Exit(_) => self.exited = true,
            other @ (Output::Respond(..) | Output::Send(..) | Output::Finish(_) | Output::Abort(_)) => {
                if let Output::Send(_, bytes) = &other {
                    self.keep_state(bytes);
                }
                self.visits.as_mut().expect("a client on stdio").obey(other);
            }
        }
    }

    /// Silence law: whole lines of JSON-RPC, with an id or none.
    fn written(&mut self, line: &[u8]) {
        assert!(!self.gone && self.visits.is_none(), "to a client that is gone");
        assert_eq!(line.iter().position(|byte| *byte == b'\n'), Some(line.len() - 1), "not one line");
        is_valid(line);
        self.keep_state(line);
    }

    fn keep_state(&mut self, said: &[u8]) {
        let text = String::from_utf8_lossy(said);
        let state = text.split_once("\"requestState\":\"").and_then(|(_, rest)| rest.split_once('"'));
        self.state = state.map_or(std::mem::take(&mut self.state), |(state, _)| state.to_owned());
    }
}

/// Validity law: one message of JSON-RPC 2.0, with an id or none.
pub(crate) fn is_valid(message: &[u8]) {
    let members: BTreeMap<String, Box<RawValue>> = serde_json::from_slice(message).unwrap();
    assert!(members.get("id").is_none_or(|id| id.get() != "null"), "a null id");
    assert_eq!(members.get("jsonrpc").map(|version| version.get()), Some("\"2.0\""), "no JSON-RPC 2.0");
    let said = ["method", "result", "error"].map(|name| members.contains_key(name));
    assert!(said.into_iter().filter(|said| *said).count() == 1, "neither or both: {members:?}");
    let params = members.get("params").map(|params| params.get());
    assert!(params.is_none_or(|params| said[0] && params.starts_with(['{', '['])), "no params: {members:?}");
    let error = members.get("error").map(|error| serde_json::from_str::<Value>(error.get()).unwrap());
    assert!(error.is_none_or(|error| error["code"].is_i64() && error["message"].is_string()), "no error: {members:?}");
}
