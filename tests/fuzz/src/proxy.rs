//! `proxy`: the whole machine. Even first bytes: a hostile shell that feeds it
//! raw facts (`driver`), held against the laws that need no model. Odd ones:
//! the simulator, with the input for its dice.

use crate::driver::{Driver, Outcome};

pub(crate) fn proxy(data: &[u8]) {
    let Some((first, rest)) = data.split_first() else { return };
    if first % 2 == 1 {
        if let Err(failure) = mcp_proxy_sim::check_bytes(rest) {
            panic!("{failure}");
        }
        return;
    }
    let whole = play(rest, usize::MAX);
    for size in [1, 7] {
        let cut = play(rest, size);
        assert_eq!(cut, whole, "in pieces of {size}");
    }
}

fn play(data: &[u8], size: usize) -> Outcome {
    let mut driver = Driver::new(data, size);
    driver.play();
    driver.end()
}
