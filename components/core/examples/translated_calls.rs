//! Plays the same calls of a tool between peers of these eras, for a count of instructions:
//!
//! ```sh
//! bench/instructions.py     # every pair, with its ratio to the relay
//! ```
//!
//! By hand: `valgrind --tool=callgrind --toggle-collect='*measured*' translated_calls PAIR CALLS`
//! with symbols in the binary. It counts what the machine does in `measured`, and nothing of the
//! peers here. Run it with two numbers of calls and divide the difference.

#![allow(clippy::unwrap_used, clippy::panic, reason = "it stops if the machine misbehaves")]

use mcp_proxy_core::{CallId, Config, Era, Input, Output, Proxy, Side, Sink, Source, Time};
use std::collections::VecDeque;

/// The name of a pair, whether its client is modern, and whether its server is.
const PAIRS: [(&str, bool, bool); 4] = [
    ("legacy-legacy", false, false),
    ("legacy-modern", false, true),
    ("modern-legacy", true, false),
    ("modern-modern", true, true),
];

fn main() {
    #[expect(clippy::disallowed_methods, reason = "only the core itself knows no environment")]
    let mut words = std::env::args().skip(1);
    let wanted = words.next().unwrap_or_default();
    let calls: u64 = words.next().and_then(|text| text.parse().ok()).unwrap_or(1000);
    let Some((_, client, server)) = PAIRS.into_iter().find(|(name, ..)| *name == wanted) else {
        panic!("name one of {PAIRS:?}")
    };
    let mut peers = Peers::new(client, server);
    peers.open();
    for id in 1..=calls {
        peers.call(id);
    }
}

const VERSION: &str = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28""#;
const CLIENT: &str = r#""io.modelcontextprotocol/clientInfo":{"name":"client","version":"1"},"io.modelcontextprotocol/clientCapabilities":{"elicitation":{},"sampling":{},"roots":{}}"#;
const SERVER: &str = r#""_meta":{"io.modelcontextprotocol/serverInfo":{"name":"server","version":"1"}}"#;

/// A client and a server, and the machine between them.
struct Peers {
    proxy: Proxy,
    client_is_modern: bool,
    server_is_modern: bool,
    /// What the machine has sent and the server has not answered.
    requests: VecDeque<(CallId, http::Request<bytes::Bytes>)>,
    answers: usize,
    text: String,
}

impl Peers {
    fn new(client_is_modern: bool, server_is_modern: bool) -> Self {
        let mut config = Config::new("http://server.test/mcp").unwrap();
        config.era = Era::Auto;
        let proxy = Proxy::new(&config, 1, Time(0));
        let text = "0123456789".repeat(20);
        Self { proxy, client_is_modern, server_is_modern, requests: VecDeque::new(), answers: 0, text }
    }

    /// A legacy client opens a session; a modern one has none, and its first call finds the server.
    fn open(&mut self) {
        if self.client_is_modern {
            return self.call(0);
        }
        self.say(r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{},"sampling":{},"roots":{}},"clientInfo":{"name":"client","version":"1"}}}"#);
        self.say(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        assert_eq!(self.answers, 1, "the session is open");
    }

    fn call(&mut self, id: u64) {
        let meta = if self.client_is_modern { format!(r#","_meta":{{{VERSION},{CLIENT}}}"#) } else { String::new() };
        let text = &self.text;
        let params = format!(r#"{{"name":"echo","arguments":{{"text":"{text}"}}{meta}}}"#);
        let before = self.answers;
        self.say(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{params}}}"#));
        assert_eq!(self.answers, before + 1, "one answer to call {id}");
    }

    /// The client sends a line, and the server answers all that comes of it.
    fn say(&mut self, line: &str) {
        self.tell(Input::Bytes(Side::Client, format!("{line}\n").as_bytes()));
        while let Some((call, request)) = self.requests.pop_front() {
            self.answer(call, &request);
        }
    }

    fn answer(&mut self, call: CallId, request: &http::Request<bytes::Bytes>) {
        let response = self.response(std::str::from_utf8(request.body()).unwrap());
        let (status, body) = response.unwrap_or((202, String::new()));
        let head = http::Response::builder().status(status).header("content-type", "application/json");
        self.tell(Input::Head(call, head.body(()).unwrap().into_parts().0));
        if !body.is_empty() {
            self.tell(Input::Chunk(call, body.as_bytes()));
        }
        self.tell(Input::End(call));
    }

    /// The status and body for a request; `None` for what needs no answer.
    fn response(&self, request: &str) -> Option<(u16, String)> {
        if request.is_empty() {
            return Some((405, String::new()));
        }
        let id = member(request, "id")?;
        let result = |members: &str| Some((200, format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{{members}}}}}"#)));
        let error = r#"{"code":-32601,"message":"Method not found"}"#;
        match (member(request, "method")?, self.server_is_modern) {
            (r#""server/discover""#, true) => result(&format!(
                r#""resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{{"tools":{{}}}},"ttlMs":0,"cacheScope":"private",{SERVER}"#
            )),
            (r#""initialize""#, false) => result(
                r#""protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"server","version":"1"}"#,
            ),
            (r#""tools/call""#, true) => result(&format!(
                r#""content":[{{"type":"text","text":"{}"}}],"resultType":"complete",{SERVER}"#,
                self.text
            )),
            (r#""tools/call""#, false) => result(&format!(r#""content":[{{"type":"text","text":"{}"}}]"#, self.text)),
            _ => Some((400, format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#))),
        }
    }

    /// Tells the machine a fact, and what comes of its commands.
    fn tell(&mut self, input: Input<'_>) {
        let mut flushed = Vec::new();
        for output in measured(&mut self.proxy, input) {
            if let Output::Call(call, request) = output {
                flushed.push((Sink::Call(call), request.body().len()));
                self.requests.push_back((call, request));
            } else if let Output::Write(side, line) = output {
                self.answers += usize::from(side == Side::Client);
                flushed.push((Sink::Side(side), line.len()));
            }
        }
        for (sink, bytes) in flushed {
            self.tell(Input::Flushed(sink, bytes));
        }
    }
}

/// All that is counted: one turn of the loop of a shell.
#[inline(never)]
fn measured(proxy: &mut Proxy, input: Input<'_>) -> Vec<Output> {
    proxy.handle(Time(0), input);
    let outputs = std::iter::from_fn(|| proxy.poll()).collect();
    std::hint::black_box((proxy.deadline(), proxy.wants(Source::Side(Side::Client))));
    outputs
}

/// The text of a member that is a number or a plain string; the machine writes no spaces.
fn member<'a>(message: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = message.split_once(&format!("\"{name}\":"))?;
    rest.split([',', '}']).next()
}
