//! Plays a script against a machine, with a client of each transport. The
//! stage is the shell, the network, the clock and the server.

use super::client::{Act, Client, ClientKind};
use super::message::{Said, on_subscription, said, watches};
use super::record::{Command, Fact, Record, config, drain, head};
use super::script::{ENDPOINTS, HEADS, STATUSES, Script, Server, Step};
use bytes::Bytes;
use http::{Method as Verb, Request};
use mcp_proxy_core::{CallError, CallId, Proxy, Time};
use std::collections::{BTreeMap, VecDeque};

/// How long a run goes on after its script, in milliseconds. What is open must be
/// answered in this time. While a client may still come back to a parked request, for ten
/// minutes, the silence of the server does not count; then it does.
const AFTER: u64 = 660_000;

/// What happens after the script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    None,
    /// The server says nothing any more. The client reads, comes back for streams
    /// that it lost, and answers what it is asked.
    Silence,
    /// The client ends the session, and then does nothing.
    Close,
}

/// Plays a script once with each client transport.
pub fn play(script: &Script, ending: Ending) -> [Record; 3] {
    ClientKind::ALL.map(|client| play_with(client, script, ending))
}

pub fn play_with(client: ClientKind, script: &Script, ending: Ending) -> Record {
    let mut stage = Stage::new(client, script);
    script.steps.iter().for_each(|step| stage.step(step));
    stage.end(ending);
    stage.record()
}

/// Plays a script over and over in one session, each time until all is quiet.
/// Returns also where in the log each round ends, as long as the machine lives.
pub fn play_rounds(client: ClientKind, script: &Script, rounds: usize) -> (Record, Vec<usize>) {
    let mut stage = Stage::new(client, script);
    let goes_on = |step: &&Step| !matches!(step, Step::Client(Act::Close) | Step::Stop | Step::Shutdown);
    let mut ends = Vec::new();
    for _ in 0..rounds {
        script.steps.iter().filter(goes_on).for_each(|step| stage.step(step));
        stage.end(Ending::Silence);
        if stage.exited {
            break;
        }
        ends.push(stage.record.log.len());
    }
    (stage.record(), ends)
}

struct Stage {
    proxy: Proxy,
    client: Box<dyn Client>,
    server: Server,
    version: &'static str,
    now: Time,
    calls: BTreeMap<CallId, Live>,
    /// Messages for which an HTTP+SSE server owes an answer on its stream.
    posted: VecDeque<Vec<u8>>,
    exited: bool,
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
    fn new(client: ClientKind, script: &Script) -> Self {
        let seed = script.steps.len() as u64;
        let mut config = config(client, script.transport);
        (config.keep_alive, config.era) = (script.keep_alive, script.era);
        Self {
            proxy: Proxy::new(&config, seed, Time(0)),
            client: client.client(),
            server: script.server,
            version: script.version,
            now: Time(0),
            calls: BTreeMap::new(),
            posted: VecDeque::new(),
            exited: false,
            record: Record::new(config, seed),
        }
    }

