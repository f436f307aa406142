//! A component's notes for the host, which let the host continue after the component
//! crashes: the open requests, how far the component has read stdin, and the session for
//! the next component. The host stores names and texts without understanding them;
//! `components/stdio/src/journal.rs`, which writes the lines, describes them.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex},
};

use crate::stdio::{Input, Output, lock};

/// Precedes every line, and separates two parts of one.
pub const SEPARATOR: u8 = 0x1d;

/// A handle on the journal; clones share it.
#[derive(Clone)]
pub struct Journal(Arc<Mutex<State>>);

struct State {
    input: Input,
    output: Output,
    /// The text to write for a name: the parts before and after it.
    before: Vec<u8>,
    after: Vec<u8>,
    /// How often each name is open.
    open: BTreeMap<Vec<u8>, usize>,
    /// Names that close once stdout has accepted this many bytes.
    closing: VecDeque<(u64, Vec<u8>)>,
    session: Option<String>,
}

impl Journal {
    pub fn new(input: Input, output: Output) -> Self {
        let (before, after) = (Vec::new(), Vec::new());
        let (open, closing) = (BTreeMap::new(), VecDeque::new());
        Self(Arc::new(Mutex::new(State { input, output, before, after, open, closing, session: None })))
    }

    /// Handles a line, without its separator and line end.
    pub fn line(&self, line: &[u8]) {
        lock(&self.0).line(line);
    }

    /// The text to write for all open names.
    pub fn last_words(&self) -> Vec<u8> {
        lock(&self.0).last_words()
    }

    /// Whether any name is open: somebody waits.
    pub fn is_asked(&self) -> bool {
        let mut state = lock(&self.0);
        state.settle();
        !state.open.is_empty()
    }

    /// The session for the next component.
    pub fn session(&self) -> Option<String> {
        lock(&self.0).session.clone().filter(|session| !session.is_empty())
    }

    /// Starts over for a component that has read and written nothing.
    pub fn restart(&self) {
        let mut state = lock(&self.0);
        (state.open, state.closing) = (BTreeMap::new(), VecDeque::new());
        state.input.rewind();
        state.output.restart();
    }
}

impl State {
    fn line(&mut self, line: &[u8]) {
        let Some((kind, rest)) = line.split_first() else { return };
        match kind {
            b'T' => self.template(rest),
            b'+' => *self.open.entry(rest.to_vec()).or_default() += 1,
            b'-' => self.closing(rest),
            b'@' => number(rest).into_iter().for_each(|count| self.input.done(count)),
            b'=' => self.session = String::from_utf8(rest.to_vec()).ok(),
            _ => {}
        }
        self.settle();
    }

    /// The first line: this component keeps a journal.
    fn template(&mut self, text: &[u8]) {
        self.input.keep();
        let mut parts = text.splitn(2, |byte| *byte == SEPARATOR);
        self.before = parts.next().unwrap_or_default().to_vec();
        self.after = parts.next().unwrap_or_default().to_vec();
    }

    fn closing(&mut self, text: &[u8]) {
        let mut parts = text.splitn(2, |byte| *byte == b' ');
        if let (Some(count), Some(name)) = (parts.next().and_then(number), parts.next()) {
            self.closing.push_back((count, name.to_vec()));
        }
    }

    /// Closes the names whose bytes have been written.
    fn settle(&mut self) {
        let written = self.output.written();
        while let Some((_, name)) = self.closing.pop_front_if(|(count, _)| *count <= written) {
            let left = self.open.get(&name).map_or(0, |count| count.saturating_sub(1));
            if left == 0 {
                self.open.remove(&name);
            } else {
                self.open.insert(name, left);
            }
        }
    }

    fn last_words(&mut self) -> Vec<u8> {
        self.settle();
        let mut text = Vec::new();
        for (name, count) in &self.open {
            for _ in 0..*count {
                [&self.before, name, &self.after, &b"\n".to_vec()].into_iter().for_each(|part| text.extend(part));
            }
        }
        text
    }
}

fn number(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use wasmtime_wasi::p2::OutputStream as _;

    use super::*;

    fn words(journal: &Journal) -> String {
        String::from_utf8(journal.last_words()).unwrap()
    }

    #[tokio::test]
    async fn what_is_open_is_known_by_name_until_its_bytes_are_written() {
        let mut output = Output::nowhere();
        let journal = Journal::new(Input::empty(), output.clone());
        let lines: [&[u8]; 6] = [b"T<\x1d>", b"+1", b"+\"a\"", b"-9 1", b"+1", b"?"];
        lines.into_iter().for_each(|line| journal.line(line));
        assert_eq!(words(&journal), "<\"a\">\n<1>\n<1>\n");
        output.write("12345678\n".into()).unwrap();
        assert_eq!(words(&journal), "<\"a\">\n<1>\n");
        journal.line(b"-9 \"a\"");
        journal.line(b"={}");
        assert_eq!((words(&journal), journal.session()), ("<1>\n".to_owned(), Some("{}".to_owned())));
        journal.restart();
        assert_eq!((words(&journal), journal.session()), (String::new(), Some("{}".to_owned())));
    }
}
