//! One peer that floods the machine, as far as the machine wants to read, while
//! the client reads none of its streams.

use super::client::{Client, ClientKind};
use super::message::{MODERN, Said, said};
use super::record::{Command, Fact, drain, head};
use super::script::Server;
use bytes::Bytes;
use mcp_proxy_core::{CallError, CallId, Config, Era, Proxy, Side, Source, Time, Transport};
use std::collections::VecDeque;

/// The longest message while the flood lasts.
const MAX_MESSAGE: usize = 64 << 10;
/// See "Memory" in ARCHITECTURE.md.
const SLACK: usize = 1 << 20;
/// Messages of the client, of the server, and what is not written. A buffer that
/// grows is there twice.
const BOUND: usize = MAX_MESSAGE + 2 * (MAX_MESSAGE + SLACK) + 2 * (SLACK + MAX_MESSAGE) + SLACK;

const EVENTS: &[(&str, &str)] = &[("content-type", "text/event-stream")];
const INITIALIZED: &str = r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25"}}"#;

/// How much pours at most.
const SEA: usize = 20 << 20;
const LAKE: usize = 2 << 20;

/// How many requests of a client on stdio may be open, and what the machine holds for
/// a small one.
const MOST_OPEN: usize = 10_000;
const OPEN_REQUEST: usize = 2 << 10;

/// What pours in, again and again.
#[derive(Debug, Clone, Copy)]
pub enum Flood {
    Notifications,
    Questions,
    LongEvents,
    EmptyData,
    /// Requests with one id.
    Duplicates,
    LongMessages,
    /// Requests with large bodies that the server does not answer.
    LargeRequests,
    /// The same with the smallest bodies: what grows is tables.
    SmallRequests,
    /// Requests with large bodies that the server takes, and does not answer.
    TakenRequests,
}

pub const FLOODS: [Flood; 9] = [
    Flood::Notifications,
    Flood::Questions,
    Flood::LongEvents,
    Flood::EmptyData,
    Flood::Duplicates,
    Flood::LongMessages,
    Flood::LargeRequests,
    Flood::SmallRequests,
    Flood::TakenRequests,
];

/// Where it led.
#[derive(Debug)]
pub struct Poured {
    /// Bytes that the machine held at most, with what it gave to the shell.
    pub held: usize,
    pub session_lives: bool,
}

impl Flood {
    /// What may be held.
    pub fn bound(self) -> usize {
        match self {
            Self::SmallRequests => BOUND + MOST_OPEN * OPEN_REQUEST,
            _ => BOUND,
        }
    }

    /// Pours until the machine wants no more, or enough has been seen.
    pub fn pour(self, client: ClientKind, server: Server, in_use: fn() -> usize) -> Poured {
        let mut pool = Pool::new(client, server, in_use);
        let stream = pool.open(server);
        let (mut held, mut poured) = (0, 0);
        for count in 0..most_pieces(client) {
            if poured > self.most() || !pool.proxy.wants(self.source(stream)) {
                break;
            }
            let piece = self.piece(count);
            poured += piece.len();
            match self.source(stream) {
                Source::Side(_) => pool.say(&piece),
                Source::Call(call) => pool.tell(&Fact::Chunk(call, piece.into_bytes())),
            }
            if matches!(self, Self::TakenRequests) && server != Server::Sse {
                pool.take();
            }
            held = held.max(pool.held);
        }
        Poured { held, session_lives: pool.lives() }
    }

    /// The same from the client, to a machine whose server has no endpoint yet.
    pub fn pour_before_an_endpoint(self, client: ClientKind, in_use: fn() -> usize) -> usize {
        let mut pool = Pool::new(client, Server::Sse, in_use);
        let mut held = 0;
        for count in 0..1000 {
            if !pool.proxy.wants(Source::Side(Side::Client)) {
                break;
            }
            pool.say(&self.piece(count));
            held = held.max(pool.held);
        }
        held
    }

    /// What is never kept need not pour for long.
    fn most(self) -> usize {
        match self {
            Self::LongEvents | Self::EmptyData | Self::LongMessages => LAKE,
            Self::Notifications
            | Self::Questions
            | Self::Duplicates
            | Self::LargeRequests
            | Self::SmallRequests
            | Self::TakenRequests => SEA,
        }
    }

    fn source(self, stream: CallId) -> Source {
        match self {
            Self::Notifications | Self::Questions | Self::LongEvents | Self::EmptyData => Source::Call(stream),
            Self::Duplicates | Self::LongMessages | Self::LargeRequests | Self::SmallRequests | Self::TakenRequests => {
                Source::Side(Side::Client)
            }
        }
    }

    fn piece(self, count: usize) -> String {
        let filler = || "x".repeat(MAX_MESSAGE - 100);
        match self {
            Self::Notifications => format!("data: {{\"method\":\"{}\"}}\n\n", filler()),
            Self::Questions => format!("data: {{\"id\":{count},\"method\":\"q\",\"params\":\"{}\"}}\n\n", filler()),
            Self::LongEvents => format!("data: {}{}\n\n", filler(), filler()),
            Self::EmptyData => "data:\n".repeat(MAX_MESSAGE / 6),
            Self::Duplicates => format!("{{\"id\":\"open\",\"method\":\"q\",\"params\":\"{}\"}}", filler()),
            Self::LongMessages => format!("{{\"id\":1,\"method\":\"q\",\"params\":\"{}{}\"}}", filler(), filler()),
            Self::LargeRequests | Self::TakenRequests => {
                format!("{{\"id\":{count},\"method\":\"q\",\"params\":\"{}\"}}", filler())
            }
            Self::SmallRequests => format!("{{\"id\":{count},\"method\":\"q\"}}"),
        }
    }
}

