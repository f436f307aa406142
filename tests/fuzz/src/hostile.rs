//! `hostile`: a peer that says one thing over and over, wherever it can say
//! something, and a budget for the bytes that the machine takes for it. The
//! first byte says where, the second how long it gets; what follows is a
//! beginning, a piece that is repeated, and an end, with a zero between them.

use bytes::Bytes;
use http::Response;
use mcp_proxy_core::{CallId, Config, Era, Input, Output, Proxy, Side, Sink, Source, Time};
use peak_alloc::PeakAlloc;
use std::collections::BTreeSet;
use std::time::Duration;

#[global_allocator]
static BYTES: PeakAlloc = PeakAlloc;

/// The longest text, and the longest message.
const LONGEST: usize = 1 << 20;
/// What a machine, its session and one message may take, whatever they are.
const BASE: usize = 512 << 10;
/// What each byte of a peer may take on top: itself, read and written, in buffers
/// that grow by doubling.
const PER_BYTE: usize = 12;
/// What may be left when all is answered: queues keep the room that they had.
const LEFT: usize = 2 << 20;

/// Where the text is said.
#[derive(Debug, Clone, Copy)]
enum Place {
    Body,
    Events,
    Refusal,
    Header,
    Initialize,
    Client,
    /// The answer to `server/discover`.
    Discover,
    /// The answer of a modern server to a request.
    Modern,
}

const PLACES: [Place; 8] = [
    Place::Body,
    Place::Events,
    Place::Refusal,
    Place::Header,
    Place::Initialize,
    Place::Client,
    Place::Discover,
    Place::Modern,
];

pub(crate) fn hostile(data: &[u8]) {
    let [place, length, recipe @ ..] = data else { return };
    let place = PLACES[usize::from(*place) % PLACES.len()];
    let text = text(recipe, LONGEST >> (length % 8));
    let before = BYTES.current_usage();
    BYTES.reset_peak_usage();
    let left = play(place, &text);
    let peak = BYTES.peak_usage().saturating_sub(before);
    let budget = BASE + PER_BYTE * text.len();
    assert!(peak <= budget, "{place:?}: {peak} bytes for {} of the peer, at most {budget}", text.len());
    let left = left.saturating_sub(before);
    assert!(left <= LEFT, "{place:?}: {left} bytes are left of {}", text.len());
}

fn text(recipe: &[u8], longest: usize) -> Vec<u8> {
    let mut parts = recipe.splitn(3, |byte| *byte == 0);
    let mut next = || parts.next().unwrap_or_default();
    let (beginning, piece, end) = (next(), next(), next());
    let times = longest.saturating_sub(beginning.len() + end.len()).checked_div(piece.len()).unwrap_or(0);
    [beginning, &piece.repeat(times), end].concat()
}

/// How many bytes are in use after so many ordinary calls of one session.
pub(crate) fn in_use_after(calls: usize) -> usize {
    let mut shell = Shell::new(LONGEST, Era::Legacy);
    let initialize = shell.client(INITIALIZE);
    shell.answer(initialize, 200, "s", "application/json", INITIALIZED);
    for _ in 0..calls {
        let call = shell.client(CALL);
        shell.answer(call, 200, "s", "application/json", ANSWER);
    }
    BYTES.current_usage()
}

/// Returns how much was in use when all had been answered.
fn play(place: Place, text: &[u8]) -> usize {
    let modern = matches!(place, Place::Discover | Place::Modern);
    let mut shell = Shell::new(LONGEST, if modern { Era::Auto } else { Era::Legacy });
    let initialize = shell.client(INITIALIZE);
    match place {
        Place::Discover => shell.answer(initialize, 200, "s", "application/json", text),
        Place::Modern => shell.answer(initialize, 200, "s", "application/json", DISCOVERED),
        Place::Initialize => shell.answer(initialize, 200, "s", "application/json", text),
        Place::Body | Place::Events | Place::Refusal | Place::Header | Place::Client => {
            shell.answer(initialize, 200, "s", "application/json", INITIALIZED);
        }
    }
    let call = shell.client(CALL);
    match place {
        Place::Body | Place::Modern => shell.answer(call, 200, "s", "application/json", text),
        Place::Events => shell.answer(call, 200, "s", "text/event-stream", text),
        Place::Refusal => shell.answer(call, 500, "s", "text/html", text),
        Place::Header => shell.answer(call, 200, &String::from_utf8_lossy(text), "application/json", b"{}"),
        Place::Client => drop(shell.client(text)),
        Place::Initialize | Place::Discover => {}
    }
    shell.end();
    assert!(shell.open.is_empty(), "{place:?}: no answer to {:?}", shell.open);
    BYTES.current_usage()
}

