//! HTTP+SSE of 2024-11-05. One stream names the endpoint for messages and carries all
//! messages from the server. The stream *is* the session: when it ends, the server no
//! longer answers requests sent in it. Streamable HTTP does not belong here.

use super::call::{Call, State};
use super::classify::{LONGEST_URL, SendMode};
use super::detect::Link;
use super::http::{HttpBack, Report};
use super::reopen::Reopenings;
use crate::backoff;
use crate::boundary::{CallError, CallId};
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
    pub(super) endpoint: Endpoint,
    /// The proxy has sent a handshake over this stream.
    greeted: bool,
    /// A gateway strips the beginning of the path, and the server does not know.
    prefixed: bool,
    pub(super) reopenings: Reopenings,
    /// The attempt that led here, while HTTP+SSE is only a guess.
    guess: Option<Attempt>,
}

/// Whether the proxy can send messages.
#[derive(Debug, Default)]
pub(super) enum Endpoint {
    /// There is no stream.
    #[default]
    Closed,
    /// The stream must name the endpoint by this time.
    Opening(Time),
    /// Messages go to this URL.
    Open(Url),
}

impl SseSession {
    /// A session that is only a guess, based on this attempt.
    pub(super) fn guessed(attempt: Attempt, handshake: bool) -> Self {
        Self { guess: Some(attempt), greeted: handshake, ..Self::default() }
    }

    /// When the server must have named its endpoint.
    pub(super) fn deadline(&self) -> Option<Deadline> {
        match self.endpoint {
            Endpoint::Opening(at) => Some(Deadline { at, why: Why::Endpoint }),
            Endpoint::Closed | Endpoint::Open(_) => None,
        }
    }

    fn opening(&self) -> bool {
        matches!(self.endpoint, Endpoint::Opening(_))
    }
}

impl HttpBack {
    /// Prepares for a handshake: every session needs its own stream.
    pub(super) fn renew_stream(&mut self, now: Time) {
        let Link::Sse(session) = &self.link else { return };
        if session.greeted {
            self.stop_stream();
            self.end_session(now, None);
        }
        if let Link::Sse(session) = &mut self.link {
            session.greeted = true;
        }
    }

    fn stop_stream(&mut self) {
        self.ids(|call| call.purpose == Some(Purpose::Stream)).into_iter().for_each(|id| self.stop(id));
    }

    /// Opens the stream unless it is open.
    pub(super) fn open_stream(&mut self, now: Time) {
        let Link::Sse(session) = &mut self.link else { return };
        if matches!(session.endpoint, Endpoint::Closed) {
            session.endpoint = Endpoint::Opening(now.after(self.config.endpoint_timeout));
            let outgoing = Outgoing::new(Purpose::Stream, Bytes::new());
            let call = Call::new(now, outgoing, self.config.url.clone());
            self.start(now, call, SendMode::Stream);
        }
    }

    /// Handles an event of the stream. The first one must name the endpoint.
    pub(super) fn stream_event(&mut self, now: Time, id: CallId, event: Event) {
        let Link::Sse(session) = &self.link else { return };
        if event.kind == b"endpoint" {
            let data = event.data.unwrap_or_default();
            return self.endpoint(now, id, &String::from_utf8_lossy(&data));
        }
        if session.opening() {
            let kind = if event.kind.is_empty() { "message".into() } else { String::from_utf8_lossy(&event.kind) };
            let why = format!("its event stream begins with `{kind}`, not with `endpoint`");
            self.stop(id);
            return self.not_opened(Failure::body(StatusCode::OK, &why, &[]));
        }
        self.message_event(id, event);
    }

    fn endpoint(&mut self, now: Time, id: CallId, data: &str) {
        let Some(stream) = self.calls.get(id).map(|call| call.url.clone()) else { return };
        let Link::Sse(session) = &self.link else { return };
        if !session.opening() {
            return self.reports.push_back(Report::Note(Note::SecondEndpoint));
        }
        let url = match resolve(&stream, data) {
            Ok(url) if session.prefixed => under_prefix(&stream, &url).unwrap_or(url),
            Ok(url) => url,
            Err(why) => {
                self.stop(id);
                return self.not_opened(Failure::new(Phase::Session, Delivered::No, why));
            }
        };
        let Link::Sse(session) = &mut self.link else { return };
        session.endpoint = Endpoint::Open(url);
        session.reopenings.opened(now);
        session.guess = None;
        self.reports.push_back(Report::Note(Note::StreamOpened));
        for id in self.ids(|call| matches!(call.state, State::AwaitEndpoint)) {
            if let Some(call) = self.take(id) {
                self.dispatch(now, id, call);
            }
        }
    }