/// A machine, and what it has said that nobody has taken.
struct Pool {
    proxy: Proxy,
    client: Box<dyn Client>,
    calls: VecDeque<CallId>,
    /// Calls whose response has begun.
    taken: Vec<CallId>,
    /// The body of the first call.
    probe: Vec<u8>,
    unread: Vec<Bytes>,
    in_use: fn() -> usize,
    /// Bytes that the machine and the unread have taken. What the client keeps for
    /// itself does not count.
    held: usize,
}

impl Pool {
    fn new(client: ClientKind, server: Server, in_use: fn() -> usize) -> Self {
        let mut config = Config::new("http://server.test/mcp").unwrap();
        let (transport, era) = match server {
            Server::Streamable => (Transport::StreamableHttp, Era::Legacy),
            Server::Sse => (Transport::Sse, Era::Legacy),
            Server::Modern => (Transport::Auto, Era::Auto),
        };
        config.era = era;
        (config.max_message, config.transport, config.client) = (MAX_MESSAGE, transport, client.transport());
        let (client, before) = (client.client(), in_use());
        let proxy = Proxy::new(&config, 1, Time(0));
        let held = in_use() - before;
        Self {
            proxy,
            client,
            calls: VecDeque::new(),
            taken: Vec::new(),
            probe: Vec::new(),
            unread: Vec::new(),
            in_use,
            held,
        }
    }

    fn say(&mut self, text: &str) {
        let fact = self.client.say(text);
        self.tell(&fact);
    }

    fn tell(&mut self, fact: &Fact) {
        self.client.told(fact);
        let before = (self.in_use)();
        self.proxy.handle(Time(1), fact.input());
        let commands: Vec<Command> = drain(&mut self.proxy).into_iter().map(Command::from).collect();
        self.unread.extend(commands.iter().filter_map(written));
        let after = (self.in_use)();
        for command in &commands {
            self.client.heard(command);
            if let Command::Call(id, request) = command {
                self.calls.push_back(*id);
                if self.probe.is_empty() {
                    self.probe = request.body().to_vec();
                }
            }
        }
        let before_drop = (self.in_use)();
        drop(commands);
        self.held = (self.held + after + (self.in_use)()).saturating_sub(before + before_drop);
    }

    /// Opens a session and an event stream: of a request, or that of an HTTP+SSE
    /// session.
    fn open(&mut self, server: Server) -> CallId {
        self.say(r#"{"id":0,"method":"initialize"}"#);
        let first = self.calls.pop_front().unwrap();
        if server == Server::Modern {
            self.tell(&head(first, 200, &[("content-type", "application/json")]));
            let probe = std::mem::take(&mut self.probe);
            self.tell(&Fact::Chunk(first, said(&Said::Answer, &probe, MODERN).into_bytes()));
            self.tell(&Fact::End(first));
        } else if server == Server::Sse {
            self.tell(&head(first, 200, EVENTS));
            self.tell(&Fact::Chunk(first, b"event: endpoint\ndata: /messages\n\n".to_vec()));
            self.accept();
            self.tell(&Fact::Chunk(first, format!("data: {INITIALIZED}\n\n").into_bytes()));
        } else {
            self.tell(&head(first, 200, &[("content-type", "application/json")]));
            self.tell(&Fact::Chunk(first, INITIALIZED.as_bytes().to_vec()));
            self.tell(&Fact::End(first));
        }
        self.say(r#"{"id":"open","method":"tools/call"}"#);
        if server == Server::Sse {
            self.accept();
            return first;
        }
        let call = self.calls.pop_front().unwrap();
        self.tell(&head(call, 200, EVENTS));
        call
    }

    /// The server accepts the message of the oldest call.
    fn accept(&mut self) {
        let call = self.calls.pop_front().unwrap();
        self.tell(&head(call, 202, &[]));
        self.tell(&Fact::End(call));
    }

    /// The server takes all requests that have come.
    fn take(&mut self) {
        for call in std::mem::take(&mut self.calls) {
            self.tell(&head(call, 200, EVENTS));
            self.taken.push(call);
        }
    }

    /// Lets the client read and the open calls fail; another request then still
    /// leads to a call.
    fn lives(&mut self) -> bool {
        self.unread.clear();
        while let Some(fact) = self.client.attend() {
            self.tell(&fact);
        }
        let taken = std::mem::take(&mut self.taken);
        for call in std::mem::take(&mut self.calls).into_iter().chain(taken) {
            self.tell(&Fact::Failed(call, CallError::Denied));
        }
        self.say(r#"{"id":"after","method":"tools/list"}"#);
        !self.calls.is_empty()
    }
}

/// More than there may be open requests.
fn most_pieces(client: ClientKind) -> usize {
    match client {
        ClientKind::Lines => MOST_OPEN + 1000,
        ClientKind::Http | ClientKind::Modern => 1000,
    }
}

fn written(command: &Command) -> Option<Bytes> {
    match command {
        Command::Write(bytes) | Command::Send(_, bytes) => Some(bytes.clone()),
        _ => None,
    }
}
