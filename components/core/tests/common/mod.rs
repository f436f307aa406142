//! A machine on a bench: facts go in by short words, commands come out in
//! order and are named one by one. Only the public surface is used, time is a
//! number, and every test ends by saying that nothing else happened.

#![allow(dead_code, reason = "each test file uses its part of the bench")]
#![allow(unreachable_pub, reason = "a test crate has no public surface")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::wildcard_enum_match_arm,
    reason = "a bench fails by panicking"
)]

pub mod http;
pub mod modern;
pub mod sse;
mod tape;

use ::http::{HeaderMap, Request, Response, response};
use bytes::Bytes;
use mcp_proxy_core::{
    CallError, CallId, Config, Deadline, Era, ExchangeId, Exit, Input, Note, Output, Proxy, Side, Sink, Snapshot,
    Source, Time, Why,
};
use serde_json::Value;
use std::collections::{BTreeMap, VecDeque};
use tape::Tape;

pub const URL: &str = "http://server.test/mcp";
pub const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#;
pub const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

/// One machine, its requests so far, and what it has said but no test has read.
pub struct Bench {
    pub proxy: Proxy,
    pub now: u64,
    said: VecDeque<Output>,
    pub notes: Vec<Note>,
    pub snapshots: Vec<Snapshot>,
    requests: BTreeMap<CallId, Request<Bytes>>,
    tape: Tape,
}

impl Bench {
    /// A machine that has seen nothing.
    pub fn new() -> Self {
        Self::with(|_| {})
    }

    pub fn with(set: impl FnOnce(&mut Config)) -> Self {
        Self::at(URL, set)
    }

    pub fn at(url: &str, set: impl FnOnce(&mut Config)) -> Self {
        Self::made(url, 1, set)
    }

    pub fn seeded(seed: u64, set: impl FnOnce(&mut Config)) -> Self {
        Self::made(URL, seed, set)
    }

    fn made(url: &str, seed: u64, set: impl FnOnce(&mut Config)) -> Self {
        let mut config = Config::new(url).unwrap();
        config.era = Era::Legacy;
        set(&mut config);
        let proxy = Proxy::new(&config, seed, Time(0));
        let tape = Tape::start(&config, seed);
        Self {
            proxy,
            now: 0,
            said: VecDeque::new(),
            notes: Vec::new(),
            snapshots: Vec::new(),
            requests: BTreeMap::new(),
            tape,
        }
    }

    /// A machine with an open session `s1` and no listening stream.
    pub fn open() -> Self {
        Self::open_with(|_| {})
    }

    pub fn open_with(set: impl FnOnce(&mut Config)) -> Self {
        let mut bench = Self::with(set);
        let listen = bench.handshake();
        bench.head(listen, 405, &[]);
        bench.cancelled(listen);
        bench.silent();
        bench
    }

    /// A machine with an open session `s1` and an open listening stream.
    pub fn listening() -> (Self, CallId) {
        let mut bench = Self::new();
        let listen = bench.handshake();
        bench.sse(listen);
        (bench, listen)
    }

    /// A machine whose client has said `initialize`, and the call that carries it.
    pub fn initializing() -> (Self, CallId) {
        let mut bench = Self::new();
        bench.say(INITIALIZE);
        let initialize = bench.called("POST initialize 0");
        (bench, initialize)
    }

    /// A machine with an open session, and the call of a tool with the id 1.
    pub fn calling() -> (Self, CallId) {
        let mut bench = Self::open();
        let call = bench.calls("1");
        (bench, call)
    }

    /// The same, and the response to the call is an event stream.
    pub fn streaming() -> (Self, CallId) {
        let (mut bench, call) = Self::calling();
        bench.sse(call);
        (bench, call)
    }

    /// The client calls a tool; returns the call that carries the request.
    #[track_caller]
    pub fn calls(&mut self, id: &str) -> CallId {
        self.say(&tool(id));
        self.called(&format!("POST tools/call {id}"))
    }

    /// Plays the handshake and returns the GET that follows it.
    pub fn handshake(&mut self) -> CallId {
        self.say(INITIALIZE);
        let initialize = self.called("POST initialize 0");
        self.opened(initialize, "0", "s1", "2025-11-25");
        self.say(INITIALIZED);
        let initialized = self.called("POST notifications/initialized");
        self.accept(initialized);
        self.called("GET")
    }

