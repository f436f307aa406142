//! Ways to cut bytes: whole, byte by byte, and at places that the bytes choose.

/// All the ways to cut `bytes` that an input is tried with.
pub(crate) fn cuts(bytes: &[u8]) -> [Vec<&[u8]>; 3] {
    [vec![bytes], bytes.chunks(1).collect(), uneven(bytes)]
}

fn uneven(bytes: &[u8]) -> Vec<&[u8]> {
    let (mut rest, mut pieces) = (bytes, Vec::new());
    while let Some(first) = rest.first() {
        let (piece, tail) = rest.split_at((usize::from(first % 13) + 1).min(rest.len()));
        pieces.push(piece);
        rest = tail;
    }
    pieces
}
