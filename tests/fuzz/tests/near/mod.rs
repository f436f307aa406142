//! The corpora, and inputs near them. Everything is seeded.

use mcp_proxy_fuzz::Target;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

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

/// Runs an input; if it fails, says which it was.
pub(crate) fn check(name: &str, target: Target, input: &[u8]) {
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
pub(crate) fn corpus(name: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
    let entries = std::fs::read_dir(folder).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| std::fs::read(path).unwrap()).collect()
}

/// An input of the corpus with a few changes.
pub(crate) fn mutated(corpus: &[Vec<u8>], dice: &mut Dice) -> Vec<u8> {
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
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        usize::try_from((z ^ (z >> 31)) % bound.max(1) as u64).unwrap()
    }
}