    /// The server answers an `initialize` of the client.
    pub fn opened(&mut self, call: CallId, id: &str, session: &str, version: &str) {
        let answer = initialize_result(id, version);
        self.head(call, 200, &[("content-type", "application/json"), ("mcp-session-id", session)]);
        self.body(call, &answer);
        self.wrote(&answer);
    }

    /// The server answers an `initialize` that the machine repeats.
    pub fn reopened(&mut self, call: CallId, session: &str) {
        let answer = initialize_result(&self.rpc(call)["id"].to_string(), "2025-11-25");
        self.head(call, 200, &[("content-type", "application/json"), ("mcp-session-id", session)]);
        self.body(call, &answer);
    }

    // ----- facts -------------------------------------------------------------

    pub fn fact(&mut self, input: Input<'_>) {
        self.tape.told(self.now, &input);
        self.proxy.handle(Time(self.now), input);
        while let Some(output) = self.proxy.poll() {
            self.tape.said(&output);
            match output {
                Output::Note(note) => self.notes.push(note),
                Output::Snapshot(known) => self.snapshots.push(known),
                Output::Call(id, request) => {
                    self.requests.insert(id, request.clone());
                    self.said.push_back(Output::Call(id, request));
                }
                other => self.said.push_back(other),
            }
        }
    }

    pub fn say(&mut self, line: &str) {
        self.fact(Input::Bytes(Side::Client, format!("{line}\n").as_bytes()));
    }

    pub fn eof(&mut self) {
        self.fact(Input::Eof(Side::Client));
    }

    pub fn head(&mut self, call: CallId, status: u16, headers: &[(&str, &str)]) {
        let mut response = Response::builder().status(status);
        for (name, value) in headers {
            response = response.header(*name, *value);
        }
        self.fact(Input::Head(call, response.body(()).unwrap().into_parts().0));
    }

    pub fn sse(&mut self, call: CallId) {
        self.head(call, 200, &[("content-type", "text/event-stream")]);
    }

    pub fn accept(&mut self, call: CallId) {
        self.head(call, 202, &[]);
        self.end(call);
    }

    pub fn json(&mut self, call: CallId, body: &str) {
        self.head(call, 200, &[("content-type", "application/json")]);
        self.body(call, body);
    }

    pub fn status(&mut self, call: CallId, status: u16, body: &str) {
        self.head(call, status, &[]);
        self.body(call, body);
    }

    pub fn body(&mut self, call: CallId, body: &str) {
        self.chunk(call, body);
        self.end(call);
    }

    pub fn event(&mut self, call: CallId, data: &str) {
        self.chunk(call, format!("data: {data}\n\n"));
    }

    pub fn chunk(&mut self, call: CallId, chunk: impl AsRef<[u8]>) {
        self.fact(Input::Chunk(call, chunk.as_ref()));
    }

    pub fn end(&mut self, call: CallId) {
        self.fact(Input::End(call));
    }

    pub fn fail(&mut self, call: CallId, error: CallError) {
        self.fact(Input::Failed(call, error, ""));
    }

    pub fn shutdown(&mut self) {
        self.fact(Input::Shutdown);
    }

    /// A client makes an HTTP request.
    pub fn ask(&mut self, exchange: u64, method: &str, headers: &[(&str, &str)], body: &str) {
        let mut request = Request::builder().method(method).uri("/mcp");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let parts = request.body(()).unwrap().into_parts().0;
        self.fact(Input::Request(ExchangeId(exchange), parts, Bytes::copy_from_slice(body.as_bytes())));
    }

    pub fn gone(&mut self, exchange: u64) {
        self.fact(Input::Gone(ExchangeId(exchange)));
    }

    pub fn took(&mut self, exchange: u64, count: usize) {
        self.fact(Input::Flushed(Sink::Exchange(ExchangeId(exchange)), count));
    }

    /// Lets time pass, with a tick at every deadline on the way.
    pub fn wait(&mut self, millis: u64) {
        let until = self.now + millis;
        while let Some(deadline) = self.deadline().filter(|deadline| deadline.at.0 <= until) {
            self.now = self.now.max(deadline.at.0);
            self.fact(Input::Tick);
        }
        self.now = until;
    }

