//! How long to wait before the next attempt: capped, jittered, and never shorter than the
//! server asked for. The same seed gives the same waits. Who waits, and for what, does not
//! belong here.

use crate::rng::Rng;
use std::time::Duration;

/// First wait before retrying a failed call; doubles with each attempt.
const FIRST_RETRY: Duration = Duration::from_millis(100);
/// Shortest wait before reopening a stream, whatever the server asks for. It doubles with
/// each stream that brought no message, up to `LONGEST_FLOOR`.
const SHORTEST_RECONNECT: Duration = Duration::from_millis(100);
const LONGEST_FLOOR: Duration = Duration::from_secs(1);
/// First wait before reopening a stream when the server gave no hint.
const FIRST_RECONNECT: Duration = Duration::from_millis(1000);
/// Cap on every wait that the proxy chooses itself.
const LONGEST: Duration = Duration::from_secs(30);

/// The wait before attempt number `tries` (from 0) of a call: 100, 200, 400 ms, …
pub(crate) fn retry(tries: u32, rng: &mut Rng) -> Duration {
    jitter(doubled(FIRST_RETRY, tries), rng)
}

/// The wait before reopening a stream, after that many streams in a row without an event
/// and without a message. A server's `retry:` is the minimum (2025-11-25, Streamable
/// HTTP, polling). Streams without events make the wait grow up to the cap. Streams
/// without messages raise it only to a floor that suits a polled server.
pub(crate) fn reconnect(eventless: u32, messageless: u32, hint: Option<Duration>, rng: &mut Rng) -> Duration {
    let wait = match hint {
        Some(hint) if eventless == 0 => hint,
        Some(hint) => hint.max(jitter(doubled(FIRST_RECONNECT, eventless - 1), rng)),
        None => jitter(doubled(FIRST_RECONNECT, eventless), rng),
    };
    wait.max(doubled(SHORTEST_RECONNECT, messageless).min(LONGEST_FLOOR))
}

fn doubled(first: Duration, times: u32) -> Duration {
    first.saturating_mul(1_u32.checked_shl(times).unwrap_or(u32::MAX)).min(LONGEST)
}

/// Adds up to a tenth, so that many proxies do not retry in step.
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
        assert_eq!(reconnect(0, 0, hint, &mut rng).as_millis(), 500);
        assert!(reconnect(3, 3, hint, &mut rng).as_millis() >= 4000);
        let long = Some(Duration::from_secs(120));
        assert_eq!(reconnect(5, 5, long, &mut rng), Duration::from_secs(120));
    }

    #[test]
    fn a_server_that_asks_for_no_wait_gets_a_short_one_that_grows() {
        let waits = (0..6).map(|tries| reconnect(0, tries, Some(Duration::ZERO), &mut Rng::new(1)).as_millis());
        assert_eq!(waits.collect::<Vec<_>>(), [100, 200, 400, 800, 1000, 1000]);
    }
}
