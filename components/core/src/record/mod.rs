//! The flight recorder: a run as text, one JSON object per line. The first line describes
//! how the machine was made ([`Start`]); each later line is a fact and its time
//! ([`Fact`]). A [`Recorder`] writes lines and a [`Reader`] reads them. A replayed
//! machine produces the same output as the recorded one, byte for byte, except for what
//! `redact` removes. Files, streams and presentation belong to the shells.

mod fact;
mod line;
mod redact;
mod snapshot;
mod start;
mod text;

pub(crate) use redact::url as shown_path;

pub use fact::Fact;
pub use start::Start;

use crate::boundary::Input;
use crate::config::Config;
use crate::time::Time;
use line::Line;
use redact::Redactor;
use serde::Serialize;
use start::Opening;
use std::fmt;

/// Writes the lines of one run. No line contains an LF.
#[derive(Debug, Default)]
pub struct Recorder {
    redactor: Redactor,
}

impl Recorder {
    /// Starts a recording. Returns the recorder and the first line, which describes the
    /// machine.
    #[must_use]
    pub fn start(config: &Config, seed: u64, now: Time) -> (Self, String) {
        let mut redactor = Redactor::default();
        let opening = Opening::new(config, seed, now, &mut redactor);
        (Self { redactor }, written(&opening))
    }

    /// The line for a fact that the machine handled at `now`.
    pub fn line(&mut self, now: Time, input: &Input<'_>) -> String {
        written(&Line::new(now, input, &mut self.redactor))
    }
}

/// Reads the lines of one run, in order.
#[derive(Debug)]
pub struct Reader {
    /// Lines read.
    count: usize,
}

impl Reader {
    /// Reads the first line.
    ///
    /// # Errors
    /// If it is not the first line of a recording that this build can read.
    pub fn start(line: &str) -> Result<(Self, Start), RecordError> {
        let start = start::parse(line).map_err(|reason| RecordError { line: 1, reason })?;
        Ok((Self { count: 1 }, start))
    }

    /// Reads the next line.
    ///
    /// # Errors
    /// If the line is no fact; a reader can go on after it.
    pub fn next(&mut self, line: &str) -> Result<(Time, Fact), RecordError> {
        self.count += 1;
        let line: Result<Line<'_>, _> = serde_json::from_str(line);
        let fact = line.map_err(|error| error.to_string()).and_then(Line::fact);
        fact.map_err(|reason| RecordError { line: self.count, reason })
    }
}

/// A line that the reader cannot parse.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordError {
    /// The line number, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub reason: String,
}

impl fmt::Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.reason)
    }
}

impl std::error::Error for RecordError {}

