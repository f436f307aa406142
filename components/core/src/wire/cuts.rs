//! The three ways to run every wire case: whole, byte by byte, and cut at random places.
//! A reader that returns the same pieces for all of them keeps the chunk law.

use crate::rng::Rng;

/// All the cuts of `bytes` to test.
pub(crate) fn cuts(bytes: &[u8]) -> Vec<Vec<&[u8]>> {
    let mut ways = vec![vec![bytes], bytes.chunks(1).collect()];
    let mut rng = Rng::new(bytes.len() as u64);
    for _ in 0..20 {
        let mut rest = bytes;
        let mut way = Vec::new();
        while !rest.is_empty() {
            let size = usize::try_from(rng.below(rest.len() as u64)).unwrap() + 1;
            let (piece, tail) = rest.split_at(size);
            way.push(piece);
            rest = tail;
        }
        ways.push(way);
    }
    ways
}
