//! The corpora, and a short walk around them, on any toolchain. Everything is
//! seeded: the same inputs run every time. `FUZZ_ROUNDS=100000` walks further.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

use mcp_proxy_fuzz::{TARGETS, Target};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Mutated inputs of each target. A run of the machine takes a while.
const ROUNDS: [(&str, usize); 5] =
    [("lines", 20_000), ("sse", 20_000), ("message", 20_000), ("proxy", 3_000), ("front", 3_000)];

/// What is worth a try in the middle of anything.
const WORDS: [&[u8]; 24] = [
    b"\n",
    b"\r",
    b"\r\n\r\n",
    b"\n\n",
    b"\xEF\xBB\xBF",
    b"\xE2\x80\xA8",
    b"data: ",
    b"data:",
    b"event: endpoint\n",
    b"id: 1\n",
    b"retry: 10\n",
    b"{\"jsonrpc\":\"2.0\",",
    b"\"id\":",
    b"\"method\":\"tools/call\"",
    b"\"result\":{}",
    b"\"error\":null",
    b"null",
    b"-0",
    b"1e2",
    b"9007199254740993",
    b"\"\\u0061\"",
    b"\\\"",
    b"[",
    b"}",
];

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

/// Runs an input; if it fails, says which it was.
fn check(name: &str, target: Target, input: &[u8]) {
    if catch_unwind(AssertUnwindSafe(|| target(input))).is_err() {
        let path = std::env::temp_dir().join(format!("fuzz-{name}"));
        std::fs::write(&path, input).unwrap();
        panic!(
            "{name} fails on the {} bytes in {}: {:?}",
            input.len(),
            path.display(),
            input.escape_ascii().to_string()
        );
    }
}

/// The inputs of a target, in the order of their names.
fn corpus(name: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
    let entries = std::fs::read_dir(folder).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| std::fs::read(path).unwrap()).collect()
}

/// An input of the corpus with a few changes.
fn mutated(corpus: &[Vec<u8>], dice: &mut Dice) -> Vec<u8> {
    let mut input = corpus[dice.below(corpus.len())].clone();
    for _ in 0..=dice.below(4) {
        let (at, other) = (dice.below(input.len() + 1), &corpus[dice.below(corpus.len())]);
        let until = at + dice.below(input.len() + 1 - at);
        match dice.below(6) {
            0 if at < input.len() => input[at] ^= 1 << dice.below(8),
            1 if at < input.len() => input[at] = u8::try_from(dice.below(256)).unwrap(),
            2 => drop(input.drain(at..until)),
            3 => drop(input.splice(at..at, WORDS[dice.below(WORDS.len())].iter().copied())),
            4 => input.extend_from_slice(&other[dice.below(other.len() + 1)..]),
            _ => {
                let piece = input[at..until].to_vec();
                drop(input.splice(at..at, piece));
            }
        }
        input.truncate(4000);
    }
    input
}

/// `SplitMix64`.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        usize::try_from((z ^ (z >> 31)) % bound.max(1) as u64).unwrap()
    }
}
