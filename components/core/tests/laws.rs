//! The eight laws of ARCHITECTURE.md, each a test by its name, over generated
//! runs: a script of what peers, network and clock do, played against the
//! machine. `law/script` generates and plays, `law/record` is the run as a
//! log, `law/watch` is the reference that a run is held against.

mod law;

use law::record::Fact;
use law::script::{Ending, play, script};
use law::watch::Watch;
use mcp_proxy_core::{Blame, Time, Transport};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{RngSeed, TestRunner};

/// Moderate, so that all laws together take seconds in a debug build. Built
/// with `LAW_CASES=20000` in the environment, they look longer.
fn cases(usual: u32) -> ProptestConfig {
    let cases = option_env!("LAW_CASES").and_then(|text| text.parse().ok()).unwrap_or(usual);
    let rng_seed = RngSeed::Fixed(1);
    ProptestConfig { cases, rng_seed, failure_persistence: None, max_shrink_iters: 4000, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases(200))]

    /// Every request id gets exactly one answer, whatever breaks, in bounded time.
    #[test]
    fn answer_law(script in script(60)) {
        for ending in [Ending::Silence, Ending::Eof] {
            let record = play(&script, ending);
            let watch = Watch::over(&record);
            prop_assert_eq!(watch.unanswered(), Vec::<String>::new(), "\n{}", record.show());
            prop_assert!(record.lasted() < 3_600_000, "took {} ms\n{}", record.lasted(), record.show());
        }
    }

    /// Cutting the same bytes differently gives the same outputs.
    #[test]
    fn chunk_law(script in script(40), cuts in prop::collection::vec(1_usize..40, 1..20)) {
        let record = play(&script, Ending::None);
        let mut cut = record.clone();
        cut.log = record.log.iter().flat_map(|(at, fact)| fact.cut(&cuts).into_iter().map(|piece| (*at, piece))).collect();
        prop_assert_eq!(record.outputs(), cut.replay(), "\n{}", record.show());
    }

    /// Draining after each input or after many gives the same outputs in the same order.
    #[test]
    fn drain_law(script in script(40), every in 2_usize..20) {
        let record = play(&script, Ending::Eof);
        prop_assert_eq!(record.outputs(), record.replay_draining(every), "\n{}", record.show());
    }

    /// Extra ticks before the deadline change nothing; after a tick at the
    /// deadline, the deadline is later or gone.
    #[test]
    fn tick_law(script in script(40), late in prop_oneof![0_u64..1000, 30_000_u64..100_000]) {
        let record = play(&script, Ending::None);
        prop_assert_eq!(record.outputs(), record.replay_with_extra_ticks(), "\n{}", record.show());
        let mut proxy = record.machine();
        for (at, fact) in &record.log {
            proxy.handle(*at, fact.input());
            let Some(deadline) = proxy.deadline() else { continue };
            if deadline.at <= *at && matches!(fact, Fact::Tick) {
                prop_assert!(false, "after a tick at {at:?}: {deadline:?}\n{}", record.show());
            }
        }
        for _ in 0..50 {
            let Some(deadline) = proxy.deadline() else { break };
            let now = Time(deadline.at.0.saturating_add(late).max(record.lasted()));
            proxy.handle(now, Fact::Tick.input());
            let next = proxy.deadline();
            prop_assert!(next.is_none_or(|next| next.at > now), "tick at {now:?} for {deadline:?}: {next:?}\n{}", record.show());
        }
    }

    /// Same config, seed and log → same outputs, byte for byte.
    #[test]
    fn replay_law(script in script(40)) {
        let record = play(&script, Ending::Eof);
        prop_assert_eq!(record.outputs(), record.replay(), "\n{}", record.show());
    }

    /// The same, from the text that the flight recorder makes of the run.
    #[test]
    fn replay_law_holds_through_a_recording(steps in script(40)) {
        let record = play(&steps, Ending::Eof);
        prop_assert_eq!(record.outputs_redacted(), record.replay_recorded(), "\n{}", record.show());
    }

    /// Nothing after `Exit`, nothing for a call after its `Cancel`, nothing to a
    /// client that is gone, only whole JSON-RPC lines, never `id: null`; and
    /// facts about a call that is over change nothing.
    #[test]
    fn silence_law(script in script(60)) {
        let record = play(&script, Ending::Eof);
        let watch = Watch::over(&record);
        prop_assert_eq!(watch.noise(), Vec::<String>::new(), "\n{}", record.show());
        prop_assert_eq!(record.blamed(Blame::Bug), 0, "\n{}", record.show());
        prop_assert_eq!(record.outputs(), record.replay_with_late_facts(), "\n{}", record.show());
    }

    /// Held bytes and table sizes never exceed the limits; over a limit the
    /// asker gets an error and the session lives.
    #[test]
    fn bound_law(script in script(60)) {
        let record = play(&script, Ending::Eof);
        let watch = Watch::over(&record);
        prop_assert_eq!(watch.overlong(), Vec::<String>::new(), "\n{}", record.show());
    }

    /// A request whose outcome is unknown is never sent twice, unless its
    /// method is replay-safe.
    #[test]
    fn once_law(script in script(60)) {
        let record = play(&script, Ending::Eof);
        let watch = Watch::over(&record);
        prop_assert_eq!(watch.repeated(), Vec::<String>::new(), "\n{}", record.show());
    }
}

/// The other half of the bound law: one peer pours, stdout stands still.
#[test]
fn bound_law_holds_in_a_flood() {
    for transport in [Transport::StreamableHttp, Transport::Sse] {
        for flood in law::flood::FLOODS {
            let stalled = flood.pour(transport);
            assert!(stalled.unwritten <= law::flood::BOUND, "{} bytes unwritten by {flood:?}", stalled.unwritten);
            assert!(stalled.session_lives, "the session died of {flood:?}");
        }
    }
}

/// And once more: the client pours, and nobody says where to.
#[test]
fn bound_law_holds_before_there_is_an_endpoint() {
    let poured = law::flood::pour_before_an_endpoint();
    assert!(poured <= law::flood::BOUND, "{poured} bytes taken");
}

/// The jitter of seed 42, written down: it is the same on every target.
#[test]
fn replay_law_holds_across_targets() {
    let waits = law::record::retry_waits(42);
    assert_eq!(waits, [105, 200, 400]);
}

/// What the laws are worth: sessions of both transports come about in the
/// scripts, and HTTP+SSE is found out by a refusal.
#[test]
fn scripts_open_sessions_of_both_transports() {
    let mut runner = TestRunner::deterministic();
    let records = (0..300).map(|_| play(&script(40).new_tree(&mut runner).unwrap().current(), Ending::Eof));
    let said: Vec<String> = records.map(|record| record.outputs().join("\n")).collect();
    let count = |words: &str| said.iter().filter(|said| said.contains(words)).count();
    let counts = ["SessionOpened { transport: StreamableHttp", "SessionOpened { transport: Sse", "SseTried"].map(count);
    assert!(counts.iter().all(|count| *count >= 50), "{counts:?}");
}
