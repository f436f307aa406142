//! Recordings of real runs, each a file of `tests/fixtures/recorded`. Every
//! build has to read them, and the machine has to do in them what it owes its
//! client: to answer every request once, to blame nobody's bug, to leave. A
//! recording from a bug report is added as a line. A recording names calls by
//! their number, so a machine that calls in another order needs a new one.

use mcp_proxy_core::record::{Reader, RecordError};
use mcp_proxy_core::{Blame, Input, Output, Side};
use serde_json::Value;
use std::collections::BTreeMap;

const RECORDINGS: [(&str, &str); 1] =
    [("lost-session", include_str!("../../../tests/fixtures/recorded/lost-session.log"))];

#[test]
fn every_request_of_a_recording_is_answered_once() {
    for (name, text) in RECORDINGS {
        let run = Run::of(text).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(!run.open.is_empty(), "{name} asks for nothing");
        for (id, owed) in run.open {
            assert_eq!(owed, 0, "{name}: answers owed to {id}");
        }
        assert_eq!((run.bugs, run.exits), (0, 1), "{name}");
    }
}

#[derive(Default)]
struct Run {
    /// Answers owed, by id.
    open: BTreeMap<String, i32>,
    bugs: usize,
    exits: usize,
}

impl Run {
    fn of(text: &str) -> Result<Self, RecordError> {
        let mut lines = text.lines();
        let (mut reader, start) = Reader::start(lines.next().unwrap_or_default())?;
        let (mut run, mut proxy, mut said) = (Self::default(), start.machine(), Vec::new());
        for line in lines {
            let (at, fact) = reader.next(line)?;
            if let Input::Bytes(Side::Client, bytes) = fact.input() {
                said.extend_from_slice(bytes);
            }
            proxy.handle(at, fact.input());
            std::iter::from_fn(|| proxy.poll()).for_each(|output| run.said(&output));
        }
        run.count(&said, 1);
        Ok(run)
    }

    fn said(&mut self, output: &Output) {
        match output {
            Output::Write(Side::Client, line) => self.count(line, -1),
            Output::Note(note) => self.bugs += usize::from(note.blame() == Blame::Bug),
            Output::Exit(_) => self.exits += 1,
            Output::Call(..) | Output::Cancel(_) | Output::Snapshot(_) => {}
            Output::Respond(..) | Output::Send(..) | Output::Finish(_) | Output::Abort(_) => self.bugs += 1,
        }
    }

    /// Counts the client's requests, or the answers to them.
    fn count(&mut self, lines: &[u8], by: i32) {
        for line in lines.split(|byte| *byte == b'\n') {
            let Ok(message) = serde_json::from_slice::<Value>(line) else { continue };
            let asks = message.get("method").is_some();
            if let (Some(id), true) = (message.get("id"), asks == (by > 0)) {
                *self.open.entry(id.to_string()).or_default() += by;
            }
        }
    }
}
