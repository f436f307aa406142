//! HTTP+SSE of 2024-11-05. One stream names the endpoint for messages and carries all
//! messages from the server. The stream *is* the session: when it ends, the server no
//! longer answers requests sent in it. Streamable HTTP does not belong here.

use super::call::{Call, State};
use super::classify::{LONGEST_URL, SendMode};
use super::exchanges::Exchanges;
use super::http::Report;
use super::reopen::Reopenings;
use crate::boundary::{CallError, CallId};
use crate::config::Config;
use crate::failure::{Attempt, Delivered, Failure, Phase};
use crate::note::Note;
use crate::outgoing::{Outgoing, Purpose};
use crate::time::{Deadline, Time, Why};
use crate::wire::sse::Event;
use bytes::Bytes;
use http::StatusCode;
use std::time::Duration;
use url::Url;

/// How long to wait for the response to a message if the session ended during its POST.
const STRANDED: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
pub(crate) struct SseSession {
    endpoint: Endpoint,
    /// The proxy has sent a handshake over this stream.
    greeted: bool,
    /// A gateway strips the beginning of the path, and the server does not know.
    prefixed: bool,
    pub(super) reopenings: Reopenings,
    basis: Basis,
}

/// Why the proxy uses HTTP+SSE.
#[derive(Debug, Default)]
enum Basis {
    /// The user said so, or a stream has named its endpoint.
    #[default]
    Certain,
    /// The server refused this attempt like a server of HTTP+SSE.
    Refused(Attempt),
    /// Another machine found it out.
    Remembered,
}

/// Whether the proxy can send messages.
#[derive(Debug, Default)]
enum Endpoint {
    /// There is no stream.
    #[default]
    Closed,
    /// The stream must name the endpoint by this time.
    Opening(Time),
    /// Messages go to this URL.
    Open(Url),
}

/// Whether HTTP+SSE is still the proxy's best guess.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Guess {
    Stands,
    Wrong,
}

impl SseSession {
    /// A session that is only a guess, based on this attempt.
    pub(super) fn guessed(attempt: Attempt, handshake: bool) -> Self {
        Self { basis: Basis::Refused(attempt), greeted: handshake, ..Self::default() }
    }

    /// A session that another machine would open.
    pub(super) fn remembered() -> Self {
        Self { basis: Basis::Remembered, ..Self::default() }
    }

    /// When the server must have named its endpoint.
    pub(super) fn deadline(&self) -> Option<Deadline> {
        match self.endpoint {
            Endpoint::Opening(at) => Some(Deadline { at, why: Why::Endpoint }),
            Endpoint::Closed | Endpoint::Open(_) => None,
        }
    }

    pub(super) fn opening(&self) -> bool {
        matches!(self.endpoint, Endpoint::Opening(_))
    }

    /// Another URL for a message that the named endpoint does not know: a gateway may
    /// have stripped the prefix of the server's path.
    pub(super) fn second_endpoint(&self, base: &Url, call: &Call) -> Option<Url> {
        let first = matches!(&self.endpoint, Endpoint::Open(url) if *url == call.url);
        let possible = first && !self.prefixed && call.mode == SendMode::Post;
        under_prefix(base, &call.url).filter(|url| possible && *url != call.url)
    }

    /// The server accepted a message at `url`, so that is the endpoint.
    pub(super) fn proven(&mut self, base: &Url, url: &Url) {
        if let Endpoint::Open(endpoint) = &self.endpoint
            && endpoint != url
        {
            self.prefixed = under_prefix(base, endpoint).as_ref() == Some(url);
            self.endpoint = Endpoint::Open(url.clone());
        }
    }

    /// The stream named its endpoint.
    fn named(&mut self, now: Time, stream: &Url, data: &str) -> Result<(), String> {
        let url = resolve(stream, data)?;
        let prefixed = under_prefix(stream, &url).filter(|_| self.prefixed);
        self.endpoint = Endpoint::Open(prefixed.unwrap_or(url));
        self.reopenings.opened(now);
        self.basis = Basis::Certain;
        Ok(())
    }

    fn closed(&mut self) {
        (self.endpoint, self.greeted) = (Endpoint::Closed, false);
    }
}

/// The session together with the calls that depend on it.
pub(super) struct Sse<'a> {
    pub(super) session: &'a mut SseSession,
    pub(super) exchanges: &'a mut Exchanges,
    pub(super) config: &'a Config,
}

