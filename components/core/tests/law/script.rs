//! Scripts: what peers, network and clock do, step by step. A step names a
//! live call by a number, so that any script can be played and shortened, and
//! played with a server of either transport.

use super::message::{IDS, Line, Method, ODD, Said, line, said};
use super::record::{Command, Fact, Record, config, drain, head};
use bytes::Bytes;
use http::{Method as Verb, Request};
use mcp_proxy_core::{CallError, CallId, KeepAlive, Output, Proxy, Time, Transport};
use proptest::prelude::*;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// What happens, and where.
#[derive(Debug, Clone)]
pub struct Script {
    /// What the machine was told of the server.
    transport: Transport,
    server: Server,
    keep_alive: KeepAlive,
    steps: Vec<Step>,
}

/// What a good server does with a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Server {
    Streamable,
    /// HTTP+SSE.
    Sse,
}

#[derive(Debug, Clone)]
enum Step {
    Say(Line),
    /// The server does what a good server does with a call, by JSON or SSE.
    Serve(usize, bool),
    Head(usize, usize),
    /// The name of an endpoint, as HTTP+SSE has it.
    Endpoint(usize, usize),
    Events(usize, Vec<Said>),
    /// An event with an id, and perhaps a time to wait.
    Cursor(usize, bool),
    /// Bytes that are nothing yet.
    Partial(usize),
    End(usize),
    Fail(usize, CallError),
    Wait(u64),
    /// Time passes until the machine wants something.
    Due,
    Flush,
    Eof,
    Stop,
    Shutdown,
}

/// What happens after the script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    None,
    /// Nobody says anything any more, but the client answers what it was asked.
    Silence,
    Eof,
}

/// Response heads: a status and headers.
const HEADS: [(u16, &[(&str, &str)]); 13] = [
    (200, &[("content-type", "text/event-stream")]),
    (200, &[("content-type", "text/event-stream"), ("mcp-session-id", "s")]),
    (200, &[("content-type", "application/json")]),
    (200, &[("content-type", "text/html")]),
    (202, &[]),
    (307, &[("location", "/other")]),
    (308, &[("location", "https://evil.test/")]),
    (400, &[]),
    (404, &[]),
    (405, &[]),
    (429, &[("retry-after", "1")]),
    (503, &[("retry-after", "2")]),
    (500, &[]),
];

const ENDPOINTS: [&str; 5] = ["/messages?s=1", "/messages?s=2", "?s=3", "https://evil.test/m", "http://["];

const ERRORS: [CallError; 4] = [CallError::Refused, CallError::Reset, CallError::Tls, CallError::Protocol];

/// A script of up to so many steps; most begin with a session.
pub fn script(most: usize) -> impl Strategy<Value = Script> {
    let pulse = KeepAlive::Every(Duration::from_secs(7));
    let keep_alive = prop::sample::select(vec![KeepAlive::Auto, KeepAlive::Auto, pulse]);
    let steps = prop::collection::vec(step(), 1..most);
    (server(), prop::bool::weighted(0.8), keep_alive, steps).prop_map(
        |((server, transport), greeted, keep_alive, rest)| {
            let steps = if greeted { greeting().into_iter().chain(rest).collect() } else { rest };
            Script { transport, server, keep_alive, steps }
        },
    )
}

/// A server, and what is known of it; now and then, what is known is wrong.
fn server() -> impl Strategy<Value = (Server, Transport)> {
    prop_oneof![
        4 => Just((Server::Streamable, Transport::Auto)),
        1 => Just((Server::Streamable, Transport::StreamableHttp)),
        3 => Just((Server::Sse, Transport::Auto)),
        3 => Just((Server::Sse, Transport::Sse)),
        1 => Just((Server::Streamable, Transport::Sse)),
    ]
}

/// Opens a session with either server: with HTTP+SSE, the first call may be
/// refused, the next is the stream, and then come the messages.
fn greeting() -> Vec<Step> {
    let serve = |call| Step::Serve(call, false);
    let initialize = [Step::Say(Line::Initialize(0)), serve(0), serve(0), serve(0)];
    let initialized = [Step::Say(Line::Initialized), serve(0), serve(1), serve(1)];
    initialize.into_iter().chain(initialized).collect()
}

