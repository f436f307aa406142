//! Lines for people, on stderr. Nothing may print elsewhere: stdout belongs to the
//! protocol. A thread writes the lines, since a client may leave stderr unread. Unread
//! lines queue up and are dropped beyond a limit; nothing waits for them.

use std::{
    io::Write,
    sync::{Condvar, Mutex, MutexGuard, Once, PoisonError},
    time::{Duration, Instant},
};

/// How many bytes may wait for a reader.
const MOST_WAITING: usize = 256 << 10;
/// At most so many lines about HTTP in each span of this length.
const MOST_LINES: usize = 10;
const SPAN: Duration = Duration::from_secs(10);
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
/// as the names in a certificate.
pub fn line(text: &str) {
    write(format!("{}\n", escaped(text)).as_bytes());
}

/// The text without control characters, which could steer a terminal.
pub fn escaped(text: &str) -> String {
    let shown = |letter: char| match letter.is_control() {
        true => letter.escape_default().to_string(),
        false => letter.to_string(),
    };
    text.chars().map(shown).collect()
}

/// A tagged line. Leaves out a repeat of the last one, since a component that retries would
/// cause it at each attempt, and counts what exceeds ten lines in ten seconds.
pub fn http(text: &str) {
    static FLOOD: Mutex<Flood> = Mutex::new(Flood { last: String::new(), begun: None, lines: 0, left_out: 0 });
    let mut flood = FLOOD.lock().unwrap_or_else(PoisonError::into_inner);
    flood.next(text, Instant::now()).into_iter().for_each(|text| line(&format!("[HTTP] {text}")));
}

/// What was written of late.
struct Flood {
    last: String,
    /// When the current span began.
    begun: Option<Instant>,
    /// How many lines it has, and how many it left out.
    lines: usize,
    left_out: usize,
}

impl Flood {
    /// The lines to write now.
    fn next(&mut self, text: &str, now: Instant) -> Vec<String> {
        if self.last == text {
            return Vec::new();
        }
        text.clone_into(&mut self.last);
        if self.begun.is_none_or(|begun| now.duration_since(begun) >= SPAN) {
            (self.begun, self.lines) = (Some(now), 0);
        }
        self.lines += 1;
        if self.lines > MOST_LINES {
            self.left_out += 1;
            return Vec::new();
        }
        let left_out = std::mem::take(&mut self.left_out);
        let count = (left_out > 0).then(|| format!("{left_out} more lines were left out"));
        count.into_iter().chain([text.to_owned()]).collect()
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
    fn a_flood_is_ten_lines_and_a_count() {
        let mut flood = Flood { last: String::new(), begun: None, lines: 0, left_out: 0 };
        let begun = Instant::now();
        let lines = |flood: &mut Flood, text: &str, now| flood.next(text, now);
        let all: Vec<String> = (0..1000).flat_map(|n| lines(&mut flood, &format!("cause {}", n % 2), begun)).collect();
        assert_eq!(all.len(), MOST_LINES);
        assert_eq!(lines(&mut flood, "cause 1", begun + SPAN), Vec::<String>::new());
        assert_eq!(lines(&mut flood, "cause 2", begun + SPAN), ["990 more lines were left out", "cause 2"]);
    }

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
