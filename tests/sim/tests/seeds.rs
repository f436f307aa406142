//! Many seeds, or one.
//!
//! `SIM_SEEDS=100000 cargo test -p mcp-proxy-sim seeds` plays more of them, on
//! all cores; `SIM_SEED=7 cargo test -p mcp-proxy-sim one_seed -- --nocapture`
//! shows one.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use mcp_proxy_sim::{Failure, Size, Stats, check, record, replay};
use peak_alloc::PeakAlloc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

#[global_allocator]
static BYTES: PeakAlloc = PeakAlloc;

/// What the whole process may take: worlds of two machines or so, each with
/// messages of a few kilobytes, and what the tests beside this one keep.
const BUDGET: usize = 64 << 20;

#[test]
fn seeds() {
    let count = number("SIM_SEEDS").unwrap_or(10_000);
    let (from, start) = (number("SIM_FROM").unwrap_or(0), Instant::now());
    let sum = play(from, from + count);
    let peak = BYTES.peak_usage();
    println!("sim: {count} seeds in {:.1} s, {} KB at most: {sum}", start.elapsed().as_secs_f64(), peak / 1000);
    assert!(peak <= BUDGET, "{peak} bytes at once, at most {BUDGET}");
}

#[test]
fn recordings() {
    let mut facts = 0;
    for seed in 0..500 {
        let recording = record(seed, Size::default()).unwrap();
        facts += recording.lines.len();
        assert_eq!(recording.said, recording.replay().unwrap(), "seed {seed}");
    }
    println!("sim: {facts} recorded facts replayed");
}

#[test]
fn one_seed_is_one_run() {
    let wanted = number("SIM_SEED");
    let seed = wanted.unwrap_or(1);
    let size = std::env::var("SIM_SIZE").map_or(Size::default(), |text| text.parse().unwrap());
    let log = replay(seed, size);
    assert_eq!(log, replay(seed, size), "the same seed is the same run");
    if wanted.is_some() {
        println!("{log}");
    }
}

/// Plays seeds on all cores. Of those that fail, the first is told.
fn play(from: u64, to: u64) -> Stats {
    let next = AtomicU64::new(from);
    let worker = || {
        let mut sum = Stats::default();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= to {
                return Ok(sum);
            }
            sum += check(seed).inspect_err(|_| next.store(to, Ordering::Relaxed))?;
        }
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let outcomes: Vec<Result<Stats, Box<Failure>>> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..cores).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).collect()
    });
    let mut sum = Stats::default();
    let mut failures = Vec::new();
    for outcome in outcomes {
        match outcome {
            Ok(stats) => sum += stats,
            Err(failure) => failures.push(failure),
        }
    }
    if let Some(first) = failures.iter().min_by_key(|failure| failure.seed) {
        panic!("{first}\nmcp-proxy replay {}", recorded(first));
    }
    sum
}

/// Keeps a recording of what failed; says where.
fn recorded(failure: &Failure) -> String {
    let path = std::env::temp_dir().join(format!("sim-{}.jsonl", failure.seed));
    let lines = record(failure.seed, failure.size).map(|recording| recording.lines).unwrap_or_default();
    std::fs::write(&path, lines.join("\n") + "\n").unwrap();
    path.display().to_string()
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}