fn step() -> impl Strategy<Value = Step> {
    let call = || 0_usize..6;
    prop_oneof![
        10 => client_line().prop_map(Step::Say),
        8 => (call(), any::<bool>()).prop_map(|(call, sse)| Step::Serve(call, sse)),
        6 => (call(), 0..HEADS.len()).prop_map(|(call, head)| Step::Head(call, head)),
        2 => (call(), 0..ENDPOINTS.len()).prop_map(|(call, endpoint)| Step::Endpoint(call, endpoint)),
        6 => (call(), prop::collection::vec(server_message(), 1..4)).prop_map(|(call, said)| Step::Events(call, said)),
        3 => (call(), any::<bool>()).prop_map(|(call, retry)| Step::Cursor(call, retry)),
        2 => call().prop_map(Step::Partial),
        4 => call().prop_map(Step::End),
        4 => (call(), prop::sample::select(ERRORS.to_vec())).prop_map(|(call, error)| Step::Fail(call, error)),
        3 => (1_u64..3000).prop_map(Step::Wait),
        4 => Just(Step::Due),
        2 => Just(Step::Flush),
        1 => prop_oneof![8 => Just(Step::Flush), 2 => Just(Step::Eof), 1 => Just(Step::Stop), 1 => Just(Step::Shutdown)],
    ]
}

fn client_line() -> impl Strategy<Value = Line> {
    let id = || 0..IDS.len();
    prop_oneof![
        1 => id().prop_map(Line::Initialize),
        1 => Just(Line::Initialized),
        5 => id().prop_map(|id| Line::Request(id, Method::Call)),
        2 => id().prop_map(|id| Line::Request(id, Method::List)),
        1 => id().prop_map(|id| Line::Request(id, Method::Subscribe)),
        1 => Just(Line::Notification),
        2 => id().prop_map(Line::Cancel),
        2 => id().prop_map(Line::Answer),
        1 => id().prop_map(Line::Broken),
        1 => Just(Line::Noise),
        1 => id().prop_map(Line::Long),
        1 => (id(), id()).prop_map(|(one, two)| Line::Batch(one, two)),
    ]
}

fn server_message() -> impl Strategy<Value = Said> {
    let id = || 0..IDS.len();
    prop_oneof![
        5 => Just(Said::Answer),
        1 => Just(Said::Anonymous),
        1 => id().prop_map(Said::Other),
        2 => Just(Said::Notification),
        1 => Just(Said::NullId),
        1 => Just(Said::Progress),
        2 => id().prop_map(Said::Ask),
        1 => id().prop_map(Said::CancelAsk),
        2 => (0..ODD.len()).prop_map(Said::Odd),
        1 => Just(Said::Garbage),
        1 => Just(Said::Long),
    ]
}

/// Plays a script against a machine.
pub fn play(script: &Script, ending: Ending) -> Record {
    let seed = script.steps.len() as u64;
    let mut config = config(script.transport);
    config.keep_alive = script.keep_alive;
    let mut stage = Stage {
        proxy: Proxy::new(&config, seed, Time(0)),
        server: script.server,
        now: Time(0),
        calls: BTreeMap::new(),
        posted: VecDeque::new(),
        unflushed: 0,
        count: 0,
        asked: Vec::new(),
        record: Record::new(config, seed),
    };
    script.steps.iter().for_each(|step| stage.step(step));
    stage.end(ending);
    stage.record
}

struct Stage {
    proxy: Proxy,
    server: Server,
    now: Time,
    calls: BTreeMap<CallId, Live>,
    /// Messages for which an HTTP+SSE server owes an answer on its stream.
    posted: VecDeque<Vec<u8>>,
    unflushed: usize,
    count: usize,
    /// The server's requests that reached the client.
    asked: Vec<String>,
    record: Record,
}

/// A call that the shell has open.
struct Live {
    request: Request<Bytes>,
    headed: bool,
}

impl Live {
    /// It asks for a stream.
    fn streams(&self) -> bool {
        self.request.method() == Verb::GET
    }

    /// It brings a message to an endpoint that a stream has named.
    fn posts(&self) -> bool {
        self.request.method() == Verb::POST && self.request.uri().path_and_query().is_some_and(|at| at != "/mcp")
    }
}

