//! A run as the flight recorder writes it, and what a machine says that is
//! made from the text alone.

use super::client::SESSION;
use super::record::{Record, drain};
use mcp_proxy_core::record::{Reader, Recorder};
use mcp_proxy_core::{ClientTransport, Time};

/// Session ids, and what the recorder makes of them in the order in which it sees
/// them: the server's alone, or the client's first. It may not see the end of an
/// endpoint that comes in pieces.
const SERVER_ONLY: [(&str, &str); 1] = [(r#""mcp-session-id": "s""#, r#""mcp-session-id": "session-1""#)];
const CLIENT_FIRST: [(&str, &str); 2] =
    [(SESSION, "session-1"), (r#""mcp-session-id": "s""#, r#""mcp-session-id": "session-2""#)];
const ENDPOINTS: [(&str, &str); 3] = [("?s=1", "?s=*"), ("?s=2", "?s=*"), ("?s=3", "?s=*")];

impl Record {
    /// Everything said, in order, with the session under its pseudonym.
    pub fn outputs_redacted(&self) -> Vec<String> {
        self.outputs().into_iter().map(|output| self.redacted(output)).collect()
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
            said.extend(drain(&mut proxy).into_iter().map(|output| self.redacted(format!("{output:?}"))));
        }
        said
    }
    fn redacted(&self, output: String) -> String {
        let sessions = match self.config.client {
            ClientTransport::Lines => SERVER_ONLY.as_slice(),
            ClientTransport::Http(_) => CLIENT_FIRST.as_slice(),
        };
        sessions.iter().chain(&ENDPOINTS).fold(output, |output, (id, name)| output.replace(id, name))
    }
}