    fn record(self) -> Record {
        Record { books: self.client.books().clone(), ..self.record }
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Client(act) => {
                let fact = self.client.act(act);
                fact.into_iter().for_each(|fact| self.fact(fact));
            }
            Step::Serve(call, sse) => self.serve(*call, *sse),
            Step::Reply(call, status, message) => self.reply(*call, STATUSES[*status], message),
            Step::Ask(call, asks) => self.ask(*call, *asks),
            Step::Question(call, asks) => self.question(*call, asks),
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
                let version = self.version;
                self.on(*call, true, |id, live| {
                    let body = posted.as_deref().unwrap_or(live.request.body());
                    Fact::Chunk(id, events(messages, body, version))
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
            Step::Waiting(why) => self.fact(Fact::Waiting(why)),
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
        let answer = said(&Said::Answer, live.request.body(), self.version);
        let (headed, streams, posts) = (live.headed, live.streams(), live.posts());
        let facts = match (self.server, answer.is_empty(), sse) {
            (Server::Sse, _, _) if streams => vec![head(id, 200, HEADS[0].1), endpoint(id)],
            (Server::Sse, _, _) if posts => vec![head(id, 202, &[]), Fact::End(id)],
            (Server::Sse, _, _) => vec![head(id, 405, &[]), Fact::End(id)],
            (Server::Modern, _, _) if streams => vec![head(id, 405, &[]), Fact::End(id)],
            (Server::Modern, _, _) if watches(live.request.body()) => {
                let acknowledged = on_subscription(live.request.body(), "subscriptions/acknowledged");
                let event = format!("data: {acknowledged}\n\n");
                vec![head(id, 200, HEADS[0].1), Fact::Chunk(id, event.into_bytes())]
            }
            (Server::Modern, false, false) => {
                vec![head(id, 200, HEADS[2].1), Fact::Chunk(id, answer.clone().into_bytes()), Fact::End(id)]
            }
            (Server::Streamable, true, _) if streams => vec![head(id, 200, HEADS[0].1)],
            (Server::Streamable | Server::Modern, true, _) => vec![head(id, 202, &[]), Fact::End(id)],
            (Server::Streamable | Server::Modern, false, true) => vec![
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

    fn ask(&mut self, which: usize, asks: usize) {
        if self.server == Server::Modern
            && let Some(at) = self.nth_tool(which)
        {
            self.reply(at, 200, &Said::Input(asks));
        }
    }

    /// The place of a call of a tool among all calls.
    fn nth_tool(&self, which: usize) -> Option<usize> {
        let calls = |live: &&Live| contains(live.request.body(), b"\"tools/call\"");
        let of_tools = self.calls.values().enumerate().filter(|(_, live)| calls(live)).map(|(at, _)| at);
        let of_tools: Vec<usize> = of_tools.collect();
        of_tools.get(which.checked_rem(of_tools.len())?).copied()
    }

    /// A legacy server asks, in the response to a call or on its one stream.
    fn question(&mut self, which: usize, asks: &Said) {
        let streams = |live: &Live| live.headed && live.streams();
        let at = match self.server {
            Server::Streamable => self.nth_tool(which),
            Server::Sse => self.calls.values().position(streams),
            Server::Modern => None,
        };
        let Some((id, live)) = at.and_then(|at| self.nth(at)) else { return };
        let body = live.request.body().clone();
        if !live.headed {
            self.fact(head(id, 200, HEADS[0].1));
        }
        if self.calls.contains_key(&id) {
            self.fact(Fact::Chunk(id, events(std::slice::from_ref(asks), &body, self.version)));
        }
    }

    /// A response that is a message and nothing else.
    fn reply(&mut self, which: usize, status: u16, message: &Said) {
        let Some((id, live)) = self.nth(which).filter(|(_, live)| !live.headed) else { return };
        let body = said(message, live.request.body(), self.version).into_bytes();
        for fact in [head(id, status, HEADS[2].1), Fact::Chunk(id, body), Fact::End(id)] {
            if self.calls.contains_key(&id) {
                self.fact(fact);
            }
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
            Ending::Silence => {}
            Ending::Close => self.step(&Step::Client(Act::Close)),
        }
        let end = Time(self.now.0 + AFTER);
        for _ in 0..1000 {
            if ending == Ending::Silence {
                self.attend();
            }
            if self.now >= end || self.proxy.deadline().is_none() {
                return;
            }
            self.wait_until_due();
        }
    }

    /// The client does what a good client does.
    fn attend(&mut self) {
        for _ in 0..100 {
            let Some(fact) = self.client.attend() else { return };
            self.fact(fact);
        }
    }

    /// One fact, and what the machine says to it.
    fn fact(&mut self, fact: Fact) {
        self.client.told(&fact);
        self.proxy.handle(self.now, fact.input());
        match &fact {
            Fact::End(id) | Fact::Failed(id, _) => drop(self.calls.remove(id)),
            Fact::Head(id, _) => {
                self.calls.entry(*id).and_modify(|live| live.headed = true);
            }
            _ => {}
        }
        let outputs = drain(&mut self.proxy);
        self.record.said.push(outputs.iter().map(|output| format!("{output:?}")).collect());
        let commands: Vec<Command> = outputs.into_iter().map(Command::from).collect();
        commands.iter().for_each(|command| self.obey(command));
        self.client.settled(&fact);
        self.record.commands.push(commands);
        self.record.log.push((self.now, fact));
    }

    fn obey(&mut self, command: &Command) {
        self.client.heard(command);
        match command {
            Command::Call(id, request) => {
                let live = Live { request: (**request).clone(), headed: false };
                if live.posts() {
                    self.posted.push_back(request.body().to_vec());
                }
                self.calls.insert(*id, live);
            }
            Command::Cancel(id) => drop(self.calls.remove(id)),
            Command::Exit => self.exited = true,
            _ => {}
        }
    }
}

fn contains(bytes: &[u8], words: &[u8]) -> bool {
    bytes.windows(words.len()).any(|window| window == words)
}

fn endpoint(id: CallId) -> Fact {
    Fact::Chunk(id, format!("event: endpoint\ndata: {}\n\n", ENDPOINTS[0]).into_bytes())
}

/// Events, with each of the line ends that the standard allows.
fn events(messages: &[Said], body: &[u8], version: &str) -> Vec<u8> {
    let ends = ["\r\n", "\n", "\r"].iter().cycle();
    let event = |(message, end)| format!("data: {}{end}{end}", said(message, body, version));
    messages.iter().zip(ends).map(event).collect::<String>().into_bytes()
}