impl Sse<'_> {
    /// Sends a message to the endpoint, or keeps it until the stream has named one.
    pub(super) fn send(&mut self, now: Time, id: CallId, mut call: Call) {
        if let Endpoint::Open(url) = &self.session.endpoint {
            call.url = url.clone();
            return self.exchanges.start_as(now, id, call, SendMode::Post, self.config);
        }
        self.exchanges.keep(id, call, State::AwaitEndpoint);
        self.open(now);
    }

    /// Prepares for a handshake: every session needs its own stream.
    pub(super) fn renew(&mut self, now: Time) {
        if self.session.greeted {
            self.stop_stream();
            self.end(now, None);
        }
        self.session.greeted = true;
    }

    fn stop_stream(&mut self) {
        self.exchanges.stop_where(|call| call.purpose == Some(Purpose::Stream));
    }

    /// Opens the stream unless it is open.
    fn open(&mut self, now: Time) {
        if matches!(self.session.endpoint, Endpoint::Closed) {
            self.session.endpoint = Endpoint::Opening(now.after(self.config.endpoint_timeout));
            let outgoing = Outgoing::new(Purpose::Stream, Bytes::new());
            let call = Call::new(now, outgoing, self.config.url.clone());
            self.exchanges.start(now, call, SendMode::Stream, self.config);
        }
    }

    /// Handles an event of the stream. The first one must name the endpoint.
    pub(super) fn event(&mut self, now: Time, id: CallId, event: Event) -> Guess {
        let named = event.kind == b"endpoint";
        let why = match (self.session.opening(), named) {
            (true, true) => match self.endpoint(now, id, event) {
                Ok(()) => return Guess::Stands,
                Err(why) => Failure::new(Phase::Session, Delivered::No, why),
            },
            (true, false) => {
                let kind = if event.kind.is_empty() { "message".into() } else { String::from_utf8_lossy(&event.kind) };
                let why = format!("its event stream begins with `{kind}`, not with `endpoint`");
                Failure::body(StatusCode::OK, &why, &[])
            }
            (false, true) => {
                self.exchanges.note(Note::SecondEndpoint);
                return Guess::Stands;
            }
            (false, false) => {
                self.exchanges.message_event(id, event);
                return Guess::Stands;
            }
        };
        self.exchanges.stop(id);
        self.not_opened(why)
    }

    fn endpoint(&mut self, now: Time, id: CallId, event: Event) -> Result<(), String> {
        let Some(stream) = self.exchanges.calls.get(id).map(|call| call.url.clone()) else { return Ok(()) };
        let data = event.data.unwrap_or_default();
        self.session.named(now, &stream, &String::from_utf8_lossy(&data))?;
        self.exchanges.note(Note::StreamOpened);
        for (id, call) in self.exchanges.take_where(|call| matches!(call.state, State::AwaitEndpoint)) {
            self.send(now, id, call);
        }
        Ok(())
    }

    /// The stream named no endpoint, so the waiting messages fail.
    pub(super) fn not_opened(&mut self, failure: Failure) -> Guess {
        self.session.closed();
        let (failure, guess) = match std::mem::take(&mut self.session.basis) {
            Basis::Certain => (failure.undelivered(), Guess::Stands),
            Basis::Remembered => (failure.undelivered(), Guess::Wrong),
            Basis::Refused(first) => {
                let attempts = vec![first, Attempt::new("GET", &failure)];
                (Failure { hint: failure.hint, ..Failure::undetected(attempts) }, Guess::Wrong)
            }
        };
        for (_, call) in self.exchanges.take_where(|call| matches!(call.state, State::AwaitEndpoint)) {
            self.exchanges.fail(&call, failure.clone());
        }
        guess
    }

    /// Checks whether the server has named its endpoint in time.
    pub(super) fn tick(&mut self, now: Time) -> Guess {
        if self.session.deadline().is_none_or(|deadline| deadline.at > now) {
            return Guess::Stands;
        }
        self.stop_stream();
        let (limit, what) = (self.config.endpoint_timeout, "the server's event stream named no endpoint within");
        self.not_opened(Failure::late(Phase::Session, Delivered::No, what, limit, "--endpoint-timeout"))
    }

    /// The stream ended, before or after it named the endpoint.
    pub(super) fn lost(&mut self, now: Time, hint: Option<Duration>, error: Option<CallError>) -> Guess {
        if self.session.opening() {
            let why = "its event stream ended before it named an endpoint";
            return self.not_opened(Failure::body(StatusCode::OK, why, &[]));
        }
        self.session.reopenings.lost(now, hint);
        self.exchanges.note(Note::StreamLost);
        self.exchanges.report(Report::SessionEnded);
        self.end(now, error);
        Guess::Stands
    }

    /// No message sent in the session will be answered. Messages that have not left, or
    /// that are safe to repeat, go into the next session. The server may still refuse a
    /// message that is being posted; then it did not execute it.
    fn end(&mut self, now: Time, error: Option<CallError>) {
        self.session.closed();
        let concerned = |call: &Call| {
            let sent = matches!(call.state, State::AwaitHead | State::AwaitAnswer(_)) && call.mode == SendMode::Post;
            matches!(call.state, State::AwaitRetry(_)) || (sent && call.traits().wants_answer())
        };
        for (id, mut call) in self.exchanges.take_where(concerned) {
            let once = matches!(call.purpose, Some(Purpose::Request { repeatable: false, .. }));
            if once && matches!(call.state, State::AwaitHead) {
                call.stranded = call.stranded.or(Some(now.after(STRANDED)));
                self.exchanges.calls.put(id, call);
                continue;
            }
            self.exchanges.cancel(id, &call);
            let sent = !call.unsent_message();
            let failure = if sent {
                Failure::stream(error, &call.url)
            } else {
                Failure::call(error.unwrap_or(CallError::Reset), "", &call.url)
            };
            // The proxy's own messages and answers to questions belong to the ended
            // session.
            let again = match call.purpose {
                Some(Purpose::Notification) => true,
                _ => call.traits().of_client && (call.traits().repeatable || !sent),
            };
            if !again {
                self.exchanges.fail(&call, failure);
                continue;
            }
            if sent {
                call.outgoing.delivered = Delivered::Maybe;
            }
            self.exchanges.report(Report::SessionGone(call.outgoing, failure));
        }
    }
}