    /// The stream named no endpoint, so the waiting messages fail.
    pub(super) fn not_opened(&mut self, failure: Failure) {
        let Link::Sse(session) = &mut self.link else { return };
        session.endpoint = Endpoint::Closed;
        session.greeted = false;
        let failure = match session.guess.take() {
            None => failure.undelivered(),
            Some(first) => {
                self.link = Link::Unknown;
                let attempts = vec![first, Attempt::new("GET", &failure)];
                Failure { hint: failure.hint, ..Failure::undetected(attempts) }
            }
        };
        for id in self.ids(|call| matches!(call.state, State::AwaitEndpoint)) {
            if let Some(call) = self.take(id) {
                self.fail(&call, failure.clone());
            }
        }
    }

    /// The stream could not be opened; retry a few times.
    pub(super) fn stream_unreached(&mut self, now: Time, mut call: Call, failure: Failure, passing: bool) {
        if !passing || call.cursor.unreached >= self.config.retries {
            return self.not_opened(failure);
        }
        let wait = backoff::retry(call.cursor.unreached, &mut self.rng);
        call.cursor.unreached += 1;
        let id = self.new_id();
        self.keep(id, call, State::AwaitReconnect(now.after(wait)));
    }

    /// Checks whether the server has named its endpoint in time.
    pub(super) fn sse_session_tick(&mut self, now: Time) {
        let Link::Sse(session) = &self.link else { return };
        if session.deadline().is_some_and(|deadline| deadline.at <= now) {
            self.stop_stream();
            let (limit, what) = (self.config.endpoint_timeout, "the server's event stream named no endpoint within");
            self.not_opened(Failure::late(Phase::Session, Delivered::No, what, limit, "--endpoint-timeout"));
        }
    }

    /// The stream ended, before or after it named the endpoint.
    pub(super) fn stream_lost(&mut self, now: Time, stream: &Call, error: Option<CallError>) {
        let Link::Sse(session) = &mut self.link else { return };
        if session.opening() {
            let why = "its event stream ended before it named an endpoint";
            return self.not_opened(Failure::body(StatusCode::OK, why, &[]));
        }
        session.reopenings.lost(now, stream.cursor.hint);
        self.liveness.cut(now, stream.heard.max(self.calls.touched()));
        self.reports.push_back(Report::Note(Note::StreamLost));
        self.reports.push_back(Report::SessionEnded);
        self.end_session(now, error);
    }

    /// The server did not answer a keep-alive ping. If the stream has been silent since
    /// then, it is dead, even without a reported error.
    pub(super) fn ping_lost(&mut self, now: Time, asked: Time) {
        for id in self.ids(|call| call.purpose == Some(Purpose::Stream) && call.heard.max(self.calls.touched()) < asked)
        {
            if let Some(stream) = self.take(id) {
                self.drop_exchange(id, &stream);
                self.stream_lost(now, &stream, Some(CallError::Reset));
            }
        }
    }

    /// No message sent in the session will be answered. Messages that have not left, or
    /// that are safe to repeat, go into the next session. The server may still refuse a
    /// message that is being posted; then it did not execute it.
    fn end_session(&mut self, now: Time, error: Option<CallError>) {
        if let Link::Sse(session) = &mut self.link {
            (session.endpoint, session.greeted) = (Endpoint::Closed, false);
        }
        let concerned = |call: &Call| {
            let sent = matches!(call.state, State::AwaitHead | State::AwaitAnswer(_)) && call.mode == SendMode::Post;
            matches!(call.state, State::AwaitRetry(_)) || (sent && call.traits().wants_answer())
        };
        for id in self.ids(concerned) {
            let Some(mut call) = self.take(id) else { continue };
            if matches!(call.state, State::AwaitHead)
                && matches!(call.purpose, Some(Purpose::Request { repeatable: false, .. }))
            {
                call.stranded = call.stranded.or(Some(now.after(STRANDED)));
                self.put(id, call);
                continue;
            }
            self.drop_exchange(id, &call);
            let sent = !call.unsent_message();
            let failure = if sent {
                Failure::stream(error)
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
                self.fail(&call, failure);
                continue;
            }
            if sent {
                call.outgoing.delivered = Delivered::Maybe;
            }
            self.reports.push_back(Report::SessionGone(call.outgoing, failure));
        }
    }

    /// Another URL for a message that the named endpoint does not know: a gateway may
    /// have stripped the prefix of the server's path.
    pub(super) fn second_endpoint(&self, call: &Call) -> Option<Url> {
        let Link::Sse(session) = &self.link else { return None };
        let allowed = self.config.quirks.stripped_prefix && !session.prefixed;
        let first = allowed
            && call.mode == SendMode::Post
            && matches!(&session.endpoint, Endpoint::Open(url) if *url == call.url);
        under_prefix(&self.config.url, &call.url).filter(|url| first && *url != call.url)
    }

    /// The server accepted a message at `url`, so that is the endpoint.
    pub(super) fn endpoint_proven(&mut self, url: &Url) {
        let Link::Sse(session) = &mut self.link else { return };
        if let Endpoint::Open(endpoint) = &session.endpoint
            && endpoint != url
        {
            session.prefixed = under_prefix(&self.config.url, endpoint).as_ref() == Some(url);
            session.endpoint = Endpoint::Open(url.clone());
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
