//! Scripts: what peers, network and clock do, step by step. A step names a live
//! call or response by a number, so that any script can be played and shortened,
//! and played with a client and a server of any transport.

use super::client::Act;
use super::message::{ASKS, IDS, Line, MODERN, Method, ODD, Said, Twist, VERSIONS};
use mcp_proxy_core::{CallError, Era, KeepAlive, Transport};
use proptest::prelude::*;
use std::time::Duration;

/// What happens, and where.
#[derive(Debug, Clone)]
pub struct Script {
    /// What the machine was told of the server.
    pub transport: Transport,
    pub era: Era,
    pub server: Server,
    /// The protocol version that the server speaks.
    pub version: &'static str,
    pub keep_alive: KeepAlive,
    pub steps: Vec<Step>,
}

/// What a good server does with a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Server {
    Streamable,
    /// HTTP+SSE.
    Sse,
    /// 2026-07-28.
    Modern,
}

#[derive(Debug, Clone)]
pub enum Step {
    /// The client does something.
    Client(Act),
    /// The server does what a good server does with a call, by JSON or SSE.
    Serve(usize, bool),
    /// The server answers a call with this status and message.
    Reply(usize, usize, Said),
    /// A modern server answers a call of a tool by asking this.
    Ask(usize, usize),
    /// A legacy server asks this while it works on a call of a tool.
    Question(usize, Said),
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
    Waiting(&'static str),
    Stop,
    Shutdown,
}

/// Response heads: a status and headers.
pub const HEADS: [(u16, &[(&str, &str)]); 14] = [
    (200, &[("content-type", "text/event-stream")]),
    (200, &[("content-type", "text/event-stream"), ("mcp-session-id", "s")]),
    (200, &[("content-type", "application/json")]),
    (200, &[("content-type", "text/html")]),
    (202, &[]),
    (307, &[("location", "/other")]),
    (308, &[("location", "https://evil.test/")]),
    (400, &[]),
    (401, &[("www-authenticate", "Bearer")]),
    (404, &[]),
    (405, &[]),
    (429, &[("retry-after", "1")]),
    (503, &[("retry-after", "2")]),
    (500, &[]),
];

/// Statuses of answers.
pub const STATUSES: [u16; 6] = [200, 200, 200, 400, 404, 500];

pub const ENDPOINTS: [&str; 5] = ["/messages?s=1", "/messages?s=2", "?s=3", "https://evil.test/m", "http://["];

const ERRORS: [CallError; 4] = [CallError::Refused, CallError::Reset, CallError::Tls, CallError::Protocol];

/// A script of up to so many steps; most begin with a session.
pub fn script(most: usize) -> impl Strategy<Value = Script> {
    let pulse = KeepAlive::Every(Duration::from_secs(7));
    let keep_alive = prop::sample::select(vec![KeepAlive::Auto, KeepAlive::Auto, pulse]);
    let steps = prop::collection::vec(step(), 1..most);
    let version = prop::sample::select(VERSIONS.to_vec());
    let who = (prop::bool::weighted(0.8), prop::bool::weighted(0.4));
    (server(), version, who, keep_alive, (round(), park()), steps).prop_map(
        |((server, transport, era), version, (greeted, modern), keep_alive, (round, park), rest)| {
            let version = if server == Server::Modern { MODERN } else { version };
            let greeting = if modern { modern_greeting() } else { greeting() };
            let round = match (server, modern) {
                (Server::Modern, _) => round,
                (Server::Streamable | Server::Sse, true) => park,
                (Server::Streamable | Server::Sse, false) => Vec::new(),
            };
            let greeting = if greeted { greeting } else { Vec::new() };
            let steps = greeting.into_iter().chain(round).chain(rest).enumerate();
            let steps = steps.map(|(at, step)| if modern { modernised(at, step) } else { step }).collect();
            Script { transport, era, server, version, keep_alive, steps }
        },
    )
}

/// What a modern client says in place of most requests of a legacy one.
fn modernised(at: usize, step: Step) -> Step {
    match step {
        Step::Client(Act::Say(Line::Request(id, method))) if !at.is_multiple_of(8) => {
            Step::Client(Act::Say(Line::Modern(id, method)))
        }
        Step::Client(Act::Say(Line::Initialize(id))) if !at.is_multiple_of(4) => {
            Step::Client(Act::Say(Line::Modern(id, Method::Discover)))
        }
        other => other,
    }
}

/// A server, and what is known of it; now and then, what is known is wrong.
fn server() -> impl Strategy<Value = (Server, Transport, Era)> {
    let legacy = prop_oneof![
        4 => Just((Server::Streamable, Transport::Auto)),
        1 => Just((Server::Streamable, Transport::StreamableHttp)),
        3 => Just((Server::Sse, Transport::Auto)),
        3 => Just((Server::Sse, Transport::Sse)),
        1 => Just((Server::Streamable, Transport::Sse)),
    ];
    let modern = prop_oneof![
        6 => Just((Transport::Auto, Era::Auto)),
        1 => Just((Transport::StreamableHttp, Era::Auto)),
        1 => Just((Transport::Auto, Era::Modern)),
        1 => Just((Transport::Auto, Era::Legacy)),
    ];
    prop_oneof![
        3 => (legacy, prop::sample::select(vec![Era::Auto, Era::Auto, Era::Legacy]))
            .prop_map(|((server, transport), era)| (server, transport, era)),
        2 => modern.prop_map(|(transport, era)| (Server::Modern, transport, era)),
    ]
}

/// Opens a session with any server: the first call may be a probe, with HTTP+SSE
/// the next may be refused, then comes the stream, and then the messages.
fn greeting() -> Vec<Step> {
    let serve = |call| Step::Serve(call, false);
    let say = |line| Step::Client(Act::Say(line));
    let initialize = [say(Line::Initialize(0)), serve(0), serve(0), serve(0), serve(0)];
    let initialized = [say(Line::Initialized), serve(0), serve(1), serve(1)];
    initialize.into_iter().chain(initialized).collect()
}

/// The first call of a modern client, and the session that the proxy opens for it.
fn modern_greeting() -> Vec<Step> {
    let serve = |call| Step::Serve(call, false);
    let call = Step::Client(Act::Say(Line::Modern(0, Method::Call)));
    [call, serve(0), serve(0), serve(0), serve(0), serve(1), serve(1)].into()
}

/// A legacy server asks while it works on a call, until the call is parked, and the client
/// repeats it, or does something else.
fn park() -> impl Strategy<Value = Vec<Step>> {
    let call = prop_oneof![8 => Just(Line::Modern(1, Method::Call)), 1 => Just(Line::Unable(1))];
    let next = || {
        prop_oneof![
            3 => retry().prop_map(Step::Client),
            1 => (0_usize..3, any::<bool>()).prop_map(|(call, sse)| Step::Serve(call, sse)),
            1 => step(),
        ]
    };
    let asked = (prop::bool::weighted(0.8), call);
    (asked, prop::collection::vec(question(), 1..3), prop::collection::vec(next(), 0..6)).prop_map(
        move |((asked, call), questions, next)| {
            let questions = questions.into_iter().map(|asks| Step::Question(0, asks));
            let call = Step::Client(Act::Say(call));
            let asked = [call].into_iter().chain(questions).chain([Step::Wait(50)]).filter(|_| asked);
            asked.chain(next).collect()
        },
    )
}

/// A modern server answers a call by asking, and the client answers, or does
/// something else.
fn round() -> impl Strategy<Value = Vec<Step>> {
    let call = || Step::Client(Act::Say(Line::Request(1, Method::Call)));
    let reply = || {
        prop_oneof![
            3 => Just(Step::Client(Act::Answer(true))),
            1 => retry().prop_map(Step::Client),
            1 => step(),
        ]
    };
    let round = move |asks| vec![call(), Step::Ask(0, asks)];
    let replies = prop::collection::vec(reply(), 0..4);
    (0..ASKS.len(), any::<bool>(), replies).prop_map(move |(asks, asked, replies)| {
        let asked = if asked { round(asks) } else { Vec::new() };
        asked.into_iter().chain(replies).collect()
    })
}

fn step() -> impl Strategy<Value = Step> {
    let call = || 0_usize..6;
    prop_oneof![
        14 => act().prop_map(Step::Client),
        8 => (call(), any::<bool>()).prop_map(|(call, sse)| Step::Serve(call, sse)),
        6 => (call(), 0..STATUSES.len(), server_message())
            .prop_map(|(call, status, said)| Step::Reply(call, status, said)),
        6 => (call(), 0..ASKS.len()).prop_map(|(call, asks)| Step::Ask(call, asks)),
        6 => (call(), question()).prop_map(|(call, asks)| Step::Question(call, asks)),
        6 => (call(), 0..HEADS.len()).prop_map(|(call, head)| Step::Head(call, head)),
        2 => (call(), 0..ENDPOINTS.len()).prop_map(|(call, endpoint)| Step::Endpoint(call, endpoint)),
        6 => (call(), prop::collection::vec(server_message(), 1..4)).prop_map(|(call, said)| Step::Events(call, said)),
        3 => (call(), any::<bool>()).prop_map(|(call, retry)| Step::Cursor(call, retry)),
        2 => call().prop_map(Step::Partial),
        4 => call().prop_map(Step::End),
        4 => (call(), prop::sample::select(ERRORS.to_vec())).prop_map(|(call, error)| Step::Fail(call, error)),
        3 => (1_u64..3000).prop_map(Step::Wait),
        4 => Just(Step::Due),
        1 => prop_oneof![
            8 => Just(Step::Due),
            2 => Just(Step::Client(Act::Close)),
            1 => Just(Step::Waiting("waiting for a person")),
            1 => Just(Step::Waiting("")),
            1 => Just(Step::Stop),
            1 => Just(Step::Shutdown),
        ],
    ]
}

fn act() -> impl Strategy<Value = Act> {
    let response = || 0_usize..4;
    prop_oneof![
        10 => client_line().prop_map(Act::Say),
        3 => response().prop_map(Act::Read),
        4 => prop::bool::weighted(0.8).prop_map(Act::Answer),
        1 => Just(Act::Listen),
        1 => response().prop_map(Act::Lose),
        1 => response().prop_map(Act::Resume),
        4 => retry(),
    ]
}

/// Most repeat the last request that was answered by questions, under an id that is free.
fn retry() -> impl Strategy<Value = Act> {
    let which = prop_oneof![4 => Just(0_usize), 1 => 0_usize..4];
    let twists = [Twist::Partly, Twist::Bare, Twist::Altered, Twist::Other];
    let twist = prop_oneof![4 => Just(Twist::Whole), 2 => prop::sample::select(twists.to_vec())];
    (which, 0..IDS.len(), twist).prop_map(|(which, id, twist)| Act::Retry(which, id, twist))
}

fn question() -> impl Strategy<Value = Said> {
    let id = || 0..IDS.len();
    prop_oneof![
        3 => id().prop_map(Said::Elicit),
        1 => id().prop_map(Said::Ask),
        1 => id().prop_map(Said::Roots),
        1 => id().prop_map(Said::Visit),
        1 => Just(Said::Urls),
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
        1 => id().prop_map(|id| Line::Request(id, Method::Unsubscribe)),
        1 => id().prop_map(|id| Line::Request(id, Method::Ping)),
        1 => id().prop_map(|id| Line::Modern(id, Method::Call)),
        1 => id().prop_map(|id| Line::Modern(id, Method::List)),
        1 => id().prop_map(|id| Line::Modern(id, Method::Discover)),
        1 => id().prop_map(Line::Unable),
        1 => id().prop_map(Line::Watch),
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
        1 => id().prop_map(Said::Elicit),
        1 => id().prop_map(Said::Roots),
        1 => Just(Said::Urls),
        1 => (0_usize..3).prop_map(Said::Updated),
        1 => id().prop_map(Said::CancelAsk),
        2 => (0..ODD.len()).prop_map(Said::Odd),
        1 => (0..ASKS.len()).prop_map(Said::Input),
        1 => Just(Said::Task),
        1 => Just(Said::Mismatch),
        1 => Just(Said::Unsupported),
        2 => Just(Said::Acknowledged),
        1 => Just(Said::Changed),
        1 => Just(Said::Garbage),
        1 => Just(Said::Long),
    ]
}
