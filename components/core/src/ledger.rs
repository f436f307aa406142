//! A log of the client's open requests, for a shell that can lose its machine in the
//! middle of a step and must then answer in its place. The machine's behaviour must not
//! depend on it.

use crate::failure::{Delivered, Failure, Phase};
use crate::wire::message::Id;

/// One entry of the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// The request with this id (as JSON) is open.
    Opened(Box<str>),
    /// The request is closed once the shell has written this many bytes to the client in
    /// total.
    Closed(Box<str>, u64),
}

/// The entries that the shell has not collected; empty unless the shell wants a ledger.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    wanted: bool,
    entries: Vec<Entry>,
    /// How many of the last entries the next write closes.
    unwritten: usize,
    /// Total bytes written to the client.
    written: u64,
}

impl Ledger {
    pub(crate) fn start(&mut self) {
        self.wanted = true;
    }

    pub(crate) fn opened(&mut self, id: &Id) {
        if self.wanted {
            self.entries.push(Entry::Opened(id.text().into()));
        }
    }

    /// The next write carries the answer, if there is one.
    pub(crate) fn closed(&mut self, id: &Id) {
        if self.wanted {
            self.entries.push(Entry::Closed(id.text().into(), self.written));
            self.unwritten += 1;
        }
    }

    pub(crate) fn wrote(&mut self, count: usize) {
        self.written = self.written.saturating_add(u64::try_from(count).unwrap_or(u64::MAX));
        let closed = std::mem::take(&mut self.unwritten);
        for entry in self.entries.iter_mut().rev().take(closed) {
            if let Entry::Closed(_, at) = entry {
                *at = self.written;
            }
        }
    }

    pub(crate) fn take(&mut self) -> Vec<Entry> {
        self.unwritten = 0;
        std::mem::take(&mut self.entries)
    }
}

/// The line that answers an open request of a lost machine: the parts before and after
/// its id.
#[must_use]
pub fn last_words() -> (String, String) {
    let why = "the proxy broke while this request was open, and has restarted";
    let line = Failure::new(Phase::Proxy, Delivered::Maybe, why).answer(&Id::named("id"));
    let line = String::from_utf8_lossy(&line);
    let (before, after) = line.split_once("\"id\":\"id\"").unwrap_or_default();
    (format!("{before}\"id\":"), format!("{after}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_closed_by_the_bytes_of_its_answer() {
        let id = |text: &str| Id::parse(text).unwrap();
        let mut ledger = Ledger::default();
        ledger.opened(&id("1"));
        assert_eq!(ledger.take(), []);
        ledger.start();
        ledger.wrote(10);
        ledger.opened(&id("1"));
        ledger.opened(&id("\"x\""));
        ledger.closed(&id("1"));
        ledger.wrote(5);
        ledger.closed(&id("\"x\""));
        let want = [
            Entry::Opened("1".into()),
            Entry::Opened("\"x\"".into()),
            Entry::Closed("1".into(), 15),
            Entry::Closed("\"x\"".into(), 15),
        ];
        assert_eq!(ledger.take(), want);
        ledger.wrote(1);
        assert_eq!(ledger.take(), []);
    }

    #[test]
    fn the_last_words_are_an_error_for_an_id() {
        let (before, after) = last_words();
        let line: serde_json::Value = serde_json::from_str(&format!("{before}7{after}")).unwrap();
        assert_eq!((line["id"].as_u64(), line["error"]["data"]["delivered"].as_str()), (Some(7), Some("maybe")));
        assert_eq!(line["jsonrpc"], "2.0");
    }
}