impl Stage {
    fn step(&mut self, step: &Step) {
        match step {
            Step::Say(say) => {
                self.count += 1;
                self.fact(Fact::Bytes(line(say, self.count).into_bytes()));
            }
            Step::Serve(call, sse) => self.serve(*call, *sse),
            Step::Head(call, which) => {
                let (status, headers) = HEADS[*which];
                self.on(*call, false, |id, _| head(id, status, headers));
            }
            Step::Endpoint(call, which) => {
                let event = format!("event: endpoint\ndata: {}\n\n", ENDPOINTS[*which]);
                self.on(*call, true, |id, _| Fact::Chunk(id, event.into_bytes()));
            }
            Step::Events(call, messages) => {
                let stream = self.nth(*call).is_some_and(|(_, live)| live.headed && live.streams());
                let posted = if stream { self.posted.pop_front() } else { None };
                self.on(*call, true, |id, live| {
                    Fact::Chunk(id, events(messages, posted.as_deref().unwrap_or(live.request.body())))
                });
            }
            Step::Cursor(call, retry) => {
                let retry = if *retry { "retry: 300\n" } else { "" };
                self.on(*call, true, |id, _| Fact::Chunk(id, format!("id: e\n{retry}data:\n\n").into_bytes()));
            }
            Step::Partial(call) => self.on(*call, true, |id, _| Fact::Chunk(id, b"data: {\"js".to_vec())),
            Step::End(call) => self.on(*call, true, |id, _| Fact::End(id)),
            Step::Fail(call, error) => {
                let any = self.nth(*call).is_some_and(|(_, live)| live.headed);
                let error = if any { CallError::Reset } else { *error };
                self.on(*call, any, |id, _| Fact::Failed(id, error));
            }
            Step::Wait(millis) => self.wait(*millis),
            Step::Due => self.wait_until_due(),
            Step::Flush => self.fact(Fact::Flushed(self.unflushed)),
            Step::Eof => self.fact(Fact::Eof),
            Step::Stop => self.fact(Fact::Stop),
            Step::Shutdown => self.fact(Fact::Shutdown),
        }
    }

    fn nth(&self, which: usize) -> Option<(CallId, &Live)> {
        let count = self.calls.len();
        self.calls.iter().nth(which.checked_rem(count)?).map(|(id, live)| (*id, live))
    }

    /// A fact about the call of that number, if its response has begun or not.
    fn on(&mut self, which: usize, headed: bool, fact: impl FnOnce(CallId, &Live) -> Fact) {
        let Some((id, live)) = self.nth(which).filter(|(_, live)| live.headed == headed) else { return };
        let fact = fact(id, live);
        self.fact(fact);
    }

    /// The call's good end.
    fn serve(&mut self, which: usize, sse: bool) {
        let Some((id, live)) = self.nth(which).filter(|(_, live)| !live.headed || !live.streams()) else { return };
        let answer = said(&Said::Answer, live.request.body());
        let (headed, streams, posts) = (live.headed, live.streams(), live.posts());
        let facts = match (self.server, answer.is_empty(), sse) {
            (Server::Sse, _, _) if streams => vec![head(id, 200, HEADS[0].1), endpoint(id)],
            (Server::Sse, _, _) if posts => vec![head(id, 202, &[]), Fact::End(id)],
            (Server::Sse, _, _) => vec![head(id, 405, &[]), Fact::End(id)],
            (Server::Streamable, true, _) if streams => vec![head(id, 200, HEADS[0].1)],
            (Server::Streamable, true, _) => vec![head(id, 202, &[]), Fact::End(id)],
            (Server::Streamable, false, true) => vec![
                head(id, 200, HEADS[1].1),
                Fact::Chunk(id, format!("data: {answer}\n\n").into_bytes()),
                Fact::End(id),
            ],
            (Server::Streamable, false, false) => {
                let headers = [HEADS[2].1[0], ("mcp-session-id", "s")];
                vec![head(id, 200, &headers), Fact::Chunk(id, answer.clone().into_bytes()), Fact::End(id)]
            }
        };
        for fact in facts.into_iter().skip(usize::from(headed)) {
            if self.calls.contains_key(&id) {
                self.fact(fact);
            }
        }
        if self.server == Server::Sse && posts {
            self.answer_on_the_stream(&answer);
        }
    }

