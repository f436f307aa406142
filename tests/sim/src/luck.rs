//! Decides which of the faults that the dice propose really happen. To shrink a failing
//! run, the simulator removes faults one by one; the dice must not notice, so that the rest
//! of the run stays the same.

/// The faults of one peer: the n-th happens if its bit is set.
#[derive(Debug)]
pub(crate) struct Luck {
    mask: u64,
    called: u32,
    /// How many faults have happened.
    pub(crate) struck: u64,
}

impl Luck {
    pub(crate) fn new(mask: u64) -> Self {
        Self { mask, called: 0, struck: 0 }
    }

    /// Whether a fault that the dice propose happens.
    pub(crate) fn strikes(&mut self) -> bool {
        let bit = 1_u64.checked_shl(self.called).unwrap_or(0);
        self.called += 1;
        let strikes = self.mask & bit != 0;
        self.struck += u64::from(strikes);
        strikes
    }
}
