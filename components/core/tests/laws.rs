//! The laws of ARCHITECTURE.md, each a test by its name, over generated runs: a
//! script of what peers, network and clock do, played against the machine once
//! with each client transport. `law/script` generates, `law/stage` plays,
//! `law/record` is the run as a log. `law/client` and `law/watch` are the
//! reference that a run is held against, for the client and for the server. The
//! bound law counts bytes and is in a process of its own, `bound.rs`.

mod law;

use law::record::{Fact, Record};
use law::script::script;
use law::stage::{Ending, play};
use law::watch::Watch;
use mcp_proxy_core::{Blame, Input, Proxy, Time};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{RngSeed, TestRunner};

/// Moderate, so that all laws together take seconds in a debug build. Built
/// with `LAW_CASES=20000` in the environment, they look longer, and with `LAW_SEED=2`
/// elsewhere.
fn cases(usual: u32) -> ProptestConfig {
    let cases = option_env!("LAW_CASES").and_then(|text| text.parse().ok()).unwrap_or(usual);
    let rng_seed = RngSeed::Fixed(option_env!("LAW_SEED").and_then(|text| text.parse().ok()).unwrap_or(1));
    ProptestConfig { cases, rng_seed, failure_persistence: None, max_shrink_iters: 4000, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases(300))]

    /// Every request gets exactly one answer, whatever breaks, in bounded time.
    #[test]
    fn answer_law(script in script(60)) {
        for record in [play(&script, Ending::Silence), play(&script, Ending::Close)].concat() {
            prop_assert_eq!(record.books.faults(), Vec::<String>::new(), "\n{}", record.show());
        }
    }

    /// Cutting the same bytes differently gives the same outputs.
    #[test]
    fn chunk_law(script in script(40), cuts in prop::collection::vec(1_usize..40, 1..20)) {
        for record in play(&script, Ending::None) {
            prop_assert_eq!(record.outputs(), record.cut(&cuts).replay(), "\n{}", record.show());
        }
    }

    /// Draining after each input or after many gives the same outputs in the same order.
    #[test]
    fn drain_law(script in script(40), every in 2_usize..20) {
        for record in play(&script, Ending::Close) {
            prop_assert_eq!(record.outputs(), record.replay_draining(every), "\n{}", record.show());
        }
    }

    /// Extra ticks before the deadline change nothing; after a tick at the
    /// deadline, the deadline is later or gone.
    #[test]
    fn tick_law(script in script(40), late in prop_oneof![0_u64..1000, 30_000_u64..100_000]) {
        for record in play(&script, Ending::None) {
            prop_assert_eq!(record.outputs(), record.replay_with_extra_ticks(), "\n{}", record.show());
            prop_assert_eq!(stuck_deadlines(&record, late), Vec::<String>::new(), "\n{}", record.show());
        }
    }

    /// Same config, seed and log → same outputs, byte for byte.
    #[test]
    fn replay_law(script in script(40)) {
        for record in play(&script, Ending::Close) {
            prop_assert_eq!(record.outputs(), record.replay(), "\n{}", record.show());
        }
    }

    /// The same, from the text that the flight recorder makes of the run.
    #[test]
    fn replay_law_holds_through_a_recording(script in script(40)) {
        for record in play(&script, Ending::Close) {
            prop_assert_eq!(record.outputs_redacted(), record.replay_recorded(), "\n{}", record.show());
        }
    }

    /// Nothing after `Exit`, nothing for a call after its `Cancel`, nothing to a
    /// client that is gone or on a response that is over, only whole messages of
    /// JSON-RPC, never `id: null`; and facts about what is over change nothing.
    #[test]
    fn silence_law(script in script(60)) {
        for record in play(&script, Ending::Close) {
            prop_assert_eq!(record.books.noise(), Vec::<String>::new(), "\n{}", record.show());
            prop_assert_eq!(Watch::over(&record).noise(), Vec::<String>::new(), "\n{}", record.show());
            prop_assert_eq!(record.blamed(Blame::Bug), 0, "\n{}", record.show());
            prop_assert_eq!(record.outputs(), record.replay_with_late_facts(), "\n{}", record.show());
        }
    }

    /// A request whose outcome is unknown is never sent twice, unless its
    /// method is replay-safe.
    #[test]
    fn once_law(script in script(60)) {
        for record in play(&script, Ending::Close) {
            prop_assert_eq!(Watch::over(&record).repeated(), Vec::<String>::new(), "\n{}", record.show());
        }
    }
}

