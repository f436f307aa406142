//! A run as the flight recorder writes it, and what a machine says that is
//! made from the text alone.

use super::record::{Record, config, drain};
use mcp_proxy_core::Time;
use mcp_proxy_core::record::{Reader, Recorder};

/// The one session id of the scripts, and what the recorder makes of it.
const SESSION: (&str, &str) = (r#""mcp-session-id": "s""#, r#""mcp-session-id": "session-1""#);

impl Record {
    /// Everything said, in order, with the session under its pseudonym.
    pub fn outputs_redacted(&self) -> Vec<String> {
        self.outputs().into_iter().map(|output| output.replace(SESSION.0, SESSION.1)).collect()
    }

    /// The log as text.
    pub fn recorded(&self) -> Vec<String> {
        let (mut recorder, first) = Recorder::start(&config(), self.seed, Time(0));
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
            said.extend(drain(&mut proxy).into_iter().map(|output| format!("{output:?}")));
        }
        said
    }
}
