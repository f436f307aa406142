//! Byte budgets. Counts what is held on the way to the client and on the way
//! to the server, and says when to stop reading. Whose bytes they are, and
//! what they say, is not known here.

/// Above this many unwritten bytes toward the client, no server is read.
const WRITE_HIGH: usize = 1 << 20;
/// Half a message of the longest kind, within bounds that suit many small ones and
/// a machine with little memory. Above it, one stream of unfinished messages at a
/// time is read; beyond one message of the longest kind, so much may wait in either
/// direction.
pub(crate) fn slack(max_message: usize) -> usize {
    (max_message / 2).clamp(1 << 20, 16 << 20)
}

/// May one more request be kept until the server has taken it?
pub(crate) fn may_keep(kept: usize, more: usize, max_message: usize) -> bool {
    kept + more <= most(max_message).saturating_mul(2)
}

/// The same of what is no request, which comes through where requests do not.
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

    /// So much is on its way now.
    pub(crate) fn set(&mut self, bytes: usize) {
        self.unwritten = bytes;
    }

    pub(crate) fn full(&self) -> bool {
        self.unwritten >= WRITE_HIGH
    }

    /// May more be read from the client while it leaves our answers unread and
    /// `unsent` bytes of its own have not left for the server?
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
