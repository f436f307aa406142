//! Which of the faults that the dice call for really happen. A failure is
//! shrunk by taking them away one by one, while the dice go on as before.

/// The faults of one peer: the n-th happens if its bit is set.
#[derive(Debug)]
pub(crate) struct Luck {
    mask: u64,
    called: u32,
    /// How many have happened.
    pub(crate) struck: u64,
}

impl Luck {
    pub(crate) fn new(mask: u64) -> Self {
        Self { mask, called: 0, struck: 0 }
    }

    /// The dice call for a fault; does it happen?
    pub(crate) fn strikes(&mut self) -> bool {
        let bit = 1_u64.checked_shl(self.called).unwrap_or(0);
        self.called += 1;
        let strikes = self.mask & bit != 0;
        self.struck += u64::from(strikes);
        strikes
    }
}
