//! The first line: the format's version and how the machine was made. Only this module
//! knows every setting by name, and a setting that is missing here does not compile. Facts do
//! not belong here.

use super::redact::{self, REDACTED, Redactor};
use super::{line, snapshot};
use crate::config::{ClientTransport, Config, Era, Found, HttpTransport, KeepAlive, Snapshot, Transport};
use crate::proxy::Proxy;
use crate::quirks::Quirks;
use crate::time::{Time, millis};
use http::{HeaderMap, HeaderName, HeaderValue};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The format that this build writes, and the only one that it reads.
const FORMAT: u32 = 1;

/// How a recorded machine was made.
#[derive(Debug, Clone)]
pub struct Start {
    /// The settings, redacted.
    pub config: Config,
    /// The seed.
    pub seed: u64,
    /// When the machine was made.
    pub now: Time,
    /// The version of mcp-proxy that made the recording.
    pub version: String,
}

impl Start {
    /// Makes a machine like the recorded one.
    #[must_use]
    pub fn machine(&self) -> Proxy {
        Proxy::new(&self.config, self.seed, self.now)
    }
}

/// The line: a redacted [`Config`], and the machine's other inputs. Times are in
/// milliseconds. A setting added after a release needs a default, so that later
/// builds can still read older recordings.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Opening {
    #[serde(rename = "mcp-proxy-record")]
    format: u32,
    version: String,
    seed: u64,
    start: u64,
    url: String,
    /// Names only, each as often as it is sent.
    headers: Vec<String>,
    #[serde(with = "TransportWord")]
    transport: Transport,
    #[serde(with = "EraWord", default = "legacy")]
    era: Era,
    request_timeout: Option<u64>,
    first_byte_timeout: Option<u64>,
    endpoint_timeout: u64,
    total_timeout: Option<u64>,
    retries: u32,
    max_message: u64,
    keep_alive: Liveness,
    #[serde(with = "QuirksForm")]
    quirks: Quirks,
    drain_timeout: u64,
    #[serde(default = "yes")]
    redirects: bool,
    #[serde(default)]
    trace: bool,
    #[serde(default)]
    http: Option<HttpForm>,
}

fn yes() -> bool {
    true
}

/// Machines from before this setting knew only sessions.
fn legacy() -> Era {
    Era::Legacy
}

/// An [`HttpTransport`] with the pseudonym of its session.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct HttpForm {
    session: String,
    most_open: u64,
    queue_bytes: u64,
    replay_events: u64,
    replay_bytes: u64,
    #[serde(default)]
    hold: u64,
    heartbeat: u64,
    patience: u64,
    recovers: bool,
    #[serde(default)]
    challenges: bool,
    #[serde(default)]
    states: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    resumed: Option<snapshot::Form>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    found: Option<FoundForm>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    left: Vec<(String, String)>,
}

/// A [`Found`] in the words of the settings.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FoundForm {
    #[serde(with = "EraWord")]
    era: Era,
    #[serde(with = "TransportWord")]
    transport: Transport,
}

impl HttpForm {
    fn new(client: &HttpTransport, redactor: &mut Redactor) -> Self {
        let HttpTransport {
            session,
            most_open,
            queue_bytes,
            replay_events,
            replay_bytes,
            hold,
            heartbeat,
            patience,
            recovers,
            challenges,
            states,
            resumed,
            found,
            left,
        } = client;
        let number = |size: usize| u64::try_from(size).unwrap_or(u64::MAX);
        Self {
            session: redactor.pseudonym(session).to_str().unwrap_or(REDACTED).to_owned(),
            most_open: number(*most_open),
            queue_bytes: number(*queue_bytes),
            replay_events: number(*replay_events),
            replay_bytes: number(*replay_bytes),
            hold: millis(*hold),
            heartbeat: millis(*heartbeat),
            patience: millis(*patience),
            recovers: *recovers,
            challenges: *challenges,
            states: states.clone(),
            resumed: resumed.as_ref().map(snapshot::Form::from),
            left: left.iter().map(|(name, value)| named(name, value, redactor)).collect(),
            found: found.map(|Found { era, transport }| FoundForm { era, transport }),
        }
    }

