//! Lines for people, on stderr. Nothing may print elsewhere: stdout belongs to
//! the protocol, and a line is written whole so that it cannot be torn by the
//! component's own notes.

use std::{
    io::Write,
    sync::{Mutex, PoisonError},
};

/// Writes one line. A closed stderr is nobody's problem.
pub fn line(text: &str) {
    let _ = std::io::stderr().write_all(format!("{text}\n").as_bytes());
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
