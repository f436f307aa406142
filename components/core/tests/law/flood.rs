//! One peer that floods the machine while stdout stands still, as far as the
//! machine wants to read.

use super::record::{called, drain, head};
use mcp_proxy_core::{CallId, Config, Input, Output, Proxy, Side, Sink, Source, Time, Transport};

/// The longest message while the flood lasts.
const MAX_MESSAGE: usize = 64 << 10;
/// What may be held toward the client: a mark of 1 MiB, slack of 1 MiB, and
/// what one input more may add.
pub const BOUND: usize = (3 << 20) + 2 * MAX_MESSAGE;

/// How much pours at most.
const SEA: usize = 20 << 20;
const LAKE: usize = 2 << 20;

/// What pours in, again and again.
#[derive(Debug, Clone, Copy)]
pub enum Flood {
    Notifications,
    Questions,
    Duplicates,
    LongLines,
    LongEvents,
    EmptyData,
}

pub const FLOODS: [Flood; 6] =
    [Flood::Notifications, Flood::Questions, Flood::Duplicates, Flood::LongLines, Flood::LongEvents, Flood::EmptyData];

/// Where it led.
pub struct Stalled {
    pub unwritten: usize,
    pub session_lives: bool,
}

impl Flood {
    /// Pours until the machine wants no more, or enough has been seen.
    pub fn pour(self, transport: Transport) -> Stalled {
        let mut proxy = machine(transport);
        let stream = open(&mut proxy, transport);
        let piece = self.piece();
        let (mut unwritten, mut poured) = (0, 0);
        while poured < self.most() && unwritten <= BOUND && proxy.wants(self.source(stream)) {
            match self.source(stream) {
                Source::Side(side) => proxy.handle(Time(1), Input::Bytes(side, &piece)),
                Source::Call(call) => proxy.handle(Time(1), Input::Chunk(call, &piece)),
            }
            poured += piece.len();
            unwritten += drain(&mut proxy).iter().map(written).sum::<usize>();
        }
        proxy.handle(Time(2), Input::Flushed(Sink::Side(Side::Client), unwritten));
        proxy.handle(Time(2), Input::Bytes(Side::Client, b"{\"id\":\"after\",\"method\":\"tools/list\"}\n"));
        let session_lives = drain(&mut proxy).iter().any(|output| matches!(output, Output::Call(..)));
        Stalled { unwritten, session_lives }
    }

    /// What is never written need not pour for long.
    fn most(self) -> usize {
        match self {
            Self::Notifications | Self::Questions | Self::Duplicates => SEA,
            Self::LongLines | Self::LongEvents | Self::EmptyData => LAKE,
        }
    }

    fn source(self, stream: CallId) -> Source {
        match self {
            Self::Duplicates | Self::LongLines => Source::Side(Side::Client),
            Self::Notifications | Self::Questions | Self::LongEvents | Self::EmptyData => Source::Call(stream),
        }
    }

    fn piece(self) -> Vec<u8> {
        let filler = "x".repeat(MAX_MESSAGE - 100);
        let text = match self {
            Self::Notifications => format!("data: {{\"method\":\"{filler}\"}}\n\n"),
            Self::Questions => format!("data: {{\"id\":\"{filler}\",\"method\":\"q\"}}\n\n"),
            Self::Duplicates => format!("{{\"id\":\"{filler}\",\"method\":\"q\"}}\n"),
            Self::LongLines => format!("{{\"id\":1,\"method\":\"q\",\"params\":\"{filler}{filler}\"}}\n"),
            Self::LongEvents => format!("data: {filler}{filler}\n\n"),
            Self::EmptyData => "data:\n".repeat(MAX_MESSAGE / 6),
        };
        text.into_bytes()
    }
}

/// How much a client can pour into a machine that waits for an endpoint.
pub fn pour_before_an_endpoint() -> usize {
    let mut proxy = machine(Transport::Sse);
    let filler = "x".repeat(MAX_MESSAGE - 100);
    let mut poured = 0;
    while poured < 2 * BOUND && proxy.wants(Source::Side(Side::Client)) {
        let line = format!("{{\"id\":{poured},\"method\":\"tools/call\",\"params\":\"{filler}\"}}\n");
        proxy.handle(Time(1), Input::Bytes(Side::Client, line.as_bytes()));
        poured += line.len();
        drain(&mut proxy);
    }
    poured
}

fn machine(transport: Transport) -> Proxy {
    let mut config = Config::new("http://server.test/mcp").unwrap();
    (config.max_message, config.transport) = (MAX_MESSAGE, transport);
    Proxy::new(&config, 1, Time(0))
}

/// Opens an event stream: of a request, or that of an HTTP+SSE session.
fn open(proxy: &mut Proxy, transport: Transport) -> CallId {
    proxy.handle(Time(0), Input::Bytes(Side::Client, b"{\"id\":0,\"method\":\"tools/call\"}\n"));
    let call = drain(proxy).into_iter().find_map(called).unwrap();
    proxy.handle(Time(0), head(call, 200, &[("content-type", "text/event-stream")]).input());
    if transport == Transport::Sse {
        proxy.handle(Time(0), Input::Chunk(call, b"event: endpoint\ndata: /messages\n\n"));
    }
    call
}

fn written(output: &Output) -> usize {
    if let Output::Write(_, bytes) = output { bytes.len() } else { 0 }
}