    /// Lets time pass until the next deadline; says how long that was and why.
    pub fn wait_for_deadline(&mut self) -> (u64, Why) {
        let deadline = self.deadline().expect("a deadline");
        let waited = deadline.at.0.saturating_sub(self.now);
        self.now += waited;
        self.fact(Input::Tick);
        (waited, deadline.why)
    }

    // ----- commands ----------------------------------------------------------

    #[track_caller]
    fn next(&mut self) -> Output {
        self.said.pop_front().unwrap_or_else(|| panic!("nothing was said; notes: {:?}", self.notes))
    }

    /// The next command starts this call: `METHOD`, then for a message its
    /// method and id.
    #[track_caller]
    pub fn called(&mut self, want: &str) -> CallId {
        match self.next() {
            Output::Call(id, request) => {
                assert_eq!(describe(&request), want);
                id
            }
            other => panic!("wanted {want}, got {other:?}"),
        }
    }

    /// The next command starts a call; says which.
    pub fn called_any(&mut self) -> String {
        match self.next() {
            Output::Call(_, request) => describe(&request),
            other => panic!("wanted a call, got {other:?}"),
        }
    }

    /// The next command starts a call, whichever.
    pub fn called_last(&mut self) -> CallId {
        match self.next() {
            Output::Call(id, _) => id,
            other => panic!("wanted a call, got {other:?}"),
        }
    }

    /// All unread commands start calls; returns them.
    #[track_caller]
    pub fn started(&mut self) -> Vec<CallId> {
        let count = self.said.len();
        (0..count).map(|_| self.called_last()).collect()
    }

    /// The unread commands that send a message.
    pub fn posts(&self) -> Vec<String> {
        let calls = self.said.iter().filter_map(|output| match output {
            Output::Call(_, request) => Some(describe(request)),
            _ => None,
        });
        calls.filter(|call| call.starts_with("POST")).collect()
    }

    /// The next command, described, if there is one.
    pub fn any(&mut self) -> Option<String> {
        self.said.pop_front().map(|output| match output {
            Output::Call(_, request) => describe(&request),
            Output::Write(_, line) => String::from_utf8(line.to_vec()).unwrap(),
            other => format!("{other:?}"),
        })
    }

    /// Passes over one command.
    pub fn skip(&mut self) {
        self.next();
    }

    pub fn next_is_a_line(&self) -> bool {
        matches!(self.said.front(), Some(Output::Write(..)))
    }

    pub fn next_is_a_cancel(&self) -> bool {
        matches!(self.said.front(), Some(Output::Cancel(_)))
    }

    /// The next command begins this response.
    #[track_caller]
    pub fn responded(&mut self, exchange: u64, status: u16) -> HeaderMap {
        let parts = self.response(exchange);
        assert_eq!(parts.status.as_u16(), status);
        parts.headers
    }

    /// The next command begins this response, whatever it is.
    #[track_caller]
    pub fn response(&mut self, exchange: u64) -> response::Parts {
        match self.next() {
            Output::Respond(id, parts) if id.0 == exchange => parts,
            other => panic!("wanted the response to {exchange}, got {other:?}"),
        }
    }

    /// The next command writes to this response.
    #[track_caller]
    pub fn received(&mut self, exchange: u64) -> String {
        match self.next() {
            Output::Send(id, bytes) if id.0 == exchange => String::from_utf8(bytes.to_vec()).unwrap(),
            other => panic!("wanted something for {exchange}, got {other:?}"),
        }
    }

    #[track_caller]
    pub fn finished(&mut self, exchange: u64) {
        let next = self.next();
        assert!(matches!(next, Output::Finish(id) if id.0 == exchange), "wanted the end of {exchange}, got {next:?}");
    }

    #[track_caller]
    pub fn aborted(&mut self, exchange: u64) {
        let next = self.next();
        assert!(matches!(next, Output::Abort(id) if id.0 == exchange), "wanted {exchange} broken off, got {next:?}");
    }

    #[track_caller]
    pub fn cancelled(&mut self, call: CallId) {
        let next = self.next();
        assert!(matches!(next, Output::Cancel(id) if id == call), "wanted Cancel({call:?}), got {next:?}");
    }

