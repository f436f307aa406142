//! Time in the core: a number of milliseconds that shells supply. Nothing here reads a
//! clock. Do not use `std::time::Instant`: a recording cannot store it, and it panics on
//! some targets.

use std::time::Duration;

/// Milliseconds since an origin that the shell chose. Only differences matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(pub u64);

impl Time {
    /// The moment `wait` after this one; saturates instead of wrapping.
    #[must_use]
    pub fn after(self, wait: Duration) -> Self {
        Self(self.0.saturating_add(millis(wait)))
    }

    /// How long ago `earlier` was; zero if it is in the future.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

/// When the machine wants an [`Input::Tick`](crate::Input::Tick), and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadline {
    /// The moment at or after which the tick is due.
    pub at: Time,
    /// What the machine waits for.
    pub why: Why,
}

/// The reasons for a deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// Time to retry a failed call.
    Retry,
    /// Time to resume a broken stream, or to reopen the listening stream.
    Reconnect,
    /// A request or stream has shown no sign of life for too long.
    Quiet,
    /// A response has not begun for too long.
    FirstByte,
    /// An HTTP+SSE server has not named its endpoint for too long.
    Endpoint,
    /// A request has taken too long, regardless of signs of life.
    Total,
    /// Time to ping the server of an idle session.
    KeepAlive,
    /// Time to reopen a session that ended with its stream.
    Reopen,
    /// A server asked for input, and the client has not given it for too long; or it is
    /// time to send the request again.
    Round,
    /// Time to send a sign of life on a silent response to a client.
    Heartbeat,
    /// A client has not read a response, or opened a stream, for too long.
    Unread,
    /// Held messages are sent although the server never acknowledged `initialized`.
    Greeting,
    /// The client closed its side, and the time to answer its open requests is over.
    Drain,
    /// The machine exits although the server has not confirmed the end of the session.
    Leave,
}

/// The earlier of two deadlines.
pub(crate) fn earlier(a: Option<Deadline>, b: Option<Deadline>) -> Option<Deadline> {
    match (a, b) {
        (Some(a), Some(b)) => Some(if b.at < a.at { b } else { a }),
        (one, None) | (None, one) => one,
    }
}

pub(crate) fn millis(wait: Duration) -> u64 {
    wait.as_secs().saturating_mul(1000).saturating_add(u64::from(wait.subsec_millis()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_saturates_at_both_ends() {
        assert_eq!(Time(u64::MAX).after(Duration::MAX), Time(u64::MAX));
        assert_eq!(Time(3).since(Time(5)), Duration::ZERO);
    }

    #[test]
    fn the_earlier_deadline_wins_and_ties_keep_the_first() {
        let (a, b) = (Deadline { at: Time(1), why: Why::Retry }, Deadline { at: Time(1), why: Why::Drain });
        assert_eq!(earlier(Some(a), Some(b)), Some(a));
        assert_eq!(earlier(None, Some(b)), Some(b));
        assert_eq!(earlier(None, None), None);
    }
}