/// Resolves the endpoint that the stream at `stream` names. It must have the same origin.
fn resolve(stream: &Url, data: &str) -> Result<Url, String> {
    let url = stream.join(data.trim()).map_err(|_| "the server named an endpoint that is no URL".to_owned())?;
    if url.as_str().len() > LONGEST_URL {
        return Err(format!("the server named an endpoint that is longer than {LONGEST_URL} bytes"));
    }
    if url.origin() != stream.origin() {
        let origin = url.origin().ascii_serialization();
        return Err(format!("the server named an endpoint on another origin, {origin}, which is not trusted"));
    }
    Ok(url)
}

/// The endpoint's path, below the folder of the stream.
fn under_prefix(stream: &Url, endpoint: &Url) -> Option<Url> {
    let (folder, _) = stream.path().rsplit_once('/')?;
    if folder.is_empty() || endpoint.path().starts_with(&format!("{folder}/")) {
        return None;
    }
    let mut url = endpoint.clone();
    url.set_path(&format!("{folder}{}", endpoint.path()));
    Some(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    #[test]
    fn an_endpoint_is_resolved_against_the_stream_and_stays_on_its_origin() {
        let stream = url("https://h:8/a/sse?k=1");
        let cases = [
            ("/messages?s=1", "https://h:8/messages?s=1"),
            ("messages", "https://h:8/a/messages"),
            ("?sessionId=1", "https://h:8/a/sse?sessionId=1"),
            (" https://h:8/m\n", "https://h:8/m"),
            ("", "https://h:8/a/sse?k=1"),
        ];
        for (data, want) in cases {
            assert_eq!(resolve(&stream, data).unwrap().as_str(), want, "{data}");
        }
        for refused in ["https://evil.example/m", "http://h:8/m", "https://h/m", "//evil/m", "file:///m", "http://["] {
            assert!(resolve(&stream, refused).is_err(), "{refused}");
        }
    }

    #[test]
    fn a_stripped_prefix_is_put_back_once() {
        let prefix = |stream, endpoint| under_prefix(&url(stream), &url(endpoint)).map(String::from);
        let want = Some("https://h/team/a/messages?s=1".to_owned());
        assert_eq!(prefix("https://h/team/a/sse", "https://h/messages?s=1"), want);
        assert_eq!(prefix("https://h/team/a/sse", "https://h/team/a/messages"), None);
        assert_eq!(prefix("https://h/sse", "https://h/messages"), None);
    }
}