    #[track_caller]
    pub fn cancelled_any(&mut self) -> CallId {
        match self.next() {
            Output::Cancel(id) => id,
            other => panic!("wanted a cancel, got {other:?}"),
        }
    }

    /// The next command writes exactly this line.
    #[track_caller]
    pub fn wrote(&mut self, line: &str) {
        assert_eq!(self.line(), format!("{line}\n"));
    }

    #[track_caller]
    pub fn line(&mut self) -> String {
        match self.next() {
            Output::Write(Side::Client, bytes) => String::from_utf8(bytes.to_vec()).unwrap(),
            other => panic!("wanted a line, got {other:?}"),
        }
    }

    /// The next command writes an error for this id; returns the error.
    #[track_caller]
    pub fn error(&mut self, id: &str) -> Value {
        let line = self.line();
        let mut value: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(value["id"].to_string(), id, "{line}");
        assert!(value["error"]["message"].is_string(), "{line}");
        value["error"].take()
    }

    /// The same, with what `error.data` says about delivery.
    #[track_caller]
    pub fn error_delivered(&mut self, id: &str, delivered: &str) -> Value {
        let error = self.error(id);
        assert_eq!(error["data"]["delivered"], delivered, "{error}");
        error
    }

    #[track_caller]
    pub fn exited(&mut self, exit: Exit) {
        let next = self.next();
        assert!(matches!(next, Output::Exit(how) if how == exit), "wanted {exit:?}, got {next:?}");
        self.silent();
    }

    /// Nothing else was said.
    #[track_caller]
    pub fn silent(&mut self) {
        assert!(self.said.is_empty(), "also said: {:?}", self.said);
    }

    // ----- questions ---------------------------------------------------------

    pub fn deadline(&self) -> Option<Deadline> {
        self.proxy.deadline()
    }

    pub fn wants_client(&self) -> bool {
        self.proxy.wants(Source::Side(Side::Client))
    }

    pub fn wants(&self, call: CallId) -> bool {
        self.proxy.wants(Source::Call(call))
    }

    pub fn header(&self, call: CallId, name: &str) -> Option<&str> {
        self.requests[&call].headers().get(name).map(|value| value.to_str().unwrap())
    }

    pub fn uri(&self, call: CallId) -> String {
        self.requests[&call].uri().to_string()
    }

    pub fn sent(&self, call: CallId) -> &str {
        std::str::from_utf8(self.requests[&call].body()).unwrap()
    }

    pub fn rpc(&self, call: CallId) -> Value {
        serde_json::from_slice(self.requests[&call].body()).unwrap()
    }

    pub fn rpc_id(&self, call: CallId) -> String {
        self.rpc(call)["id"].to_string()
    }

    pub fn noted(&self, wanted: impl Fn(&Note) -> bool) -> usize {
        self.notes.iter().filter(|note| wanted(note)).count()
    }
}

/// A test that is over has made a recording, which has to hold.
impl Drop for Bench {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.tape.check();
        }
    }
}

/// `POST tools/call 1`, `POST answer "a"`, `GET`, `DELETE`. Ids of our own are
/// random and shown as `ours`.
fn describe(request: &Request<Bytes>) -> String {
    let method = request.method();
    let Ok(body) = serde_json::from_slice::<Value>(request.body()) else { return method.to_string() };
    let name = body["method"].as_str().unwrap_or("answer");
    match body.get("id").map(Value::to_string) {
        None => format!("{method} {name}"),
        Some(id) if id.starts_with("\"mcp-proxy-") => format!("{method} {name} ours"),
        Some(id) => format!("{method} {name} {id}"),
    }
}

// ----- messages ----------------------------------------------------------------

pub fn request(id: &str, method: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}"}}"#)
}

pub fn tool(id: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"t"}}}}"#)
}

pub fn list(id: &str) -> String {
    request(id, "tools/list")
}

pub fn note(method: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"{method}"}}"#)
}

pub fn cancel(id: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#)
}

pub fn result(id: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#)
}

pub fn progress(token: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":1}}}}"#
    )
}

pub fn initialize_result(id: &str, version: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"result":{{"protocolVersion":"{version}","capabilities":{{}},"serverInfo":{{"name":"s","version":"1"}}}}}}"#
    )
}
