//! The bound law of ARCHITECTURE.md, by counting what the machine holds. The
//! allocator counts the bytes of the whole process, so this file is a process of
//! its own, and its tests take turns.

mod law;

use law::client::{Act, ClientKind};
use law::flood::{FLOODS, Flood};
use law::message::{Line, Method, Said};
use law::record::{Record, drain};
use law::script::{Script, Server, Step, script};
use law::stage::play_rounds;
use mcp_proxy_core::{Era, KeepAlive, Transport};
use peak_alloc::PeakAlloc;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use std::sync::{Mutex, MutexGuard, PoisonError};

#[global_allocator]
static BYTES: PeakAlloc = PeakAlloc;

/// Numbers of more digits, in ids and headers.
const DIGITS: usize = 256;

/// How often a script is played in one session. Within the first third, what is kept
/// for a client that may come back has reached its limits.
const ROUNDS: usize = 30;

/// Held while bytes are counted.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How many bytes a machine holds at these places of a log.
fn held(record: &Record, places: &[usize]) -> Vec<usize> {
    let mut held = Vec::with_capacity(places.len());
    let before = BYTES.current_usage();
    let mut proxy = record.machine();
    for (count, (at, fact)) in (1..).zip(&record.log) {
        proxy.handle(*at, fact.input());
        drop(drain(&mut proxy));
        if places.contains(&count) {
            held.push(BYTES.current_usage().saturating_sub(before));
        }
    }
    held
}

/// Whether the machine holds more and more: each third of the rounds more than the
/// third before it. A step up and no further is room that a table keeps.
fn grows(held: &[usize]) -> bool {
    let thirds: Vec<&[usize]> = held.chunks(ROUNDS / 3).collect();
    let [first, second, third] = thirds.as_slice() else { return false };
    let least = |third: &[usize]| third.iter().copied().min().unwrap_or_default();
    let most = |third: &[usize]| third.iter().copied().max().unwrap_or_default();
    least(second) > most(first) && least(third) > most(second) && least(third) > most(first) + DIGITS
}

/// Whatever peers, network and clock do: once it is over, the machine holds no
/// more than before, in buffers and in tables.
#[test]
fn bound_law() {
    let _turn = alone();
    let mut runner = TestRunner::deterministic();
    let mut lived = [0; 3];
    for _ in 0..40 {
        let script = script(40).new_tree(&mut runner).unwrap().current();
        for (client, lived) in ClientKind::ALL.into_iter().zip(&mut lived) {
            let (record, ends) = play_rounds(client, &script, ROUNDS);
            let held = held(&record, &ends);
            assert!(!grows(&held), "{client:?}, {script:?}\nbytes after each round: {held:?}");
            *lived += usize::from(ends.len() == ROUNDS);
        }
    }
    assert!(lived.iter().all(|lived| *lived >= 15), "so many sessions lived through all rounds: {lived:?}");
}

/// One peer pours and the client does not read. The machine and what it has given
/// to the shell stay within the limits, and the session lives.
#[test]
fn bound_law_holds_in_a_flood() {
    let _turn = alone();
    for client in ClientKind::SESSIONS {
        for server in [Server::Streamable, Server::Sse, Server::Modern] {
            for flood in FLOODS {
                let poured = flood.pour(client, server, || BYTES.current_usage());
                assert!(poured.held <= flood.bound(), "{client:?}, {server:?}, {flood:?}: {poured:?}");
                assert!(poured.session_lives, "{client:?}, {server:?}: the session died of {flood:?}");
            }
        }
    }
}

/// The client pours, and nobody says where to.
#[test]
fn bound_law_holds_before_there_is_an_endpoint() {
    let _turn = alone();
    for client in ClientKind::SESSIONS {
        for flood in [Flood::LargeRequests, Flood::SmallRequests] {
            let held = flood.pour_before_an_endpoint(client, || BYTES.current_usage());
            assert!(held <= flood.bound(), "{client:?}, {flood:?}: {held} bytes");
        }
    }
}

/// A request that the server refuses until the client has opened a URL may come again, for
/// ten minutes. After that, nothing of it is left.
#[test]
fn bound_law_holds_for_requests_that_never_come_again() {
    let _turn = alone();
    let call = Step::Client(Act::Say(Line::Modern(1, Method::Call)));
    let serve = [Step::Serve(0, false), Step::Serve(0, false), Step::Serve(0, false)];
    let refuse = [Step::Question(1, Said::Urls), Step::Wait(600_000)];
    let steps = [call].into_iter().chain(serve).chain(refuse).collect();
    let (transport, era, keep_alive) = (Transport::StreamableHttp, Era::Legacy, KeepAlive::Off);
    let script = Script { transport, era, server: Server::Streamable, version: "2025-11-25", keep_alive, steps };
    for client in [ClientKind::Lines, ClientKind::Modern] {
        let (record, ends) = play_rounds(client, &script, ROUNDS);
        let held = held(&record, &ends);
        assert_eq!(held.len(), ROUNDS);
        assert!(!grows(&held), "{client:?}: bytes after each round: {held:?}");
    }
}