/// Deadlines that a tick has not moved: in the run, and in the ticks that would
/// follow it, each this much too late.
fn stuck_deadlines(record: &Record, late: u64) -> Vec<String> {
    let mut proxy = record.machine();
    let mut stuck = Vec::new();
    let mut check = |proxy: &Proxy, at: Time| {
        let deadline = proxy.deadline().filter(|deadline| deadline.at <= at);
        stuck.extend(deadline.map(|deadline| format!("after a tick at {at:?}: {deadline:?}")));
    };
    for (at, fact) in &record.log {
        proxy.handle(*at, fact.input());
        if matches!(fact, Fact::Tick) {
            check(&proxy, *at);
        }
    }
    for _ in 0..50 {
        let Some(deadline) = proxy.deadline() else { break };
        let now = Time(deadline.at.0.saturating_add(late).max(record.lasted()));
        proxy.handle(now, Input::Tick);
        check(&proxy, now);
    }
    stuck
}

/// The jitter of seed 42, written down: it is the same on every target.
#[test]
fn replay_law_holds_across_targets() {
    let waits = law::record::retry_waits(42);
    assert_eq!(waits, [105, 200, 400]);
}

/// What the laws are worth: scripts reach what they are about, with each client.
#[test]
fn scripts_reach_sessions_streams_losses_and_parks() {
    let mut runner = TestRunner::deterministic();
    let runs = (0..1500).map(|_| play(&script(40).new_tree(&mut runner).unwrap().current(), Ending::Silence));
    let mut shown: [Vec<String>; 3] = Default::default();
    for records in runs {
        for (shown, record) in shown.iter_mut().zip(records) {
            shown.push(record.show() + &record.outputs().join("\n"));
        }
    }
    let count = |words: &str| shown.each_ref().map(|shown| shown.iter().filter(|shown| shown.contains(words)).count());
    let opened = ["SessionOpened { transport: StreamableHttp", "SessionOpened { transport: Sse", "SseTried"];
    for words in opened {
        let [lines, http, _] = count(words);
        assert!(lines >= 50 && http >= 50, "{words}: {:?}", count(words));
    }
    let modern = ["Some(\"2026-07-28\")", "\\\"inputResponses\\\"", "\\\"requestState\\\"", "subscriptions/listen"];
    for words in modern {
        let [lines, http, _] = count(words);
        assert!(lines >= 10 && http >= 10, "{words}: {:?}", count(words));
    }
    for words in ["Send(", "text/event-stream", "Gone(", " GET Some(", "Abort(", "status: 204"] {
        let [_, http, _] = count(words);
        assert!(http >= 5, "{words}: {http}");
    }
    // Requests that are parked, repeated and continued, states that are refused, and
    // subscriptions that are served.
    let of_modern_clients = [
        "SessionRestored",
        "\\\"resultType\\\":\\\"input_required\\\",\\\"inputRequests\\\"",
        "\\\"again\\\":",
        "\\\"result\\\":{\\\"action\\\":\\\"accept\\\"}",
        "the proxy did not write this requestState",
        "this requestState is used, or its request is lost",
        "notifications/subscriptions/acknowledged",
        "-32021",
    ];
    for words in of_modern_clients {
        let [lines, _, modern] = count(words);
        println!("{words}: {:?}", count(words));
        assert!(lines >= 5 && modern >= 5, "{words}: {:?}", count(words));
    }
}