/// Recorded values have no keys or numbers that JSON cannot represent.
fn written(line: &impl Serialize) -> String {
    serde_json::to_string(line).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::boundary::{CallError, CallId, ExchangeId, Side, Sink};
    use bytes::Bytes;
    use http::Response;

    fn again(input: &Input<'_>) -> String {
        let mut recorder = Recorder::default();
        let line = recorder.line(Time(7), input);
        assert!(!line.contains('\n'), "{line}");
        let mut reader = Reader { count: 1 };
        let (at, fact) = reader.next(&line).unwrap();
        assert_eq!(at, Time(7));
        format!("{:?}", fact.input())
    }

    fn head(headers: &[(&str, &[u8])]) -> Input<'static> {
        let mut response = Response::builder().status(200);
        for (name, value) in headers {
            response = response.header(*name, *value);
        }
        Input::Head(CallId(1), response.body(()).unwrap().into_parts().0)
    }

    fn request() -> Input<'static> {
        let request = http::Request::post("/mcp").header("accept", "*/*").header("mcp-session-id", "session-1");
        Input::Request(ExchangeId(6), request.body(()).unwrap().into_parts().0, Bytes::from_static(b"{}"))
    }

    #[test]
    fn every_input_comes_back_as_it_was() {
        let errors = [
            CallError::Refused,
            CallError::Unresolved,
            CallError::ConnectTimeout,
            CallError::Tls,
            CallError::Denied,
            CallError::Reset,
            CallError::Protocol,
        ];
        let inputs = [
            Input::Tick,
            Input::Bytes(Side::Client, b"{\"id\":1}\r\n\0\x1e\x7f"),
            Input::Bytes(Side::Client, b""),
            Input::Eof(Side::Client),
            head(&[("content-type", b"text/event-stream"), ("server", b"a\xff"), ("server", b"b")]),
            Input::Chunk(CallId(u64::MAX), b"caf\xc3"),
            Input::Chunk(CallId(2), b"\xa9\xff\xfe\xc3\xa9"),
            Input::End(CallId(3)),
            Input::Flushed(Sink::Side(Side::Client), usize::MAX),
            Input::Flushed(Sink::Call(CallId(4)), 0),
            Input::Flushed(Sink::Exchange(ExchangeId(4)), 9),
            Input::Gone(ExchangeId(5)),
            request(),
            Input::Shutdown,
        ];
        let failures = errors.map(|error| Input::Failed(CallId(5), error, "in words"));
        for input in inputs.into_iter().chain(failures) {
            assert_eq!(again(&input), format!("{input:?}"));
        }
    }

    #[test]
    fn the_lines_are_what_the_format_says() {
        let mut recorder = Recorder::default();
        let mut line = |input| recorder.line(Time(7), &input);
        assert_eq!(line(Input::Tick), r#"{"at":7,"input":"tick"}"#);
        assert_eq!(line(Input::Bytes(Side::Client, b"{}\n")), r#"{"at":7,"input":"client-bytes","bytes":"{}\n"}"#);
        assert_eq!(
            line(Input::Chunk(CallId(1), b"a\xff\xfeb")),
            r#"{"at":7,"input":"chunk","call":1,"bytes":["a","ff","","fe","b",""]}"#
        );
        assert_eq!(
            line(head(&[("mcp-session-id", b"x"), ("x-key", b"y")])),
            r#"{"at":7,"input":"head","call":1,"status":200,"headers":[["mcp-session-id","session-1"],["x-key","redacted"]]}"#
        );
    }

    #[test]
    fn a_bad_line_is_named() {
        let (_, first) = Recorder::start(&Config::new("http://h/").unwrap(), 1, Time(0));
        let cases = [
            "",
            "{",
            "[]",
            r#"{"at":1}"#,
            r#"{"at":-1,"input":"tick"}"#,
            r#"{"at":1,"input":"tock"}"#,
            r#"{"at":1,"input":"tick","more":1}"#,
            r#"{"at":1,"input":"tick"}{}"#,
            r#"{"at":1,"input":"chunk","call":1}"#,
            r#"{"at":1,"input":"chunk","bytes":"a"}"#,
            r#"{"at":1,"input":"chunk","call":1,"bytes":7}"#,
            r#"{"at":1,"input":"chunk","call":1,"bytes":["a","f"]}"#,
            r#"{"at":1,"input":"chunk","call":1,"bytes":["a","é"]}"#,
            r#"{"at":1,"input":"failed","call":1,"error":"tired"}"#,
            r#"{"at":1,"input":"head","call":1,"status":99,"headers":[]}"#,
            r#"{"at":1,"input":"head","call":1,"status":200,"headers":[["a b","c"]]}"#,
            r#"{"at":1,"input":"head","call":1,"status":200,"headers":[["a","\n"]]}"#,
        ];
        for case in cases {
            let (mut reader, _) = Reader::start(&first).unwrap();
            reader.next(r#"{"at":1,"input":"tick"}"#).unwrap();
            let error = reader.next(case).unwrap_err().to_string();
            assert!(error.starts_with("line 3: "), "{case}: {error}");
        }
    }
}
