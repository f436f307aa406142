//! What a recording leaves out. The user's headers are recorded by name only. Other
//! headers keep their values only if the machine reads them or they help to find a fault.
//! Session ids become pseudonyms, the same for the same id. The redactor masks the values
//! of cookies and, in URLs, the values of the query, the user, and path segments long
//! enough to be a key: servers use all of them as credentials. Bodies are recorded,
//! except for the URL in which an HTTP+SSE server names a session; a shell that records
//! has to tell the user so.

use crate::back::http::LONGEST_SESSION_ID;
use http::header::{
    ACCEPT, ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, DATE, LOCATION,
    RETRY_AFTER, SERVER, SET_COOKIE, TRANSFER_ENCODING, VIA, WWW_AUTHENTICATE,
};
use http::{HeaderMap, HeaderName, HeaderValue};
use memchr::{memchr2, memmem};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

/// Replaces a removed value.
pub(super) const REDACTED: &str = "redacted";
/// Replaces a value that is not text, which the machine cannot read either.
const NO_TEXT: &[u8] = b"redacted\xff";
/// A path segment of at least this length may be a key.
const SHORTEST_KEY: usize = 16;

const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// The body repeats these two, and all headers with this prefix.
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");
const ARGUMENTS: &str = "mcp-param-";

/// The headers whose values are recorded.
const KEPT: [HeaderName; 17] = [
    ACCEPT,
    ALLOW,
    CACHE_CONTROL,
    CONNECTION,
    CONTENT_ENCODING,
    CONTENT_LENGTH,
    CONTENT_TYPE,
    DATE,
    RETRY_AFTER,
    SERVER,
    TRANSFER_ENCODING,
    VIA,
    WWW_AUTHENTICATE,
    PROTOCOL_VERSION,
    LAST_EVENT_ID,
    METHOD,
    NAME,
];

/// Remembers the session ids of a run.
#[derive(Debug, Default)]
pub(super) struct Redactor {
    sessions: BTreeMap<Vec<u8>, HeaderValue>,
}

impl Redactor {
    /// The headers of a request or a response, redacted.
    pub(super) fn headers(&mut self, headers: &HeaderMap) -> HeaderMap {
        let mut harmless = HeaderMap::with_capacity(headers.len());
        for (name, value) in headers {
            harmless.append(name, self.value(name, value));
        }
        harmless
    }

    fn value(&mut self, name: &HeaderName, value: &HeaderValue) -> HeaderValue {
        if *name == SESSION_ID {
            return self.pseudonym(value);
        }
        if *name == LOCATION {
            return covered(value, url);
        }
        if *name == SET_COOKIE {
            return covered(value, cookie);
        }
        if KEPT.contains(name) || name.as_str().starts_with(ARGUMENTS) {
            return value.clone();
        }
        HeaderValue::from_static(REDACTED)
    }

    /// The pseudonym for a session id.
    pub(super) fn pseudonym(&mut self, id: &HeaderValue) -> HeaderValue {
        // The machine refuses such an id and must also refuse its pseudonym.
        if id.len() > LONGEST_SESSION_ID {
            return covered(id, |id| "*".repeat(id.len()));
        }
        let next = self.sessions.len() + 1;
        let name = || HeaderValue::try_from(format!("session-{next}"));
        let fallback = || HeaderValue::from_static(REDACTED);
        let known = self.sessions.entry(id.as_bytes().to_vec());
        known.or_insert_with(|| name().unwrap_or_else(|_| fallback())).clone()
    }
}

/// A header value, with its text masked by `cover`.
fn covered(value: &HeaderValue, cover: impl FnOnce(&str) -> String) -> HeaderValue {
    let harmless = value.to_str().ok().and_then(|text| HeaderValue::try_from(cover(text)).ok());
    harmless.or_else(|| HeaderValue::from_bytes(NO_TEXT).ok()).unwrap_or_else(|| HeaderValue::from_static(REDACTED))
}

