//! A run as a log of `(Time, Fact)` and what the machine said to each, and the
//! ways in which the same log can be played again.

use super::client::{Books, ClientKind};
use bytes::Bytes;
use http::{Request, Response, request, response};
use mcp_proxy_core::{
    Blame, CallError, CallId, ClientTransport, Config, ExchangeId, Input, Output, Proxy, Side, Sink, Time, Transport,
};
use std::fmt::Write;
use std::time::Duration;

/// The longest message in these runs.
pub const MAX_MESSAGE: usize = 700;

/// An [`Input`] that owns its bytes.
#[derive(Debug, Clone)]
pub enum Fact {
    Tick,
    Bytes(Vec<u8>),
    Eof,
    Request(ExchangeId, Box<request::Parts>, Bytes),
    Gone(ExchangeId),
    Head(CallId, Box<response::Parts>),
    Chunk(CallId, Vec<u8>),
    End(CallId),
    Failed(CallId, CallError),
    Flushed(Sink, usize),
    Waiting(&'static str),
    Stop,
    Shutdown,
}

impl Fact {
    pub fn input(&self) -> Input<'_> {
        match self {
            Self::Tick => Input::Tick,
            Self::Bytes(bytes) => Input::Bytes(Side::Client, bytes),
            Self::Eof => Input::Eof(Side::Client),
            Self::Request(id, parts, body) => Input::Request(*id, (**parts).clone(), body.clone()),
            Self::Gone(id) => Input::Gone(*id),
            Self::Head(id, parts) => Input::Head(*id, (**parts).clone()),
            Self::Chunk(id, chunk) => Input::Chunk(*id, chunk),
            Self::End(id) => Input::End(*id),
            Self::Failed(id, error) => Input::Failed(*id, *error, "in words"),
            Self::Flushed(sink, count) => Input::Flushed(*sink, *count),
            Self::Waiting(why) => Input::Waiting(why),
            Self::Stop => Input::Stop,
            Self::Shutdown => Input::Shutdown,
        }
    }

    /// The same bytes in pieces of these sizes.
    pub fn cut(&self, sizes: &[usize]) -> Vec<Self> {
        let pieces = |bytes: &[u8]| {
            let mut rest = bytes;
            let mut out = Vec::new();
            for size in sizes.iter().cycle().take_while(|_| !bytes.is_empty()) {
                let (piece, tail) = rest.split_at((*size).min(rest.len()));
                out.push(piece.to_vec());
                rest = tail;
                if rest.is_empty() {
                    break;
                }
            }
            out
        };
        match self {
            Self::Bytes(bytes) => pieces(bytes).into_iter().map(Self::Bytes).collect(),
            Self::Chunk(id, chunk) => pieces(chunk).into_iter().map(|piece| Self::Chunk(*id, piece)).collect(),
            other => vec![other.clone()],
        }
    }
}

/// A run.
#[derive(Debug, Clone)]
pub struct Record {
    pub config: Config,
    pub log: Vec<(Time, Fact)>,
    /// What each fact led to.
    pub said: Vec<Vec<String>>,
    /// The same, for those who look inside.
    pub commands: Vec<Vec<Command>>,
    pub seed: u64,
    /// What the client was owed, and what it got.
    pub books: Books,
}

/// An [`Output`] that can be kept.
#[derive(Debug, Clone)]
pub enum Command {
    Write(Bytes),
    Call(CallId, Box<Request<Bytes>>),
    Cancel(CallId),
    Respond(ExchangeId, Box<response::Parts>),
    Send(ExchangeId, Bytes),
    Finish(ExchangeId),
    Abort(ExchangeId),
    Snapshot,
    Note(Blame),
    Exit,
}

impl From<Output> for Command {
    fn from(output: Output) -> Self {
        match output {
            Output::Write(Side::Client, bytes) => Self::Write(bytes),
            Output::Call(id, request) => Self::Call(id, Box::new(request)),
            Output::Cancel(id) => Self::Cancel(id),
            Output::Respond(id, parts) => Self::Respond(id, Box::new(parts)),
            Output::Send(id, bytes) => Self::Send(id, bytes),
            Output::Finish(id) => Self::Finish(id),
            Output::Abort(id) => Self::Abort(id),
            Output::Snapshot(_) => Self::Snapshot,
            Output::Note(note) => Self::Note(note.blame()),
            Output::Exit(_) => Self::Exit,
        }
    }
}

impl Record {
    pub fn new(config: Config, seed: u64) -> Self {
        Self { config, log: Vec::new(), said: Vec::new(), commands: Vec::new(), seed, books: Books::default() }
    }

    pub fn machine(&self) -> Proxy {
        Proxy::new(&self.config, self.seed, Time(0))
    }

    /// Everything said, in order.
    pub fn outputs(&self) -> Vec<String> {
        self.said.concat()
    }

    pub fn lasted(&self) -> u64 {
        self.log.last().map_or(0, |(at, _)| at.0)
    }

    pub fn blamed(&self, blame: Blame) -> usize {
        self.commands.iter().flatten().filter(|command| matches!(command, Command::Note(who) if *who == blame)).count()
    }

    /// The same log, with all bytes in pieces of these sizes.
    pub fn cut(&self, sizes: &[usize]) -> Self {
        let pieces =
            |(at, fact): &(Time, Fact)| fact.cut(sizes).into_iter().map(|piece| (*at, piece)).collect::<Vec<_>>();
        Self { log: self.log.iter().flat_map(pieces).collect(), ..self.clone() }
    }

