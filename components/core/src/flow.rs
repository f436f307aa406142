//! Byte budgets: count the bytes held in each direction and decide when to stop reading.
//! Whose bytes they are, and what they mean, does not belong here.

/// Above this many unwritten bytes toward the client, stop reading from servers.
const WRITE_HIGH: usize = 1 << 20;
/// Half of the longest message, clamped to suit many small messages and a machine with
/// little memory. When unfinished messages exceed it, the proxy reads one stream at a
/// time. Either direction may hold this much beyond one longest message.
pub(crate) fn slack(max_message: usize) -> usize {
    (max_message / 2).clamp(1 << 20, 16 << 20)
}

/// May the proxy keep one more request until the server has accepted it?
pub(crate) fn may_keep(kept: usize, more: usize, max_message: usize) -> bool {
    kept + more <= most(max_message).saturating_mul(2)
}

/// Limit for notifications and answers, which are accepted after requests are refused.
pub(crate) fn may_take(kept: usize, more: usize, max_message: usize) -> bool {
    kept + more <= most(max_message).saturating_mul(3)
}

fn most(max_message: usize) -> usize {
    max_message.saturating_add(slack(max_message))
}

/// The bytes on their way to the client.
#[derive(Debug, Default)]
pub(crate) struct ToClient {
    unwritten: usize,
}

impl ToClient {
    pub(crate) fn wrote(&mut self, bytes: usize) {
        self.unwritten += bytes;
    }

    pub(crate) fn flushed(&mut self, bytes: usize) {
        self.unwritten = self.unwritten.saturating_sub(bytes);
    }

    /// Sets the count to `bytes`.
    pub(crate) fn set(&mut self, bytes: usize) {
        self.unwritten = bytes;
    }

    pub(crate) fn full(&self) -> bool {
        self.unwritten >= WRITE_HIGH
    }

    /// May the proxy read more from the client? `unsent` bytes of the client have not
    /// left for the server, and the client may be leaving answers unread.
    pub(crate) fn client_may_send(&self, unsent: usize, max_message: usize) -> bool {
        unsent < most(max_message) && self.unwritten < most(max_message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_writer_is_full_at_its_mark_and_not_after_a_flush() {
        let mut to_client = ToClient::default();
        to_client.wrote(WRITE_HIGH);
        assert!(to_client.full());
        to_client.flushed(1);
        assert!(!to_client.full());
        to_client.flushed(usize::MAX);
        assert!(!to_client.full());
    }
}
