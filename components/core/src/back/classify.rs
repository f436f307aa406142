//! Response classification: what a response head means for a message. A pure table
//! without state or time.

use crate::failure::one_line;
use crate::outgoing::Purpose;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, LOCATION, RETRY_AFTER};
use http::{HeaderMap, HeaderName, StatusCode};
use std::time::Duration;
use url::Url;

pub(super) const EVENT_STREAM: &str = "text/event-stream";

/// The proxy does not follow a redirect to a longer URL.
pub(super) const LONGEST_URL: usize = 8 << 10;

/// What to do with a response.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// An event stream that carries messages.
    Events,
    /// A body that should be the answer.
    Body,
    /// Done; the body does not matter.
    Accepted,
    /// Accepted; the answer comes on the stream.
    Posted,
    /// The request belongs to another URL.
    Redirect(Url),
    /// Retry after this wait.
    Later(Duration),
    /// The server does not know the session.
    SessionGone,
    /// Refused; the body may say why.
    Refusal,
}

/// How the call is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SendMode {
    /// As a message, answered in its own response.
    Message,
    /// As a message to the endpoint of an HTTP+SSE server, which answers on its stream.
    Post,
    /// As a GET for events: a stream, or the rest of one.
    Stream,
}

pub(crate) fn classify(
    purpose: Option<Purpose>,
    mode: SendMode,
    in_session: bool,
    url: &Url,
    status: StatusCode,
    headers: &HeaderMap,
) -> Class {
    let answered = purpose.is_some_and(|purpose| purpose.traits().wants_answer());
    let events = is_type(headers, EVENT_STREAM);
    match (status.as_u16(), mode) {
        (200..=299, SendMode::Stream) if events => Class::Events,
        (200..=299, SendMode::Message | SendMode::Post) if !answered => Class::Accepted,
        (200..=299, SendMode::Post) => Class::Posted,
        (200..=299, SendMode::Message) if events => Class::Events,
        (200..=299, SendMode::Message) => Class::Body,
        (301 | 302 | 303 | 307 | 308, _) => {
            let kept = |target: &Url| keeps_request(status, mode, url, target);
            redirect(url, headers).filter(kept).map_or(Class::Refusal, Class::Redirect)
        }
        (_, SendMode::Stream) => Class::Refusal,
        (404, _) if in_session && purpose != Some(Purpose::Goodbye) => Class::SessionGone,
        (429 | 503, _) => retry_after(headers).map_or(Class::Refusal, Class::Later),
        (_, SendMode::Message | SendMode::Post) => Class::Refusal,
    }
}

/// Compares the media type without its parameters.
pub(crate) fn is_type(headers: &HeaderMap, wanted: &str) -> bool {
    let essence = text(headers, &CONTENT_TYPE).split(';').next().unwrap_or_default();
    essence.trim().eq_ignore_ascii_case(wanted)
}

/// The target of a redirect, if the proxy may follow it: the same origin, or an upgrade
/// from http on its default port to https on its default port at the same host.
fn redirect(url: &Url, headers: &HeaderMap) -> Option<Url> {
    let target = target(url, headers).filter(|target| target.as_str().len() <= LONGEST_URL)?;
    let ports = (url.port_or_known_default(), target.port_or_known_default()) == (Some(80), Some(443));
    let upgrade = url.scheme() == "http" && target.scheme() == "https" && url.host() == target.host() && ports;
    (target.origin() == url.origin() || upgrade).then_some(target)
}

/// Whether to send the same request to the target. A GET: always. A message: if the
/// status keeps the method, or if the target is the same place in another spelling, which
/// servers mean by 301 and 302.
fn keeps_request(status: StatusCode, mode: SendMode, url: &Url, target: &Url) -> bool {
    match (status.as_u16(), mode) {
        (_, SendMode::Stream) | (307 | 308, _) => true,
        (301 | 302, SendMode::Message | SendMode::Post) => {
            let path = |url: &Url| url.path().trim_end_matches('/').to_owned();
            (url.host(), path(url), url.query()) == (target.host(), path(target), target.query())
        }
        (_, SendMode::Message | SendMode::Post) => false,
    }
}

/// The target of a redirect.
pub(crate) fn target(url: &Url, headers: &HeaderMap) -> Option<Url> {
    url.join(text(headers, &LOCATION)).ok().filter(|_| headers.contains_key(LOCATION))
}

/// The announced length of the body, unless the body is encoded.
pub(crate) fn content_length(headers: &HeaderMap) -> Option<usize> {
    text(headers, &CONTENT_LENGTH).parse().ok().filter(|_| encoding(headers).is_none())
}

/// The encoding of the body, if any.
pub(super) fn encoding(headers: &HeaderMap) -> Option<String> {
    let encoding = String::from_utf8_lossy(headers.get(CONTENT_ENCODING)?.as_bytes());
    Some(one_line(&encoding)).filter(|encoding| !matches!(encoding.to_ascii_lowercase().as_str(), "" | "identity"))
}

