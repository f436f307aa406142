//! A run as the flight recorder writes it, and what a machine says that is
//! made from the text alone.

use super::record::{Record, drain};
use mcp_proxy_core::Time;
use mcp_proxy_core::record::{Reader, Recorder};

/// The session ids of the scripts, and what the recorder makes of them. It may
/// not see the end of an endpoint that comes in pieces.
const SESSIONS: [(&str, &str); 4] = [
    (r#""mcp-session-id": "s""#, r#""mcp-session-id": "session-1""#),
    ("?s=1", "?s=*"),
    ("?s=2", "?s=*"),
    ("?s=3", "?s=*"),
];

impl Record {
    /// Everything said, in order, with the session under its pseudonym.
    pub fn outputs_redacted(&self) -> Vec<String> {
        self.outputs().into_iter().map(redacted).collect()
    }

    /// The log as text.
    pub fn recorded(&self) -> Vec<String> {
        let (mut recorder, first) = Recorder::start(&self.config, self.seed, Time(0));
        let facts = self.log.iter().map(|(at, fact)| recorder.line(*at, &fact.input()));
        std::iter::once(first).chain(facts).collect()
    }

    pub fn replay_recorded(&self) -> Vec<String> {
        let text = self.recorded();
        let (first, rest) = text.split_first().unwrap();
        let (mut reader, start) = Reader::start(first).unwrap();
        let mut proxy = start.machine();
        let mut said = Vec::new();
        for line in rest {
            let (at, fact) = reader.next(line).unwrap();
            proxy.handle(at, fact.input());
            said.extend(drain(&mut proxy).into_iter().map(|output| redacted(format!("{output:?}"))));
        }
        said
    }
}

fn redacted(output: String) -> String {
    SESSIONS.iter().fold(output, |output, (id, name)| output.replace(id, name))
}
