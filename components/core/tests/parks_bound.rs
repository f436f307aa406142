//! The bound law of ARCHITECTURE.md for a modern client of a legacy server, by counting
//! what the machine holds. The allocator counts the bytes of the whole process, so this
//! file is a process of its own, and its tests take turns.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::wildcard_enum_match_arm,
    reason = "a bench fails by panicking"
)]

use bytes::Bytes;
use http::{Request, Response};
use mcp_proxy_core::{CallId, Config, Era, Input, Output, Proxy, Side, Time};
use peak_alloc::PeakAlloc;
use serde_json::Value;
use std::sync::{Mutex, MutexGuard, PoisonError};

#[global_allocator]
static BYTES: PeakAlloc = PeakAlloc;

const MAX_MESSAGE: usize = 64 << 10;
const SLACK: usize = 1 << 20;
/// Messages of the client, and questions and answers of the server, of which the machine
/// holds as much again.
const BOUND: usize = 4 * (MAX_MESSAGE + SLACK);
/// What the machine may hold for a small call, in all its tables.
const CALL: usize = 4 << 10;
const LARGE: usize = 60 << 10;
const MOST: u64 = 10_000;

/// Held while bytes are counted.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Machine {
    proxy: Proxy,
    now: u64,
    calls: Vec<(CallId, Request<Bytes>)>,
    lines: usize,
    last: String,
    /// Bytes in use before the machine.
    before: usize,
}

impl Machine {
    /// A machine with a lent session.
    fn new() -> Self {
        let before = BYTES.current_usage();
        let mut config = Config::new("http://server.test/mcp").unwrap();
        config.era = Era::Legacy;
        config.max_message = MAX_MESSAGE;
        config.request_timeout = None;
        let proxy = Proxy::new(&config, 1, Time(0));
        let mut machine = Self { proxy, now: 0, calls: Vec::new(), lines: 0, last: String::new(), before };
        machine.say(&modern(0, "server/discover", "", "{}"));
        let (call, request) = machine.calls.pop().unwrap();
        let id = serde_json::from_slice::<Value>(request.body()).unwrap()["id"].to_string();
        machine.head(call, 200, "application/json");
        machine.chunk(call, &format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"protocolVersion":"2025-11-25"}}}}"#));
        machine.fact(Input::End(call));
        machine.accept_all();
        machine.refuse_streams();
        machine
    }

    fn fact(&mut self, input: Input<'_>) {
        self.proxy.handle(Time(self.now), input);
        while let Some(output) = self.proxy.poll() {
            match output {
                Output::Call(id, request) => self.calls.push((id, request)),
                Output::Write(side, bytes) => {
                    self.lines += 1;
                    self.last = String::from_utf8(bytes.to_vec()).unwrap();
                    self.proxy.handle(Time(self.now), Input::Flushed(mcp_proxy_core::Sink::Side(side), bytes.len()));
                }
                _ => {}
            }
        }
    }

    fn say(&mut self, line: &str) {
        self.fact(Input::Bytes(Side::Client, format!("{line}\n").as_bytes()));
    }

    fn head(&mut self, call: CallId, status: u16, kind: &str) {
        let response = Response::builder().status(status).header("content-type", kind).body(()).unwrap();
        self.fact(Input::Head(call, response.into_parts().0));
    }

    fn chunk(&mut self, call: CallId, text: &str) {
        self.fact(Input::Chunk(call, text.as_bytes()));
    }

    fn event(&mut self, call: CallId, data: &str) {
        self.chunk(call, &format!("data: {data}\n\n"));
    }

    /// Begins a stream for each request, and accepts everything else.
    fn accept_all(&mut self) -> Vec<CallId> {
        let mut streams = Vec::new();
        for (call, request) in std::mem::take(&mut self.calls) {
            let body = serde_json::from_slice::<Value>(request.body()).unwrap_or_default();
            if body["method"].is_string() && !body["id"].is_null() {
                self.head(call, 200, "text/event-stream");
                streams.push(call);
            } else if request.method() == "GET" {
                self.calls.push((call, request));
            } else {
                self.head(call, 202, "text/plain");
                self.fact(Input::End(call));
            }
        }
        streams
    }

    fn refuse_streams(&mut self) {
        for (call, _) in std::mem::take(&mut self.calls) {
            self.head(call, 405, "text/plain");
        }
    }

    fn wait(&mut self, millis: u64) {
        let until = self.now + millis;
        while let Some(deadline) = self.proxy.deadline().filter(|deadline| deadline.at.0 <= until) {
            self.now = self.now.max(deadline.at.0);
            self.fact(Input::Tick);
        }
        self.now = until;
    }

    fn held(&mut self) -> usize {
        (self.calls, self.last) = (Vec::new(), String::new());
        BYTES.current_usage().saturating_sub(self.before)
    }
}

fn modern(id: u64, method: &str, more: &str, capabilities: &str) -> String {
    let version = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28""#;
    let meta = format!(r#"{{{version},"io.modelcontextprotocol/clientCapabilities":{capabilities}}}"#);
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{{more}"_meta":{meta}}}}}"#)
}