/// Reads seconds only: a date needs a calendar clock, which the core does not have.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    text(headers, &RETRY_AFTER).trim().parse().ok().map(Duration::from_secs)
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> &'a str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::route::{Asked, Route};
    use crate::wire::message::Id;

    fn request() -> Purpose {
        Purpose::Request { key: Route::default().open(&Id::named("a"), None, Asked::Plain).unwrap(), repeatable: false }
    }

    fn read(
        purpose: Purpose,
        mode: SendMode,
        in_session: bool,
        status: u16,
        headers: &[(&'static str, &'static str)],
    ) -> Class {
        let url = Url::parse("http://h:8/a/mcp?x=1").unwrap();
        let headers = headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
        classify(Some(purpose), mode, in_session, &url, StatusCode::from_u16(status).unwrap(), &headers)
    }

    #[test]
    fn a_head_means_what_the_table_says() {
        let sse = ("content-type", "Text/Event-Stream; charset=utf-8");
        let json = ("content-type", "Application/JSON; charset=utf-8");
        let html = ("content-type", "text/html");
        let (message, stream) = (SendMode::Message, SendMode::Stream);
        let note = Purpose::Notification;
        assert_eq!(read(request(), message, true, 200, &[sse]), Class::Events);
        assert_eq!(read(request(), message, true, 200, &[json]), Class::Body);
        assert_eq!(read(request(), message, true, 202, &[]), Class::Body);
        assert_eq!(read(note, message, true, 200, &[json]), Class::Accepted);
        assert_eq!(read(note, message, true, 204, &[]), Class::Accepted);
        assert_eq!(read(request(), message, true, 404, &[html]), Class::SessionGone);
        assert_eq!(read(request(), message, false, 404, &[html]), Class::Refusal);
        assert_eq!(read(Purpose::Goodbye, message, true, 404, &[]), Class::Refusal);
        assert_eq!(read(request(), message, true, 503, &[("retry-after", "2")]), Class::Later(Duration::from_secs(2)));
        assert_eq!(read(request(), message, true, 503, &[("retry-after", "soon")]), Class::Refusal);
        assert_eq!(read(request(), message, true, 500, &[]), Class::Refusal);
        assert_eq!(read(Purpose::Listen, stream, true, 200, &[sse]), Class::Events);
        assert_eq!(read(Purpose::Listen, stream, true, 200, &[html]), Class::Refusal);
        assert_eq!(read(Purpose::Listen, stream, true, 404, &[]), Class::Refusal);
    }

    #[test]
    fn redirects_stay_on_the_origin_or_go_up_to_tls() {
        let to = |place| read(request(), SendMode::Message, true, 307, &[("location", place)]);
        let url = |text| Class::Redirect(Url::parse(text).unwrap());
        assert_eq!(to("/b"), url("http://h:8/b"));
        assert_eq!(to("b/"), url("http://h:8/a/b/"));
        let plain = Url::parse("http://h/mcp").unwrap();
        let upgraded = |place: &str| redirect(&plain, &HeaderMap::from_iter([(LOCATION, place.parse().unwrap())]));
        assert_eq!(upgraded("https://h/mcp"), Some(Url::parse("https://h/mcp").unwrap()));
        assert_eq!(upgraded("https://h:8443/mcp"), None);
        for target in ["https://h/mcp", "https://h/mcp/"].map(|target| Url::parse(target).unwrap()) {
            for status in [301, 302].map(|status| StatusCode::from_u16(status).unwrap()) {
                for mode in [SendMode::Message, SendMode::Post, SendMode::Stream] {
                    assert!(keeps_request(status, mode, &plain, &target), "{status} {mode:?} {target}");
                }
            }
        }
        assert_eq!(upgraded(&format!("/{}", "x".repeat(LONGEST_URL))), None);
        for refused in [
            "https://h/mcp",
            "https://h:8/mcp",
            "http://other/mcp",
            "http://h:9/mcp",
            "https://other:8/",
            "//evil/mcp",
            "file:///x",
        ] {
            assert_eq!(to(refused), Class::Refusal, "{refused}");
        }
    }

    #[test]
    fn a_message_follows_what_keeps_it_and_a_stream_follows_all() {
        let to = |mode, status, place| read(request(), mode, true, status, &[("location", place)]);
        let url = |text| Class::Redirect(Url::parse(text).unwrap());
        for mode in [SendMode::Message, SendMode::Post] {
            for status in [301, 302] {
                assert_eq!(to(mode, status, "/a/mcp/?x=1"), url("http://h:8/a/mcp/?x=1"));
                assert_eq!(to(mode, status, "/a/mcp/"), Class::Refusal, "another query");
                assert_eq!(to(mode, status, "/b"), Class::Refusal);
            }
            assert_eq!(to(mode, 303, "/a/mcp/?x=1"), Class::Refusal);
            assert_eq!(to(mode, 308, "/b"), url("http://h:8/b"));
        }
        for status in [301, 302, 303, 307, 308] {
            assert_eq!(to(SendMode::Stream, status, "/b"), url("http://h:8/b"));
            assert_eq!(to(SendMode::Stream, status, "http://other/b"), Class::Refusal);
        }
    }
}
