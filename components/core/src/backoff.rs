//! How long to wait before the next try: capped, jittered, and never shorter
//! than what the server asked for. Who waits, and for what, is not known here.

use crate::rng::Rng;
use std::time::Duration;

/// First wait before a failed call is repeated; doubles with each try.
const FIRST_RETRY: Duration = Duration::from_millis(100);
/// First wait before a stream is reopened when the server gave no hint.
const FIRST_RECONNECT: Duration = Duration::from_millis(1000);
/// No wait of our own choosing is longer than this.
const LONGEST: Duration = Duration::from_secs(30);

/// The wait before try number `tries` (from 0) of a call: 100, 200, 400 ms, …
pub(crate) fn retry(tries: u32, rng: &mut Rng) -> Duration {
    jitter(doubled(FIRST_RETRY, tries), rng)
}

/// The wait before a stream is reopened. A server's `retry:` is the minimum
/// (2025-11-25, Streamable HTTP, polling); repeated fruitless tries still grow.
pub(crate) fn reconnect(tries: u32, hint: Option<Duration>, rng: &mut Rng) -> Duration {
    match hint {
        Some(hint) if tries == 0 => hint,
        Some(hint) => hint.max(jitter(doubled(FIRST_RECONNECT, tries - 1), rng)),
        None => jitter(doubled(FIRST_RECONNECT, tries), rng),
    }
}

fn doubled(first: Duration, times: u32) -> Duration {
    first.saturating_mul(1_u32.checked_shl(times).unwrap_or(u32::MAX)).min(LONGEST)
}

/// Up to a tenth more, so that many proxies do not knock in step.
fn jitter(wait: Duration, rng: &mut Rng) -> Duration {
    let tenth = u64::try_from(wait.as_millis() / 10).unwrap_or(0);
    wait + Duration::from_millis(rng.below(tenth + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retries_double_and_stay_within_a_tenth() {
        let mut rng = Rng::new(1);
        for (tries, want) in [(0, 100), (1, 200), (2, 400), (40, 30_000)] {
            let wait = retry(tries, &mut rng).as_millis();
            assert!((want..=want + want / 10).contains(&wait), "try {tries}: {wait}");
        }
    }

    #[test]
    fn the_servers_hint_is_a_minimum_and_fruitless_tries_grow_beyond_it() {
        let mut rng = Rng::new(1);
        let hint = Some(Duration::from_millis(500));
        assert_eq!(reconnect(0, hint, &mut rng).as_millis(), 500);
        assert!(reconnect(3, hint, &mut rng).as_millis() >= 4000);
        let long = Some(Duration::from_secs(120));
        assert_eq!(reconnect(5, long, &mut rng), Duration::from_secs(120));
    }
}
