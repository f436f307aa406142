//! Lines for people, on stderr. Nothing may print elsewhere: stdout belongs to the
//! protocol. A thread writes the lines, since a client may leave stderr unread. Unread
//! lines queue up and are dropped beyond a limit; nothing waits for them.

use std::{
    io::Write,
    sync::{Condvar, Mutex, MutexGuard, Once, PoisonError},
    time::Duration,
};

/// How many bytes may wait for a reader.
const MOST_WAITING: usize = 256 << 10;
/// How long the process waits for the reader at exit.
const LAST_WAIT: Duration = Duration::from_millis(500);

static QUEUE: Mutex<Queue> = Mutex::new(Queue { waiting: Vec::new(), writing: false, lost: 0 });
static CHANGED: Condvar = Condvar::new();

struct Queue {
    waiting: Vec<u8>,
    writing: bool,
    /// Pieces dropped since the last accepted one.
    lost: usize,
}

/// Writes one line and ignores a closed stderr. Some of the text comes from a peer, such
/// as the names in a certificate, so this escapes control characters.
pub fn line(text: &str) {
    let shown = |letter: char| match letter.is_control() {
        true => letter.escape_default().to_string(),
        false => letter.to_string(),
    };
    let text: String = text.chars().map(shown).collect();
    write(format!("{text}\n").as_bytes());
}

/// A tagged line. Repeats of the last line are suppressed, since a component that retries
/// would print it for each attempt.
pub fn http(text: &str) {
    static LAST: Mutex<String> = Mutex::new(String::new());
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    if *last != text {
        text.clone_into(&mut last);
        line(&format!("[HTTP] {text}"));
    }
}

/// Writes a component's output.
pub fn write(bytes: &[u8]) {
    static WRITER: Once = Once::new();
    WRITER.call_once(|| drop(std::thread::Builder::new().name("stderr".into()).spawn(write_all)));
    queue().push(bytes);
    CHANGED.notify_all();
}

/// Waits a moment for unwritten lines.
pub fn drain() {
    let unwritten = |queue: &mut Queue| queue.writing || !queue.waiting.is_empty();
    // A reader that has not read by now will not read.
    drop(CHANGED.wait_timeout_while(queue(), LAST_WAIT, unwritten));
}

impl Queue {
    fn push(&mut self, bytes: &[u8]) {
        if self.waiting.len() + bytes.len() > MOST_WAITING {
            self.lost += 1;
            return;
        }
        if self.lost > 0 {
            let text =
                format!("mcp-proxy: {} lines were dropped: nobody read stderr\n", std::mem::take(&mut self.lost));
            self.waiting.extend_from_slice(text.as_bytes());
        }
        self.waiting.extend_from_slice(bytes);
    }
}

fn write_all() {
    let idle = |queue: &mut Queue| queue.waiting.is_empty();
    let mut held = queue();
    loop {
        held = CHANGED.wait_while(held, idle).unwrap_or_else(PoisonError::into_inner);
        let bytes = std::mem::take(&mut held.waiting);
        held.writing = true;
        drop(held);
        let _ = std::io::stderr().write_all(&bytes);
        held = queue();
        held.writing = false;
        CHANGED.notify_all();
    }
}

fn queue() -> MutexGuard<'static, Queue> {
    QUEUE.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_dropped_and_counted() {
        let mut queue = Queue { waiting: Vec::new(), writing: false, lost: 0 };
        queue.push(&vec![b'x'; MOST_WAITING]);
        queue.push(b"a\n");
        queue.push(b"b\n");
        assert_eq!((queue.waiting.len(), queue.lost), (MOST_WAITING, 2));
        queue.waiting.clear();
        queue.push(b"c\n");
        let text = String::from_utf8(queue.waiting).unwrap();
        assert_eq!(text, "mcp-proxy: 2 lines were dropped: nobody read stderr\nc\n");
    }
}
