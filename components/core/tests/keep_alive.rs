//! Signs of life: pings under the idle cut-off of the path, streams that are
//! dead without a word, sessions that are opened again, and clocks that jump.

mod common;

use common::sse::{endpoint, open_with};
use common::*;
use mcp_proxy_core::{CallId, Config, KeepAlive, Note, Why};
use std::time::Duration;

fn handshake(bench: &mut Bench, stream: CallId, initialize: &str) {
    endpoint(bench, stream, "/m");
    let call = bench.called(initialize);
    bench.accept(call);
    let id = bench.rpc_id(call);
    bench.event(stream, &initialize_result(&id, "2024-11-05"));
}

/// The machine opens the session again after about `wait`; returns the stream.
fn reopens(bench: &mut Bench, wait: u64) -> CallId {
    let (waited, why) = bench.wait_for_deadline();
    assert!((wait..=wait + wait / 10).contains(&waited) && why == Why::Reopen, "{waited} {why:?}");
    bench.called("GET")
}

fn reopened(bench: &mut Bench, stream: CallId) {
    handshake(bench, stream, "POST initialize ours");
    let initialized = bench.called("POST notifications/initialized");
    bench.accept(initialized);
    bench.silent();
}

#[test]
fn without_a_cut_nothing_is_asked() {
    let (mut bench, _) = open_with(|_| {});
    assert_eq!(bench.deadline(), None);
    bench.wait(3_600_000);
    bench.silent();
}

#[test]
fn the_tick_that_opens_a_session_asks_for_the_sign_of_life_that_is_due() {
    let mut bench = Bench::with(|config| config.keep_alive = KeepAlive::Every(Duration::from_secs(3)));
    bench.say(INITIALIZE);
    let call = bench.called("POST initialize 0");
    bench.opened(call, "0", "s1", "2025-11-25");
    bench.say(INITIALIZED);
    bench.called("POST notifications/initialized");
    bench.wait_for_deadline();
    bench.called("GET");
    bench.called("POST ping ours");
    assert!(bench.deadline().is_some_and(|deadline| deadline.at.0 > bench.now), "{:?}", bench.deadline());
    bench.silent();
}

#[test]
fn an_idle_cut_is_learnt_and_then_avoided() {
    let (mut bench, stream) = open_with(|_| {});
    bench.wait(60_000);
    bench.end(stream);
    let stream = reopens(&mut bench, 1_000);
    reopened(&mut bench, stream);
    let opened = bench.now;
    let (_, why) = bench.wait_for_deadline();
    assert_eq!((bench.now - opened, why), (40_000, Why::KeepAlive));
    let ping = bench.called("POST ping ours");
    bench.accept(ping);
    let id = bench.rpc_id(ping);
    bench.event(stream, &result(&id));
    bench.silent();
    assert_eq!(bench.noted(|note| *note == Note::LateAnswer), 0);
    assert_eq!(bench.wait_for_deadline(), (40_000, Why::KeepAlive));
    bench.called("POST ping ours");
}

#[test]
fn a_fixed_pulse_counts_from_the_last_word_of_the_server() {
    let (mut bench, stream) = open_with(|config| config.keep_alive = KeepAlive::Every(Duration::from_secs(20)));
    bench.wait(15_000);
    bench.chunk(stream, ": still here\n\n");
    assert_eq!(bench.wait_for_deadline(), (20_000, Why::KeepAlive));
    bench.called("POST ping ours");
    bench.silent();
}

#[test]
fn a_server_that_does_not_know_ping_is_alive_all_the_same() {
    let (mut bench, stream) = open_with(|config| config.keep_alive = KeepAlive::Every(Duration::from_secs(20)));
    bench.wait(20_000);
    let ping = bench.called("POST ping ours");
    bench.accept(ping);
    bench.chunk(stream, ": still here\n\n");
    bench.wait(30_000);
    assert_eq!(bench.called_any(), "POST ping ours");
    bench.silent();
}