const INITIALIZE: &[u8] =
    br#"{"jsonrpc":"2.0","id":"first","method":"initialize","params":{"protocolVersion":"2025-11-25"}}"#;
const INITIALIZED: &[u8] = br#"{"jsonrpc":"2.0","id":"first","result":{"protocolVersion":"2025-11-25"}}"#;
/// The probe is the machine's own request, so its answer needs no id.
const DISCOVERED: &[u8] =
    br#"{"jsonrpc":"2.0","id":null,"result":{"supportedVersions":["2026-07-28"],"capabilities":{}}}"#;
const ANSWER: &[u8] = br#"{"jsonrpc":"2.0","id":"second","result":{}}"#;
const CALL: &[u8] = br#"{"jsonrpc":"2.0","id":"second","method":"tools/call"}"#;

/// The simplest shell: nobody waits, and a server that is not asked for more
/// refuses every call.
struct Shell {
    proxy: Proxy,
    now: u64,
    calls: Vec<CallId>,
    /// Requests of the client without an answer.
    open: BTreeSet<&'static str>,
}

impl Shell {
    fn new(max_message: usize, era: Era) -> Self {
        let mut config = Config::new("http://server.test/mcp").unwrap();
        config.era = era;
        config.max_message = max_message;
        config.request_timeout = Some(Duration::from_secs(10));
        let proxy = Proxy::new(&config, 1, Time(0));
        Self { proxy, now: 0, calls: Vec::new(), open: BTreeSet::from(["\"first\"", "\"second\""]) }
    }

    /// Says a line as fast as it is read; gives the last call that is made for it.
    fn client(&mut self, line: &[u8]) -> Option<CallId> {
        for chunk in line.chunks(16 << 10).chain([&b"\n"[..]]) {
            while !self.proxy.wants(Source::Side(Side::Client)) {
                let call = self.calls.pop();
                assert!(call.is_some(), "the client is not read, and nothing is under way");
                self.answer(call, 202, "s", "text/plain", b"");
            }
            self.tell(Input::Bytes(Side::Client, chunk));
        }
        self.calls.pop()
    }

    fn answer(&mut self, call: Option<CallId>, status: u16, session: &str, kind: &str, body: &[u8]) {
        let Some(call) = call else { return };
        let response = Response::builder().status(status).header("content-type", kind).header("set-cookie", session);
        let Ok(response) = response.header("mcp-session-id", session).body(()) else {
            return self.tell(Input::Failed(call, mcp_proxy_core::CallError::Protocol, ""));
        };
        self.tell(Input::Head(call, response.into_parts().0));
        body.chunks(16 << 10).for_each(|chunk| self.tell(Input::Chunk(call, chunk)));
        self.tell(Input::End(call));
    }

    /// Refuses what is still asked, lets time pass, and closes the client's side.
    fn end(&mut self) {
        self.tell(Input::Eof(Side::Client));
        for _ in 0..1000 {
            while let Some(call) = self.calls.pop() {
                self.answer(Some(call), 500, "s", "text/plain", b"");
            }
            let Some(deadline) = self.proxy.deadline() else { return };
            self.now = self.now.max(deadline.at.0);
            self.tell(Input::Tick);
        }
        panic!("no end");
    }

    fn tell(&mut self, input: Input<'_>) {
        self.proxy.handle(Time(self.now), input);
        while let Some(output) = self.proxy.poll() {
            match output {
                Output::Write(side, lines) => self.written(side, &lines),
                Output::Call(call, _) => self.calls.push(call),
                Output::Cancel(call) => self.calls.retain(|known| *known != call),
                Output::Respond(..)
                | Output::Send(..)
                | Output::Finish(_)
                | Output::Abort(_)
                | Output::Snapshot(_)
                | Output::Note(_)
                | Output::Exit(_) => {}
            }
        }
    }

    fn written(&mut self, side: Side, lines: &Bytes) {
        for id in ["\"first\"", "\"second\""] {
            let answers = memchr::memmem::find(lines, format!("\"id\":{id}").as_bytes()).is_some();
            if answers && memchr::memmem::find(lines, b"\"method\"").is_none() {
                self.open.remove(id);
            }
        }
        self.proxy.handle(Time(self.now), Input::Flushed(Sink::Side(side), lines.len()));
    }
}
