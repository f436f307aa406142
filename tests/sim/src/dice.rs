//! The randomness of a run, from a seed or from a fuzzer's bytes. Each peer has dice of its
//! own, so that a run with fewer faults or requests otherwise resembles the original run.

use std::collections::VecDeque;

/// How many peers have dice.
const OWNERS: usize = 6;

/// The owner of the dice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    Weather,
    Client,
    Server,
    Network,
    World,
    Caller,
}

/// The source of all dice of a run.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Chance<'a> {
    Seed(u64),
    /// Bytes, which the owners use in turns; when they run out, a generator continues.
    Bytes(&'a [u8]),
}

impl Chance<'_> {
    pub(crate) fn seed(self) -> u64 {
        match self {
            Self::Seed(seed) => seed,
            Self::Bytes(_) => 0,
        }
    }

    pub(crate) fn dice(self, owner: Owner) -> Dice {
        let left = match self {
            Self::Seed(_) => VecDeque::new(),
            Self::Bytes(bytes) => bytes.iter().skip(owner as usize).step_by(OWNERS).copied().collect(),
        };
        let mut dice = Dice { state: self.seed().wrapping_mul(0x2545_F491_4F6C_DD1D) ^ (owner as u64 + 1), left };
        dice.next();
        dice
    }
}

/// `SplitMix64`, or the rest of the bytes.
#[derive(Debug, Clone)]
pub(crate) struct Dice {
    state: u64,
    left: VecDeque<u8>,
}

impl Dice {
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// One of this many choices, counted from 0. A small choice uses one byte, a big one
    /// two.
    fn choose(&mut self, choices: u64) -> u64 {
        let Some(first) = self.left.pop_front() else { return self.next().checked_rem(choices).unwrap_or(0) };
        if choices <= 256 {
            return u64::from(first).checked_rem(choices).unwrap_or(0);
        }
        let second = self.left.pop_front().unwrap_or(0);
        choices.saturating_mul(u64::from(u16::from_be_bytes([first, second]))) >> 16
    }

    /// A number from `low` to `high`, inclusive.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.choose(high.saturating_sub(low) + 1)
    }

    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.between(1, 100) <= percent
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T], or: T) -> T {
        let last = u64::try_from(from.len()).unwrap_or(1).saturating_sub(1);
        let index = usize::try_from(self.between(0, last)).unwrap_or(0);
        from.get(index).copied().unwrap_or(or)
    }
}