fn call(id: u64) -> String {
    modern(id, "tools/call", r#""name":"t","#, r#"{"elicitation":{}}"#)
}

fn question(id: u64, text: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":"q{id}","method":"elicitation/create","params":{{"message":"{text}"}}}}"#)
}

/// What the client sends, with a long text somewhere.
#[test]
fn long_requests_are_counted_wherever_they_are_long() {
    let _turn = alone();
    let text = "x".repeat(LARGE);
    let kinds: [(&str, &dyn Fn(u64) -> String); 5] = [
        ("arguments", &|id| modern(id, "tools/call", &format!(r#""name":"{text}","#), "{}")),
        ("capabilities", &|id| modern(id, "tools/call", r#""name":"t","#, &format!(r#"{{"x":"{text}"}}"#))),
        ("method", &|id| modern(id, &text, "", "{}")),
        ("level", &|id| {
            call(id).replace("\"_meta\":{", &format!(r#""_meta":{{"io.modelcontextprotocol/logLevel":"{text}","#))
        }),
        ("listens", &|id| {
            modern(
                id,
                "subscriptions/listen",
                &format!(r#""notifications":{{"resourceSubscriptions":["{text}{id}"]}},"#),
                "{}",
            )
        }),
    ];
    for (name, line) in kinds {
        let mut machine = Machine::new();
        for id in 1..500 {
            machine.say(&line(id));
            machine.accept_all();
        }
        let held = machine.held();
        assert!(held <= BOUND, "{name}: {held} bytes");
    }
}

#[test]
fn questions_of_the_server_are_bounded() {
    let _turn = alone();
    let text = "x".repeat(LARGE);
    for calls in [1, 200] {
        let mut machine = Machine::new();
        (1..=calls).for_each(|id| machine.say(&call(id)));
        let streams = machine.accept_all();
        for id in 0..500 {
            let stream = streams[usize::try_from(id % calls).unwrap()];
            machine.event(stream, &question(id, &text));
            machine.accept_all();
        }
        let held = machine.held();
        assert!(held <= BOUND, "{calls} calls: {held} bytes");
        machine.wait(40);
        let held = machine.held();
        assert!(held <= BOUND, "{calls} parked calls: {held} bytes");
    }
}

#[test]
fn answers_that_nobody_fetches_are_bounded() {
    let _turn = alone();
    let text = "x".repeat(LARGE);
    let mut machine = Machine::new();
    (1..=500).for_each(|id| machine.say(&call(id)));
    let streams = machine.accept_all();
    (1..).zip(&streams).for_each(|(id, stream)| machine.event(*stream, &question(id, "?")));
    machine.wait(40);
    for (id, stream) in (1..).zip(&streams) {
        machine.event(*stream, &format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"x":"{text}"}}}}"#));
        machine.fact(Input::End(*stream));
    }
    let held = machine.held();
    assert!(held <= BOUND, "{held} bytes");
}

/// However many calls are parked, there is a limit, and nothing of them stays.
#[test]
fn parked_calls_are_bounded_and_leave_nothing() {
    let _turn = alone();
    let mut machine = Machine::new();
    let empty = machine.held();
    for id in 1..=MOST + 50 {
        machine.say(&call(id));
        let streams = machine.accept_all();
        machine.event(streams[0], &question(id, "?"));
        machine.wait(40);
        machine.accept_all();
        if id == 1 || id == MOST {
            assert!(machine.last.contains("input_required"), "{}", machine.last);
        }
    }
    assert_eq!(machine.lines as u64, 1 + MOST, "the calls that were answered");
    let held = machine.held();
    assert!(held <= BOUND + usize::try_from(MOST).unwrap() * CALL, "{held} bytes");
    for _ in 0..100 {
        machine.wait(10_000);
        machine.accept_all();
    }
    (MOST + 1..=MOST + 50).for_each(|id| {
        machine
            .say(&format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#));
        machine.accept_all();
    });
    machine.wait(100_000);
    let held = machine.held();
    assert!(held <= empty + (256 << 10), "{empty} bytes at first, {held} in the end");
    assert_eq!(machine.proxy.deadline(), None);
    assert!(!machine.proxy.busy());
}

/// Rounds, states and tokens of calls that end well.
#[test]
fn finished_rounds_leave_nothing() {
    let _turn = alone();
    let mut machine = Machine::new();
    let mut held = Vec::with_capacity(3000);
    for id in 1..3000 {
        machine.say(&call(id));
        let stream = machine.accept_all()[0];
        machine.event(stream, &question(id, "?"));
        machine.wait(40);
        let line: Value = serde_json::from_str(&machine.last).unwrap();
        let state = line["result"]["requestState"].as_str().unwrap().to_owned();
        let more = format!(r#""name":"t","inputResponses":{{"q{id}":{{}}}},"requestState":"{state}","#);
        machine.say(&modern(id, "tools/call", &more, r#"{"elicitation":{}}"#));
        machine.accept_all();
        machine.event(stream, &format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#));
        assert!(machine.last.contains("complete"), "{}", machine.last);
        machine.fact(Input::End(stream));
        machine.wait(20_000);
        held.push(machine.held());
    }
    let (early, late) = (held[1000], held[held.len() - 1]);
    assert!(late <= early + (4 << 10), "{early} bytes, then {late}");
}
