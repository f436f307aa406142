//! Seeded randomness. Each peer has dice of its own, so that a run with fewer
//! faults or requests otherwise resembles the run it was cut from.

/// `SplitMix64`.
#[derive(Debug, Clone)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64, owner: u64) -> Self {
        let mut dice = Self(seed.wrapping_mul(0x2545_F491_4F6C_DD1D) ^ owner);
        dice.next();
        dice
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// From `low` to `high`, both included.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.next().checked_rem(high.saturating_sub(low) + 1).unwrap_or(0)
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
