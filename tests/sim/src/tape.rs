//! A run as the flight recorder writes it, together with the machine's outputs, so that
//! tests can compare the outputs with those of a replay. Kept only on request.

use mcp_proxy_core::record::{Reader, RecordError, Recorder};
use mcp_proxy_core::{ClientTransport, Config, Input, Output, Time};

/// The text before the session in the endpoint of a simulated HTTP+SSE server.
const ENDPOINT: &str = "messages?s=";

#[derive(Debug, Default)]
pub(crate) struct Tape {
    recording: Option<Recording>,
    /// From here on, the lines are another machine's.
    stopped: bool,
}

/// A recorded run.
#[derive(Debug)]
pub struct Recording {
    recorder: Recorder,
    /// The recording, line by line.
    pub lines: Vec<String>,
    /// The machine's outputs, with pseudonyms for sessions.
    pub said: Vec<String>,
    sessions: Vec<String>,
}

impl Tape {
    pub(crate) fn on(config: &Config, seed: u64) -> Self {
        let (recorder, first) = Recorder::start(config, seed, Time(0));
        let session = match &config.client {
            ClientTransport::Lines => None,
            ClientTransport::Http(client) => Some(format!("{:?}", client.session)),
        };
        let sessions = session.into_iter().collect();
        let recording = Recording { recorder, lines: vec![first], said: Vec::new(), sessions };
        Self { recording: Some(recording), stopped: false }
    }

    pub(crate) fn told(&mut self, now: u64, input: &Input<'_>) {
        if let Some(recording) = self.recording.as_mut().filter(|_| !self.stopped) {
            recording.told(now, input);
        }
    }

    pub(crate) fn said(&mut self, output: &Output) {
        if let Some(recording) = self.recording.as_mut().filter(|_| !self.stopped) {
            let said = recording.redacted(output);
            recording.said.push(said);
        }
    }

    pub(crate) fn stop(&mut self) {
        self.stopped = true;
    }

    pub(crate) fn recording(self) -> Option<Recording> {
        self.recording
    }
}

impl Recording {
    /// The outputs of a machine that is made from the recording alone.
    ///
    /// # Errors
    /// If the recording is unreadable.
    pub fn replay(&self) -> Result<Vec<String>, RecordError> {
        let mut lines = self.lines.iter().map(String::as_str);
        let (mut reader, start) = Reader::start(lines.next().unwrap_or_default())?;
        let mut proxy = start.machine();
        let mut said = Vec::new();
        for line in lines {
            let (at, fact) = reader.next(line)?;
            proxy.handle(at, fact.input());
            said.extend(std::iter::from_fn(|| proxy.poll()).map(|output| covered(&format!("{output:?}"))));
        }
        Ok(said)
    }

    fn told(&mut self, now: u64, input: &Input<'_>) {
        self.lines.push(self.recorder.line(Time(now), input));
        let headers = match input {
            Input::Head(_, parts) => &parts.headers,
            Input::Request(_, parts, _) => &parts.headers,
            Input::Tick
            | Input::Bytes(..)
            | Input::Eof(_)
            | Input::Gone(_)
            | Input::Chunk(..)
            | Input::End(_)
            | Input::Failed(..)
            | Input::Flushed(..)
            | Input::Waiting(_)
            | Input::Stop
            | Input::Shutdown => return,
        };
        let shown = headers.get("mcp-session-id").map(|id| format!("{id:?}"));
        self.sessions.extend(shown.filter(|id| !self.sessions.contains(id)));
    }

    fn redacted(&self, output: &Output) -> String {
        let header = |id: &str| format!("\"mcp-session-id\": {id}");
        let numbered = self.sessions.iter().zip(1..);
        numbered.fold(covered(&format!("{output:?}")), |text, (id, number)| {
            text.replace(&header(id), &header(&format!("\"session-{number}\"")))
        })
    }
}

/// The same text with the sessions in endpoints masked, as in a recording.
fn covered(text: &str) -> String {
    let mut parts = text.split(ENDPOINT);
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |told, part| {
        let rest = part.trim_start_matches(|letter: char| letter.is_alphanumeric() || letter == '*');
        told + ENDPOINT + "*" + rest
    })
}
