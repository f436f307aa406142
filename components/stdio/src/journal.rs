//! For a host that starts a fresh component where this one breaks: which
//! requests are open, how far stdin was read, and what opens the session again.
//! Each line goes to stderr behind a group separator, by which the host tells it
//! from the notes; the host needs to understand none of the names in it.
//!
//! | line | meaning |
//! |---|---|
//! | `T` before, separator, after | around a name, this is what to write for it |
//! | `+` name | something is open |
//! | `-` count name | it is not, once so many bytes were written to stdout |
//! | `@` count | so many bytes of stdin need not be read again |
//! | `=` text | what the next component is to be told |

use mcp_proxy_core::{Entry, Proxy, Snapshot, last_words};
use std::io::Write;

/// No note and no line of a recording begins with it.
const SEPARATOR: char = '\x1d';

pub(crate) struct Journal {
    /// Bytes read from stdin.
    read: u64,
    /// How many of them the host knows to be done with.
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

    /// Tells the host what has changed, before anything is made of it.
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

/// Tells the host what the next component needs to go on with the session.
pub(crate) fn session(known: &Snapshot) {
    write(&line(&format!("={}", known.to_line())));
}

fn line(text: &str) -> String {
    format!("{SEPARATOR}{text}\n")
}

/// In one piece; without a reader there is nobody to start another component.
fn write(text: &str) {
    drop(std::io::stderr().write_all(text.as_bytes()));
}