    pub fn replay(&self) -> Vec<String> {
        self.replay_draining(1)
    }

    pub fn replay_draining(&self, every: usize) -> Vec<String> {
        let mut proxy = self.machine();
        let mut said = Vec::new();
        for (count, (at, fact)) in self.log.iter().enumerate() {
            proxy.handle(*at, fact.input());
            if count % every == 0 {
                said.extend(drain(&mut proxy).into_iter().map(|output| format!("{output:?}")));
            }
        }
        said.extend(drain(&mut proxy).into_iter().map(|output| format!("{output:?}")));
        said
    }

    /// The same log with a tick before every fact whose time is not yet up.
    pub fn replay_with_extra_ticks(&self) -> Vec<String> {
        let mut proxy = self.machine();
        let mut said = Vec::new();
        for (at, fact) in &self.log {
            if proxy.deadline().is_none_or(|deadline| deadline.at > *at) {
                proxy.handle(*at, Input::Tick);
            }
            proxy.handle(*at, fact.input());
            said.extend(drain(&mut proxy).into_iter().map(|output| format!("{output:?}")));
        }
        said
    }

    /// The same log, and again and again facts about calls and exchanges that are
    /// over.
    pub fn replay_with_late_facts(&self) -> Vec<String> {
        let mut proxy = self.machine();
        let mut said = Vec::new();
        let mut late = Vec::new();
        for (at, fact) in &self.log {
            proxy.handle(*at, fact.input());
            if let Fact::Gone(id) = fact {
                late.extend(about_exchange(*id));
            }
            for output in drain(&mut proxy) {
                match &output {
                    Output::Cancel(id) => late.extend(about_call(*id)),
                    Output::Abort(id) => late.extend(about_exchange(*id)),
                    _ => {}
                }
                said.push(format!("{output:?}"));
            }
            late.iter().for_each(|late| proxy.handle(*at, late.input()));
        }
        said.extend(drain(&mut proxy).into_iter().map(|output| format!("{output:?}")));
        said
    }

    /// The run for a reader.
    pub fn show(&self) -> String {
        let mut text = String::new();
        for ((at, fact), said) in self.log.iter().zip(&self.said) {
            writeln!(text, "{:>7} {}", at.0, show(fact)).unwrap();
            for line in said.iter() {
                writeln!(text, "            → {}", &line.chars().take(330).collect::<String>()).unwrap();
            }
        }
        text
    }
}

fn about_call(id: CallId) -> [Fact; 4] {
    let chunk = Fact::Chunk(id, b"data: {}\n\n".to_vec());
    [chunk, head(id, 404, &[]), Fact::End(id), Fact::Failed(id, CallError::Refused)]
}

fn about_exchange(id: ExchangeId) -> [Fact; 2] {
    [Fact::Flushed(Sink::Exchange(id), 7), Fact::Gone(id)]
}

fn show(fact: &Fact) -> String {
    match fact {
        Fact::Bytes(bytes) => format!("client {:?}", String::from_utf8_lossy(bytes)),
        Fact::Chunk(id, bytes) => format!("chunk {} {:?}", id.0, String::from_utf8_lossy(bytes)),
        Fact::Request(id, parts, body) => {
            let last = parts.headers.get("last-event-id");
            format!("exchange {} {} {last:?} {:?}", id.0, parts.method, String::from_utf8_lossy(body))
        }
        Fact::Head(id, parts) => format!("head {} {} {:?}", id.0, parts.status, parts.headers),
        other => format!("{other:?}"),
    }
}

pub fn config(client: ClientKind, transport: Transport) -> Config {
    let mut config = Config::new("http://server.test/mcp").unwrap();
    config.client = client.transport();
    if let ClientTransport::Http(http) = &mut config.client {
        // Servers of both transports are reached in `Auto` too, without this.
        http.challenges = transport == Transport::StreamableHttp;
    }
    config.transport = transport;
    config.max_message = MAX_MESSAGE;
    config.request_timeout = Some(Duration::from_secs(20));
    config
}

pub fn head(id: CallId, status: u16, headers: &[(&str, &str)]) -> Fact {
    let mut response = Response::builder().status(status);
    for (name, value) in headers {
        response = response.header(*name, *value);
    }
    Fact::Head(id, Box::new(response.body(()).unwrap().into_parts().0))
}

pub fn drain(proxy: &mut Proxy) -> Vec<Output> {
    std::iter::from_fn(|| proxy.poll()).collect()
}

/// The call that this output starts.
#[allow(clippy::needless_pass_by_value, reason = "for `find_map` over outputs")]
pub fn called(output: Output) -> Option<CallId> {
    if let Output::Call(id, _) = output { Some(id) } else { None }
}

/// How long a machine of this seed waits before each retry.
pub fn retry_waits(seed: u64) -> Vec<u64> {
    let mut proxy = Proxy::new(&config(ClientKind::Lines, Transport::Auto), seed, Time(0));
    proxy.handle(Time(0), Input::Bytes(Side::Client, b"{\"id\":1,\"method\":\"tools/call\"}\n"));
    let (mut now, mut waits) = (Time(0), Vec::new());
    loop {
        let Some(call) = drain(&mut proxy).into_iter().find_map(called) else { return waits };
        proxy.handle(now, Input::Failed(call, CallError::Refused, ""));
        let Some(deadline) = proxy.deadline() else { return waits };
        waits.push(deadline.at.0 - now.0);
        now = deadline.at;
        proxy.handle(now, Input::Tick);
    }
}