/// A `Set-Cookie` value: masks the cookie's value but keeps its attributes.
fn cookie(text: &str) -> String {
    let (pair, attributes) = text.split_at(text.find(';').unwrap_or(text.len()));
    match pair.split_once('=') {
        Some((name, value)) => format!("{name}={}{attributes}", stars(value)),
        None => stars(text),
    }
}

/// A piece of a response body, without the session in the endpoint that an HTTP+SSE
/// server names (2024-11-05, "HTTP with SSE"). Servers send that event in one piece; a
/// split one is recorded unchanged.
pub(super) fn body(bytes: &[u8]) -> Cow<'_, [u8]> {
    let mut harmless = Cow::Borrowed(bytes);
    for at in memmem::find_iter(bytes, b"endpoint") {
        let Some(data) = endpoint(bytes, at) else { continue };
        if let Some(text) = bytes.get(data.clone()).and_then(|data| std::str::from_utf8(data).ok()) {
            harmless.to_mut().splice(data, url(text).into_bytes());
        }
    }
    harmless
}

/// The range of the data in the endpoint event whose type starts at `at`.
fn endpoint(bytes: &[u8], at: usize) -> Option<Range<usize>> {
    let (before, rest) = bytes.split_at_checked(at)?;
    let before = before.strip_suffix(b" ").unwrap_or(before).strip_suffix(b"event:")?;
    if !(before.is_empty() || before.ends_with(b"\n") || before.ends_with(b"\r")) {
        return None;
    }
    let rest = rest.strip_prefix(b"endpoint")?;
    let line = rest.strip_prefix(b"\r\n").or_else(|| rest.strip_prefix(b"\n")).or_else(|| rest.strip_prefix(b"\r"))?;
    let data = line.strip_prefix(b"data:")?;
    let start = bytes.len() - data.len();
    let length = memchr2(b'\r', b'\n', data)?;
    Some(start..start + length)
}

/// A URL, absolute or relative, without possible credentials. It keeps its length and its
/// origin.
pub(crate) fn url(text: &str) -> String {
    let (text, fragment) = text.split_at(text.find('#').unwrap_or(text.len()));
    let (place, query) = text.split_at(text.find('?').unwrap_or(text.len()));
    let (authority, path) = split_authority(place);
    let segments: Vec<Cow<'_, str>> = path.split('/').map(segment).collect();
    let pairs: Vec<String> = query.split('&').map(pair).collect();
    let fragment = fragment.strip_prefix('#').map_or(String::new(), |fragment| format!("#{}", stars(fragment)));
    authority + &segments.join("/") + &pairs.join("&") + &fragment
}

/// Everything before the path, without user and password; and the path.
fn split_authority(place: &str) -> (String, &str) {
    let is_scheme = |text: &str| !text.is_empty() && text.chars().all(|letter| letter.is_ascii_alphanumeric());
    let split = place.split_once(':').filter(|(scheme, _)| is_scheme(scheme));
    let (scheme, rest) = split.map_or((String::new(), place), |(scheme, rest)| (format!("{scheme}:"), rest));
    let Some(rest) = rest.strip_prefix("//") else { return (scheme, rest) };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    match authority.rsplit_once('@') {
        Some((user, host)) => (format!("{scheme}//{}@{host}", stars(user)), path),
        None => (format!("{scheme}//{authority}"), path),
    }
}

fn segment(segment: &str) -> Cow<'_, str> {
    if segment.len() < SHORTEST_KEY { segment.into() } else { stars(segment).into() }
}

/// One pair of a query, with the question mark if it is the first.
fn pair(pair: &str) -> String {
    let mark = if pair.starts_with('?') { "?" } else { "" };
    match pair.split_once('=') {
        Some((name, value)) => format!("{name}={}", stars(value)),
        None => format!("{mark}{}", stars(pair.trim_start_matches('?'))),
    }
}