#[test]
fn a_stream_that_says_nothing_to_a_ping_is_dead_and_replaced() {
    let (mut bench, stream) = open_with(|config| config.keep_alive = KeepAlive::Every(Duration::from_secs(60)));
    let call = bench.calls("1");
    bench.accept(call);
    bench.wait(60_000);
    let ping = bench.called("POST ping ours");
    bench.wait(30_000);
    bench.cancelled(ping);
    bench.cancelled(stream);
    bench.error_delivered("1", "maybe");
    bench.silent();
    let stream = reopens(&mut bench, 1_000);
    reopened(&mut bench, stream);
}

#[test]
fn a_streamable_session_is_pinged_only_when_asked_for() {
    let mut bench = Bench::open();
    bench.wait(3_600_000);
    bench.silent();
    let mut bench = Bench::open_with(|config| config.keep_alive = KeepAlive::Every(Duration::from_secs(25)));
    assert_eq!(bench.wait_for_deadline(), (25_000, Why::KeepAlive));
    let ping = bench.called("POST ping ours");
    let id = bench.rpc_id(ping);
    bench.json(ping, &result(&id));
    bench.silent();
}

#[test]
fn nothing_is_asked_when_the_client_has_left_or_there_is_no_session() {
    let every = |config: &mut Config| config.keep_alive = KeepAlive::Every(Duration::from_secs(1));
    let bench = Bench::with(every);
    assert_eq!(bench.deadline(), None);
    let (mut bench, stream) = open_with(every);
    bench.say(&tool("1"));
    bench.called("POST tools/call 1");
    bench.eof();
    bench.wait(4_000);
    bench.silent();
    bench.event(stream, &result("1"));
    bench.wrote(&result("1"));
}

#[test]
fn a_session_that_ends_again_and_again_is_opened_ever_more_slowly_and_then_on_demand() {
    let (mut bench, mut stream) = open_with(|_| {});
    for wait in [1_000, 2_000, 4_000, 8_000, 16_000, 30_000] {
        bench.end(stream);
        stream = reopens(&mut bench, wait);
        reopened(&mut bench, stream);
    }
    bench.end(stream);
    assert_eq!(bench.deadline(), None);
    bench.silent();
    bench.say(&tool("1"));
    let stream = bench.called("GET");
    handshake(&mut bench, stream, "POST initialize ours");
}

#[test]
fn a_session_that_lasted_is_opened_again_at_once() {
    let (mut bench, mut stream) = open_with(|config| config.keep_alive = KeepAlive::Off);
    for _ in 0..20 {
        bench.wait(60_000);
        bench.end(stream);
        stream = reopens(&mut bench, 1_000);
        reopened(&mut bench, stream);
    }
}

#[test]
fn a_server_that_is_gone_is_knocked_at_a_bounded_number_of_times() {
    let (mut bench, stream) = open_with(|_| {});
    bench.end(stream);
    let mut knocks = 0;
    while bench.deadline().is_some() {
        bench.wait_for_deadline();
        for call in bench.started() {
            knocks += 1;
            bench.fail(call, mcp_proxy_core::CallError::Refused);
        }
    }
    assert_eq!(knocks, 6 * 4);
    bench.silent();
}

#[test]
fn after_a_sleep_of_the_machine_nobody_is_blamed_and_streams_are_looked_after() {
    let (mut bench, stream) = open_with(|_| {});
    let call = bench.calls("1");
    bench.accept(call);
    bench.now += 8 * 3_600_000;
    bench.fact(mcp_proxy_core::Input::Tick);
    bench.called("POST ping ours");
    bench.silent();
    bench.event(stream, &result("1"));
    bench.wrote(&result("1"));
    bench.silent();
}

#[test]
fn after_a_sleep_of_the_machine_the_listening_stream_is_opened_again() {
    let (mut bench, listen) = Bench::listening();
    bench.chunk(listen, "id: e7\ndata: \n\n");
    bench.say(&tool("1"));
    bench.called("POST tools/call 1");
    bench.now += 3_600_000;
    bench.fact(mcp_proxy_core::Input::Tick);
    bench.cancelled(listen);
    let again = bench.called("GET");
    assert_eq!(bench.header(again, "last-event-id"), Some("e7"));
    bench.called("POST ping ours");
    bench.silent();
}
