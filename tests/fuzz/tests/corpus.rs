//! The corpora, and a short walk around them, on any toolchain. Everything is
//! seeded: the same inputs run every time. `FUZZ_ROUNDS=100000` walks further.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod near;

use mcp_proxy_fuzz::TARGETS;
use near::{Dice, check, corpus, mutated};
use std::time::Instant;

/// Mutated inputs of each target. A run of the machine takes a while.
const ROUNDS: [(&str, usize); 6] =
    [("lines", 20_000), ("sse", 20_000), ("message", 20_000), ("proxy", 3_000), ("front", 3_000), ("refusals", 20_000)];

#[test]
fn the_corpus_passes() {
    for (name, target) in TARGETS {
        let corpus = corpus(name);
        assert!(!corpus.is_empty(), "there is no corpus for {name}");
        corpus.iter().for_each(|input| check(name, target, input));
        println!("fuzz: {name}: {} inputs of the corpus", corpus.len());
    }
}

#[test]
fn inputs_near_the_corpus_pass() {
    for (name, target) in TARGETS {
        let start = Instant::now();
        let usual = ROUNDS.iter().find(|(known, _)| *known == name).map_or(0, |(_, rounds)| *rounds);
        let rounds = std::env::var("FUZZ_ROUNDS").map_or(usual, |text| text.parse().unwrap());
        let (corpus, mut dice) = (corpus(name), Dice(rounds as u64));
        for _ in 0..rounds {
            let input = mutated(&corpus, &mut dice);
            check(name, target, &input);
        }
        println!("fuzz: {name}: {rounds} mutated inputs in {:.1} s", start.elapsed().as_secs_f64());
    }
}