/// As many stars as `text` has bytes.
fn stars(text: &str) -> String {
    "*".repeat(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_a_credential_is_left_out_of_a_url() {
        let cases = [
            ("https://h:1/mcp", "https://h:1/mcp"),
            ("https://h", "https://h"),
            ("https://u:p@h/mcp?key=s3cret&a=b&c#f", "https://***@h/mcp?key=******&a=*&*#*"),
            ("https://h/mcp?s3cret", "https://h/mcp?******"),
            ("https://h?a=b", "https://h?a=*"),
            ("https://h/s/0123456789abcdef/mcp/", "https://h/s/****************/mcp/"),
            ("//u@other/b", "//*@other/b"),
            ("/b/?x=//y@z?", "/b/?x=******"),
            ("../b", "../b"),
            ("a//b@c", "a//b@c"),
            ("mailto:0123456789abcdef@h", "mailto:******************"),
            ("?", "?"),
            ("", ""),
        ];
        for (text, harmless) in cases {
            assert_eq!(url(text), harmless, "{text}");
            assert_eq!(url(harmless), harmless, "{text}, again");
        }
    }

    #[test]
    fn a_header_keeps_its_value_only_if_it_is_known_to_be_harmless() {
        let secret = HeaderValue::from_static("s3cret");
        let kept =
            ["content-type", "content-length", "retry-after", "mcp-protocol-version", "server", "www-authenticate"];
        let names = ["authorization", "proxy-authenticate", "x-key"];
        let all: HeaderMap =
            kept.iter().chain(&names).map(|name| (HeaderName::from_static(name), secret.clone())).collect();
        let harmless = Redactor::default().headers(&all);
        assert_eq!(harmless.len(), all.len());
        for name in kept {
            assert_eq!(harmless[name], "s3cret", "{name}");
        }
        for name in names {
            assert_eq!(harmless[name], REDACTED, "{name}");
        }
    }

    #[test]
    fn a_cookie_keeps_its_name_and_its_life() {
        let cases = [
            ("a=s3cret; Max-Age=0; Path=/", "a=******; Max-Age=0; Path=/"),
            ("a=b=c", "a=***"),
            ("a=", "a="),
            ("s3cret;x=y", "**********"),
        ];
        for (text, harmless) in cases {
            assert_eq!(cookie(text), harmless, "{text}");
        }
    }

    #[test]
    fn a_session_keeps_its_pseudonym() {
        let mut redactor = Redactor::default();
        let mut name = |id: &[u8]| {
            let value = redactor.value(&SESSION_ID, &HeaderValue::from_bytes(id).unwrap());
            value.to_str().unwrap().to_owned()
        };
        assert_eq!(name(b"a"), "session-1");
        assert_eq!(name(b"session-1"), "session-2");
        assert_eq!(name(b"a"), "session-1");
        assert_eq!(name(b"\xff"), "session-3");
    }

    #[test]
    fn a_value_that_is_not_text_stays_so() {
        let harmless = covered(&HeaderValue::from_bytes(b"/s3cret\xff").unwrap(), url);
        assert!(harmless.to_str().is_err());
        assert!(!harmless.as_bytes().starts_with(b"/s3cret"));
    }

    #[test]
    fn an_endpoint_keeps_its_place_and_not_its_session() {
        let cases = [
            (
                "event: endpoint\ndata: /messages?sessionId=s3cret\n\n",
                "event: endpoint\ndata: /messages?sessionId=******\n\n",
            ),
            (": hi\r\nevent:endpoint\r\ndata:/m?s=1\r\n\r\n", ": hi\r\nevent:endpoint\r\ndata:/m?s=*\r\n\r\n"),
            ("event: endpoint\ndata: /m?s=1", "event: endpoint\ndata: /m?s=1"),
            ("data: event: endpoint\ndata: /m?s=1\n", "data: event: endpoint\ndata: /m?s=1\n"),
            ("event: endpoints\ndata: /m?s=1\n", "event: endpoints\ndata: /m?s=1\n"),
            ("data: {\"endpoint\":\"/m?s=1\"}\n\n", "data: {\"endpoint\":\"/m?s=1\"}\n\n"),
        ];
        for (text, harmless) in cases {
            assert_eq!(String::from_utf8_lossy(&body(text.as_bytes())), harmless, "{text}");
        }
    }
}