    fn client(self) -> Result<HttpTransport, String> {
        Ok(HttpTransport {
            session: HeaderValue::try_from(self.session).map_err(|error| error.to_string())?,
            most_open: line::size(self.most_open),
            queue_bytes: line::size(self.queue_bytes),
            replay_events: line::size(self.replay_events),
            replay_bytes: line::size(self.replay_bytes),
            hold: Duration::from_millis(self.hold),
            heartbeat: Duration::from_millis(self.heartbeat),
            patience: Duration::from_millis(self.patience),
            recovers: self.recovers,
            challenges: self.challenges,
            states: self.states,
            resumed: self.resumed.map(Snapshot::from),
            left: self.left.into_iter().map(header).collect::<Result<_, _>>()?,
            found: self.found.map(|FoundForm { era, transport }| Found { era, transport }),
        })
    }
}

/// A header whose value is a pseudonym.
fn named(name: &HeaderName, value: &HeaderValue, redactor: &mut Redactor) -> (String, String) {
    (name.to_string(), redactor.pseudonym(value).to_str().unwrap_or(REDACTED).to_owned())
}

fn header((name, value): (String, String)) -> Result<(HeaderName, HeaderValue), String> {
    let name = HeaderName::try_from(name).map_err(|error| error.to_string())?;
    Ok((name, HeaderValue::try_from(value).map_err(|error| error.to_string())?))
}

impl Opening {
    pub(super) fn new(config: &Config, seed: u64, now: Time, redactor: &mut Redactor) -> Self {
        // Name every setting: one that is missing does not compile.
        let Config {
            url,
            transport,
            era,
            headers,
            request_timeout,
            first_byte_timeout,
            endpoint_timeout,
            total_timeout,
            retries,
            max_message,
            keep_alive,
            quirks,
            drain_timeout,
            redirects,
            trace,
            client,
        } = config;
        Self {
            format: FORMAT,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            seed,
            start: now.0,
            url: redact::url(url.as_str()),
            headers: headers.iter().map(|(name, _)| name.as_str().to_owned()).collect(),
            transport: *transport,
            era: *era,
            request_timeout: request_timeout.map(millis),
            first_byte_timeout: first_byte_timeout.map(millis),
            endpoint_timeout: millis(*endpoint_timeout),
            total_timeout: total_timeout.map(millis),
            retries: *retries,
            max_message: u64::try_from(*max_message).unwrap_or(u64::MAX),
            keep_alive: Liveness::from(*keep_alive),
            quirks: *quirks,
            drain_timeout: millis(*drain_timeout),
            redirects: *redirects,
            trace: *trace,
            http: match client {
                ClientTransport::Lines => None,
                ClientTransport::Http(client) => Some(HttpForm::new(client, redactor)),
            },
        }
    }

