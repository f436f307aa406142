//! The flight recorder on the bench: when a test is over, what its machine was
//! told is read back from the recording, and a second machine has to say the
//! same to it.

use bytes::Bytes;
use http::Request;
use mcp_proxy_core::record::{Reader, Recorder};
use mcp_proxy_core::{Config, Input, Output, Time};

pub struct Tape {
    recorder: Recorder,
    lines: Vec<String>,
    said: Vec<String>,
}

impl Tape {
    pub fn start(config: &Config, seed: u64) -> Self {
        let (recorder, first) = Recorder::start(config, seed, Time(0));
        Self { recorder, lines: vec![first], said: Vec::new() }
    }

    pub fn told(&mut self, now: u64, input: &Input<'_>) {
        self.lines.push(self.recorder.line(Time(now), input));
    }

    pub fn said(&mut self, output: &Output) {
        self.said.push(described(output));
    }

    pub fn check(&self) {
        let (first, facts) = self.lines.split_first().unwrap();
        let (mut reader, start) = Reader::start(first).unwrap();
        let mut proxy = start.machine();
        let mut said = Vec::new();
        for line in facts {
            let (at, fact) = reader.next(line).unwrap();
            proxy.handle(at, fact.input());
            said.extend(std::iter::from_fn(|| proxy.poll()).map(|output| described(&output)));
        }
        assert_eq!(self.said, said, "the recording says something else:\n{}", self.lines.join("\n"));
    }
}

fn described(output: &Output) -> String {
    match output {
        Output::Call(id, request) => format!("{id:?} {}", outline(request)),
        // Not by `Debug`, which takes long over megabytes.
        Output::Write(_, line) => format!("write {}", String::from_utf8_lossy(line)),
        Output::Send(id, bytes) => format!("{id:?} send {}", String::from_utf8_lossy(bytes)),
        // The session has another name in a recording.
        Output::Respond(id, parts) => format!("{id:?} {} {:?}", parts.status, parts.headers.keys().collect::<Vec<_>>()),
        Output::Cancel(_)
        | Output::Finish(_)
        | Output::Abort(_)
        | Output::Snapshot(_)
        | Output::Note(_)
        | Output::Exit(_) => format!("{output:?}"),
    }
}

/// A request without what a recording leaves out: the values of headers, and
/// parts of the URL.
fn outline(request: &Request<Bytes>) -> String {
    let names: Vec<_> = request.headers().keys().collect();
    let (method, uri) = (request.method(), request.uri());
    let body = String::from_utf8_lossy(request.body());
    format!("{method} {:?} {} {names:?} {body}", uri.authority(), uri.to_string().len())
}
