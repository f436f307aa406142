//! Lines for people, on stderr. Nothing may print elsewhere: stdout belongs to
//! the protocol. They are written by a thread, since a client may leave stderr
//! unread: then they wait, and beyond a bound they are dropped, but nothing
//! waits for them.

use std::{
    io::Write,
    sync::{Condvar, Mutex, MutexGuard, Once, PoisonError},
    time::Duration,
};

/// As many bytes may wait for a reader.
const MOST_WAITING: usize = 256 << 10;
/// How long the end of the process waits for one.
const LAST_WAIT: Duration = Duration::from_millis(500);

static QUEUE: Mutex<Queue> = Mutex::new(Queue { waiting: Vec::new(), writing: false, lost: 0 });
static CHANGED: Condvar = Condvar::new();

struct Queue {
    waiting: Vec<u8>,
    writing: bool,
    /// Pieces that were dropped since the last one that was not.
    lost: usize,
}

/// Writes one line. A closed stderr is nobody's problem. Some of the text is a
/// peer's, such as the names in a certificate: what would steer a terminal or end
/// the line is shown instead.
pub fn line(text: &str) {
    let shown = |letter: char| match letter.is_control() {
        true => letter.escape_default().to_string(),
        false => letter.to_string(),
    };
    let text: String = text.chars().map(shown).collect();
    write(format!("{text}\n").as_bytes());
}

/// A tagged line, not repeated while the same thing happens again and again
/// (a component that retries would otherwise print it for each attempt).
pub fn http(text: &str) {
    static LAST: Mutex<String> = Mutex::new(String::new());
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    if *last != text {
        text.clone_into(&mut last);
        line(&format!("[HTTP] {text}"));
    }
}

/// Writes what a component says.
pub fn write(bytes: &[u8]) {
    static WRITER: Once = Once::new();
    WRITER.call_once(|| drop(std::thread::Builder::new().name("stderr".into()).spawn(write_all)));
    queue().push(bytes);
    CHANGED.notify_all();
}

/// Waits a moment for what has not been written.
pub fn drain() {
    let unwritten = |queue: &mut Queue| queue.writing || !queue.waiting.is_empty();
    // Who does not read by now will not read.
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