    fn start(self) -> Result<Start, String> {
        let mut headers = HeaderMap::new();
        for name in self.headers {
            let name = HeaderName::try_from(name).map_err(|error| error.to_string())?;
            headers.append(name, HeaderValue::from_static(REDACTED));
        }
        let time = Duration::from_millis;
        let config = Config {
            url: Config::new(&self.url).map_err(|error| error.to_string())?.url,
            transport: self.transport,
            era: self.era,
            headers,
            request_timeout: self.request_timeout.map(time),
            first_byte_timeout: self.first_byte_timeout.map(time),
            endpoint_timeout: time(self.endpoint_timeout),
            total_timeout: self.total_timeout.map(time),
            retries: self.retries,
            max_message: line::size(self.max_message),
            keep_alive: self.keep_alive.into(),
            quirks: self.quirks,
            drain_timeout: time(self.drain_timeout),
            redirects: self.redirects,
            trace: self.trace,
            client: self.http.map(HttpForm::client).transpose()?.map_or(ClientTransport::Lines, ClientTransport::Http),
        };
        Ok(Start { config, seed: self.seed, now: Time(self.start), version: self.version })
    }
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Transport", rename_all = "kebab-case")]
enum TransportWord {
    Auto,
    StreamableHttp,
    Sse,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Era", rename_all = "kebab-case")]
enum EraWord {
    Auto,
    Legacy,
    Modern,
}

/// A [`KeepAlive`] in milliseconds.
#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Liveness {
    Auto,
    Off,
    Every(u64),
}

impl From<KeepAlive> for Liveness {
    fn from(pulse: KeepAlive) -> Self {
        match pulse {
            KeepAlive::Auto => Self::Auto,
            KeepAlive::Off => Self::Off,
            KeepAlive::Every(silence) => Self::Every(millis(silence)),
        }
    }
}

impl From<Liveness> for KeepAlive {
    fn from(pulse: Liveness) -> Self {
        match pulse {
            Liveness::Auto => Self::Auto,
            Liveness::Off => Self::Off,
            Liveness::Every(silence) => Self::Every(Duration::from_millis(silence)),
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Quirks", deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "they are switches, each on its own")]
struct QuirksForm {
    any_success: bool,
    null_id: bool,
    blank_lines: bool,
    byte_order_mark: bool,
    pretty_json: bool,
    line_separators: bool,
    late_answers: bool,
    cookies: bool,
    session_gone: bool,
    stripped_prefix: bool,
}

pub(super) fn parse(line: &str) -> Result<Start, String> {
    /// The member that every version of the format has.
    #[derive(Deserialize)]
    struct Version {
        #[serde(rename = "mcp-proxy-record")]
        format: u32,
    }
    let none = |error: serde_json::Error| format!("not the beginning of a recording: {error}");
    let Version { format } = serde_json::from_str(line).map_err(none)?;
    if format != FORMAT {
        return Err(format!("a recording of format {format}; this build reads format {FORMAT}"));
    }
    serde_json::from_str(line).map_err(none).and_then(Opening::start)
}

#[cfg(test)]
mod tests {
    use super::super::{Reader, Recorder};
    use super::*;

    #[test]
    fn settings_come_back_without_the_values_of_headers_and_of_the_query() {
        let mut config = Config::new("https://u:s3cret@h/mcp?key=s3cret").unwrap();
        config.headers.append("authorization", HeaderValue::from_static("s3cret"));
        config.headers.append("x-key", HeaderValue::from_static("s3cret"));
        config.headers.append("x-key", HeaderValue::from_static("s3cret, too"));
        config.transport = Transport::Sse;
        config.request_timeout = None;
        config.first_byte_timeout = Some(Duration::from_millis(1));
        config.endpoint_timeout = Duration::from_millis(2);
        config.total_timeout = Some(Duration::from_millis(3));
        config.retries = 9;
        config.max_message = 10;
        config.keep_alive = KeepAlive::Every(Duration::from_millis(4));
        config.quirks.cookies = false;
        config.drain_timeout = Duration::from_millis(1002);
        let (_, line) = Recorder::start(&config, u64::MAX, Time(5));
        assert!(!line.contains("s3cret"), "{line}");
        let (_, start) = Reader::start(&line).unwrap();
        assert_eq!((start.seed, start.now), (u64::MAX, Time(5)));
        let read = start.config;
        assert_eq!(read.url.as_str(), "https://********@h/mcp?key=******");
        let headers: Vec<_> = read.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
        assert_eq!(headers, ["authorization", "x-key", "x-key"].map(|name| (name, &b"redacted"[..])));
        let bare =
            |config: Config| format!("{:?}", Config { url: read.url.clone(), headers: HeaderMap::new(), ..config });
        assert_eq!(bare(read.clone()), bare(config));
    }

    #[test]
    fn what_is_no_recording_is_named() {
        let later = r#"{"mcp-proxy-record":2,"what":"ever"}"#;
        let cases = [
            ("", "not the beginning"),
            ("{}", "not the beginning"),
            ("GIF89", "not the beginning"),
            (later, "format 2"),
        ];
        for (line, reason) in cases {
            let error = Reader::start(line).unwrap_err().to_string();
            assert!(error.starts_with("line 1: ") && error.contains(reason), "{error}");
        }
    }
}
