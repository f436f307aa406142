//! How long a stream may be idle before something on the way cuts it.

use std::time::{Duration, Instant};

use super::{address::shown, finding::Finding, seen};
use crate::http::{Exchange, Outcome, Watch};

/// Nothing common cuts later.
const LONGEST: Duration = Duration::from_secs(330);

/// What happened to a stream.
#[derive(Clone, Copy)]
enum State {
    Idle,
    /// The server sent something.
    Used,
    Cut(Instant),
}

pub(super) async fn examine(watch: &Watch) -> Finding {
    let exchanges = watch.exchanges();
    let stream = exchanges.iter().rposition(seen::is_open_stream);
    let Some((at, (begun, pieces))) = stream.and_then(|at| Some((at, heard(exchanges.get(at)?)?))) else {
        return Finding::note("idle streams", "the server has no stream that could be idle");
    };
    let state = |exchanges: &[Exchange]| exchanges.get(at).map_or(State::Idle, |stream| state(stream, pieces));
    let over = watch.until(|exchanges| !matches!(state(exchanges), State::Idle));
    // The limit is an answer too.
    let _ = tokio::time::timeout(LONGEST, over).await;
    match state(&watch.exchanges()) {
        State::Idle => Finding::ok("idle streams", format!("nothing cuts them within {}", shown(LONGEST))),
        State::Used => {
            Finding::ok("idle streams", format!("the server uses its stream after {}", shown(begun.elapsed())))
        }
        State::Cut(end) => {
            let after = end.saturating_duration_since(begun);
            let often = (after * 2 / 3).as_secs().max(1);
            Finding::warning("idle streams", format!("something cuts them after {}", shown(after)))
                .hint(format!("the proxy learns this by itself; --keep-alive {often}s avoids the first cut"))
        }
    }
}

fn state(stream: &Exchange, before: usize) -> State {
    match &stream.outcome {
        Outcome::Answered(answer) if answer.pieces > before => State::Used,
        Outcome::Answered(answer) => answer.ended.map_or(State::Idle, State::Cut),
        Outcome::Waiting | Outcome::Failed => State::Idle,
    }
}

/// When a stream last had something, and how many pieces it had.
fn heard(stream: &Exchange) -> Option<(Instant, usize)> {
    match &stream.outcome {
        Outcome::Answered(answer) => Some((answer.heard, answer.pieces)),
        Outcome::Waiting | Outcome::Failed => None,
    }
}