    /// What was posted is answered on the stream, if there is one.
    fn answer_on_the_stream(&mut self, answer: &str) {
        let stream = self.calls.iter().find(|(_, live)| live.headed && live.streams()).map(|(id, _)| *id);
        if let Some(id) = stream.filter(|_| !answer.is_empty()) {
            self.fact(Fact::Chunk(id, format!("data: {answer}\n\n").into_bytes()));
        }
    }

    fn wait(&mut self, millis: u64) {
        let until = Time(self.now.0 + millis);
        while let Some(deadline) = self.proxy.deadline().filter(|deadline| deadline.at <= until) {
            self.now = self.now.max(deadline.at);
            self.fact(Fact::Tick);
            if self.record.log.len() > 2000 {
                return;
            }
        }
        self.now = until;
    }

    fn wait_until_due(&mut self) {
        if let Some(deadline) = self.proxy.deadline() {
            self.now = self.now.max(deadline.at);
            self.fact(Fact::Tick);
        }
    }

    fn end(&mut self, ending: Ending) {
        match ending {
            Ending::None => return,
            Ending::Silence => {
                for id in std::mem::take(&mut self.asked) {
                    self.fact(Fact::Bytes(
                        format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{}}}}\n").into_bytes(),
                    ));
                }
                self.fact(Fact::Flushed(usize::MAX));
            }
            Ending::Eof => self.fact(Fact::Eof),
        }
        for _ in 0..500 {
            self.wait_until_due();
        }
    }

    /// One fact, and what the machine says to it.
    fn fact(&mut self, fact: Fact) {
        self.proxy.handle(self.now, fact.input());
        match &fact {
            Fact::End(id) | Fact::Failed(id, _) => drop(self.calls.remove(id)),
            Fact::Head(id, _) => {
                self.calls.entry(*id).and_modify(|live| live.headed = true);
            }
            Fact::Flushed(count) => self.unflushed = self.unflushed.saturating_sub(*count),
            Fact::Tick | Fact::Bytes(_) | Fact::Eof | Fact::Chunk(..) | Fact::Stop | Fact::Shutdown => {}
        }
        let outputs = drain(&mut self.proxy);
        self.record.log.push((self.now, fact));
        self.record.said.push(outputs.iter().map(|output| format!("{output:?}")).collect());
        let commands = outputs.into_iter().map(|output| self.obey(output)).collect();
        self.record.commands.push(commands);
    }

    fn obey(&mut self, output: Output) -> Command {
        match output {
            Output::Write(_, bytes) => {
                self.unflushed += bytes.len();
                self.heard(&bytes);
                Command::Write(bytes.to_vec())
            }
            Output::Call(id, request) => {
                let live = Live { request: request.clone(), headed: false };
                if live.posts() {
                    self.posted.push_back(request.body().to_vec());
                }
                self.calls.insert(id, live);
                Command::Call(id, Box::new(request))
            }
            Output::Cancel(id) => {
                self.calls.remove(&id);
                Command::Cancel(id)
            }
            Output::Snapshot(_) => Command::Snapshot,
            Output::Note(note) => Command::Note(note.blame()),
            Output::Exit(_) => Command::Exit,
            other @ (Output::Respond(..) | Output::Send(..) | Output::Finish(_) | Output::Abort(_)) => {
                panic!("to a client on stdio: {other:?}")
            }
        }
    }

    fn heard(&mut self, line: &[u8]) {
        let Ok(value) = serde_json::from_slice::<serde_json::Value>(line) else { return };
        if let (Some(id), Some(_)) = (value.get("id"), value.get("method")) {
            self.asked.push(id.to_string());
        }
    }
}

fn endpoint(id: CallId) -> Fact {
    Fact::Chunk(id, format!("event: endpoint\ndata: {}\n\n", ENDPOINTS[0]).into_bytes())
}

/// Events, with each of the line ends that the standard allows.
fn events(messages: &[Said], body: &[u8]) -> Vec<u8> {
    let ends = ["\r\n", "\n", "\r"].iter().cycle();
    let events = messages.iter().zip(ends).map(|(message, end)| format!("data: {}{end}{end}", said(message, body)));
    events.collect::<String>().into_bytes()
}
