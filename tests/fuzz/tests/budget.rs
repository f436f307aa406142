//! `hostile` in a process of its own: it counts the bytes of the whole process.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

#[path = "near/mod.rs"]
mod near;

use mcp_proxy_fuzz::hostile_target;
use near::{Dice, check, corpus, mutated};

const ROUNDS: usize = 300;

#[test]
fn a_hostile_peer_takes_no_more_than_its_budget() {
    let corpus = corpus("hostile");
    assert!(!corpus.is_empty());
    corpus.iter().for_each(|input| check("hostile", hostile_target, input));
    let rounds = std::env::var("FUZZ_ROUNDS").map_or(ROUNDS, |text| text.parse().unwrap());
    let mut dice = Dice(7);
    for _ in 0..rounds {
        check("hostile", hostile_target, &mutated(&corpus, &mut dice));
    }
    println!("fuzz: hostile: {} inputs of the corpus, {rounds} mutated inputs", corpus.len());
}
