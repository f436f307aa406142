//! The journal, for a host that replaces this component if it crashes: the open requests,
//! how far stdin was read, and the snapshot that reopens the session. Each line goes to
//! stderr after a group separator, which sets it apart from the notes. The host need not
//! understand the names in it.
//!
//! | line | meaning |
//! |---|---|
//! | `T` before, separator, after | the text to write around an open name |
//! | `+` name | the name is open |
//! | `-` count name | the name closes once stdout has accepted `count` bytes |
//! | `@` count | the first `count` bytes of stdin need not be read again |
//! | `=` text | the session for the next component |

use mcp_proxy_core::{Entry, Proxy, Snapshot, last_words};
use std::io::Write;

/// No note and no recording line begins with it.
const SEPARATOR: char = '\x1d';

pub(crate) struct Journal {
    /// Bytes read from stdin.
    read: u64,
    /// How many of them the host knows to be finished.
    done: u64,
}

impl Journal {
    pub(crate) fn start(proxy: &mut Proxy) -> Self {
        proxy.start_ledger();
        let (before, after) = last_words();
        write(&line(&format!("T{before}{SEPARATOR}{}", after.trim_end())));
        Self { read: 0, done: 0 }
    }

    pub(crate) fn read(&mut self, count: usize) {
        self.read += count as u64;
    }

    /// Tells the host what has changed, before the shell acts on it.
    pub(crate) fn sync(&mut self, proxy: &mut Proxy) {
        let mut text = String::new();
        for entry in proxy.ledger() {
            text.push_str(&match entry {
                Entry::Opened(id) => line(&format!("+{id}")),
                Entry::Closed(id, count) => line(&format!("-{count} {id}")),
            });
        }
        let done = self.read - (proxy.unfinished() as u64).min(self.read);
        if done != self.done {
            self.done = done;
            text.push_str(&line(&format!("@{done}")));
        }
        if !text.is_empty() {
            write(&text);
        }
    }
}

/// Tells the host the snapshot that lets the next component continue the session.
pub(crate) fn session(known: &Snapshot) {
    write(&line(&format!("={}", known.to_line())));
}

fn line(text: &str) -> String {
    format!("{SEPARATOR}{text}\n")
}

/// Writes in one piece. Without a reader, no host is there to start another component.
fn write(text: &str) {
    drop(std::io::stderr().write_all(text.as_bytes()));
}
