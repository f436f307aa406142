//! Scripts: what peers, network and clock do, step by step. A step names a live
//! call or response by a number, so that any script can be played and shortened,
//! and played with a client and a server of any transport.

use super::client::Act;
use super::message::{IDS, Line, Method, ODD, Said, VERSIONS};
use mcp_proxy_core::{CallError, KeepAlive, Transport};
use proptest::prelude::*;
use std::time::Duration;

/// What happens, and where.
#[derive(Debug, Clone)]
pub struct Script {
    /// What the machine was told of the server.
    pub transport: Transport,
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
}

#[derive(Debug, Clone)]
pub enum Step {
    /// The client does something.
    Client(Act),
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
    Stop,
    Shutdown,
}

/// Response heads: a status and headers.
pub const HEADS: [(u16, &[(&str, &str)]); 13] = [
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

pub const ENDPOINTS: [&str; 5] = ["/messages?s=1", "/messages?s=2", "?s=3", "https://evil.test/m", "http://["];

const ERRORS: [CallError; 4] = [CallError::Refused, CallError::Reset, CallError::Tls, CallError::Protocol];

/// A script of up to so many steps; most begin with a session.
pub fn script(most: usize) -> impl Strategy<Value = Script> {
    let pulse = KeepAlive::Every(Duration::from_secs(7));
    let keep_alive = prop::sample::select(vec![KeepAlive::Auto, KeepAlive::Auto, pulse]);
    let steps = prop::collection::vec(step(), 1..most);
    let version = prop::sample::select(VERSIONS.to_vec());
    (server(), version, prop::bool::weighted(0.8), keep_alive, steps).prop_map(
        |((server, transport), version, greeted, keep_alive, rest)| {
            let steps = if greeted { greeting().into_iter().chain(rest).collect() } else { rest };
            Script { transport, server, version, keep_alive, steps }
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
    let say = |line| Step::Client(Act::Say(line));
    let initialize = [say(Line::Initialize(0)), serve(0), serve(0), serve(0)];
    let initialized = [say(Line::Initialized), serve(0), serve(1), serve(1)];
    initialize.into_iter().chain(initialized).collect()
}

fn step() -> impl Strategy<Value = Step> {
    let call = || 0_usize..6;
    prop_oneof![
        14 => act().prop_map(Step::Client),
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
        1 => prop_oneof![
            8 => Just(Step::Due),
            2 => Just(Step::Client(Act::Close)),
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
        1 => Just(Act::Listen),
        1 => response().prop_map(Act::Lose),
        1 => response().prop_map(Act::Resume),
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
