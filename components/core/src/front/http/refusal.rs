//! Refusals of a client's request, and the checks that need no state. The specification
//! defines the statuses.

use super::responses::head;
use crate::era;
use crate::failure::{Denial, INVALID_REQUEST, NO_ANSWER, PARSE_ERROR, UNSUPPORTED_VERSION};
use crate::wire::message::{self, Fault, Id, Malformed, Parsed};
use bytes::Bytes;
use http::header::{ACCEPT, ALLOW, CONTENT_TYPE, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, response};
use serde_json::{Value, json};

pub(super) const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
pub(super) const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
pub(super) const JSON: &str = "application/json";
pub(super) const EVENTS: &str = "text/event-stream";
/// The proxy refuses requests with longer ids.
const LONGEST_ID: usize = 256;

/// A refusal over HTTP: a status, and a JSON-RPC error with the reason.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    pub(super) id: Option<Id>,
    pub(super) code: i64,
    pub(super) message: String,
    pub(super) data: Option<Value>,
    /// The methods that the endpoint does have, if it lacks the request's.
    pub(super) allow: Option<&'static str>,
}

impl Refusal {
    pub(super) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, id: None, code: INVALID_REQUEST, message: message.into(), data: None, allow: None }
    }

    pub(super) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    /// The endpoint has only the methods in `allow`.
    pub(super) fn not_allowed(method: &Method, allow: &'static str) -> Self {
        let message = format!("{method} is not for an MCP endpoint");
        Self { allow: Some(allow), ..Self::new(StatusCode::METHOD_NOT_ALLOWED, message) }
    }

    /// The client has to initialize again.
    pub(super) fn no_such_session() -> Self {
        let message = "there is no such session: initialize again";
        Self { code: NO_ANSWER, ..Self::new(StatusCode::NOT_FOUND, message) }
    }

    /// The proxy is shutting down.
    pub(super) fn leaving() -> Self {
        Self { code: NO_ANSWER, ..Self::new(StatusCode::SERVICE_UNAVAILABLE, "the proxy is shutting down") }
    }

    pub(super) fn malformed(bad: Malformed) -> Self {
        let (code, message) = match bad.fault {
            Fault::Encoding => (PARSE_ERROR, "the body is not UTF-8"),
            Fault::Syntax => (PARSE_ERROR, "the body is not valid JSON"),
            Fault::Shape => (INVALID_REQUEST, "the body is not a JSON-RPC message"),
            Fault::EmptyBatch => (INVALID_REQUEST, "the batch is empty"),
            Fault::TooLong => (INVALID_REQUEST, "the body is too long"),
        };
        Self { id: bad.id, code, ..Self::bad_request(message) }
    }

    pub(super) fn head(&self) -> response::Parts {
        let mut parts = head(self.status, Some(JSON));
        if let Some(allow) = self.allow {
            parts.headers.insert(ALLOW, HeaderValue::from_static(allow));
        }
        parts
    }

    pub(super) fn body(&self) -> Bytes {
        Bytes::from(message::write_refusal(self.id.as_ref(), self.code, &self.message, self.data.as_ref()))
    }

    /// Makes it the answer to this request.
    pub(super) fn of(self, id: Option<&Id>) -> Self {
        Self { id: id.cloned(), ..self }
    }
}

/// The head of the answer to a request whose credentials the server refused.
pub(super) fn denied(Denial { status, challenge }: Denial<'_>) -> response::Parts {
    let mut parts = head(status, Some(JSON));
    parts.headers.extend(challenge.and_then(|text| Some((WWW_AUTHENTICATE, HeaderValue::from_str(text).ok()?))));
    parts
}

/// Parses the body of a POST, which must be one message or a batch.
pub(super) fn read(headers: &HeaderMap, body: Bytes, max: usize) -> Result<Parsed, Refusal> {
    is_json(headers)?;
    accepts(headers, &[JSON, EVENTS])?;
    if body.len() > max {
        let message = format!("the body is over the limit of {max} bytes");
        return Err(Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, message));
    }
    message::parse(body.into()).map_err(Refusal::malformed)
}

/// The body must be JSON.
fn is_json(headers: &HeaderMap) -> Result<(), Refusal> {
    let given = text(headers, &CONTENT_TYPE);
    let essence = given.split(';').next().unwrap_or_default().trim();
    if essence.eq_ignore_ascii_case(JSON) {
        return Ok(());
    }
    let message = format!("the Content-Type must be {JSON}, not {essence:?}");
    Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, message))
}

/// The client must accept all of these types. A request without `Accept` accepts
/// anything.
pub(super) fn accepts(headers: &HeaderMap, wanted: &[&str]) -> Result<(), Refusal> {
    let lists = || headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let ranges = || lists().flat_map(|list| list.split(',')).filter_map(|range| range.split(';').next());
    if lists().next().is_none() || wanted.iter().all(|wanted| ranges().any(|range| fits(range.trim(), wanted))) {
        return Ok(());
    }
    Err(Refusal::new(StatusCode::NOT_ACCEPTABLE, format!("the Accept header must list {}", wanted.join(" and "))))
}

/// Whether a range, such as `text/*`, contains this type.
fn fits(range: &str, wanted: &str) -> bool {
    let ((kind, form), (wanted_kind, wanted_form)) = (halves(range), halves(wanted));
    let same_kind = kind.eq_ignore_ascii_case(wanted_kind);
    range == "*/*" || (same_kind && (form == "*" || form.eq_ignore_ascii_case(wanted_form)))
}

fn halves(range: &str) -> (&str, &str) {
    range.split_once('/').unwrap_or_default()
}

/// Refuses a long id, because the proxy stores it.
pub(super) fn is_short(id: &Id) -> Result<(), Refusal> {
    if id.text().len() <= LONGEST_ID {
        return Ok(());
    }
    Err(Refusal::bad_request(format!("the id is longer than {LONGEST_ID} bytes")))
}

/// The request's protocol version must be the agreed one, or one that the proxy knows.
pub(super) fn is_known_version(headers: &HeaderMap, agreed: Option<&str>) -> Result<(), Refusal> {
    let given = text(headers, &VERSION);
    if !headers.contains_key(VERSION) || agreed == Some(given) || era::VERSIONS.contains(&given) {
        return Ok(());
    }
    Err(Refusal {
        code: UNSUPPORTED_VERSION,
        data: Some(json!({ "supported": era::VERSIONS, "requested": given })),
        ..Refusal::bad_request(format!("the protocol version {given:?} is not supported"))
    })
}

pub(super) fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> &'a str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: &HeaderName, value: Option<&str>) -> HeaderMap {
        value.into_iter().map(|value| (name.clone(), value.parse().unwrap())).collect()
    }

    #[test]
    fn what_a_client_reads_is_taken_generously() {
        let both = [JSON, EVENTS];
        for good in [
            None,
            Some("*/*"),
            Some("application/json, text/event-stream"),
            Some("Text/Event-Stream;q=0.1,APPLICATION/json"),
            Some("text/*, application/*"),
        ] {
            assert!(accepts(&headers(&ACCEPT, good), &both).is_ok(), "{good:?}");
        }
        for bad in ["application/json", "text/event-stream", "text/html", "", "application/jsonx, text/event-stream"] {
            let refused = accepts(&headers(&ACCEPT, Some(bad)), &both).unwrap_err();
            assert_eq!(refused.status, StatusCode::NOT_ACCEPTABLE, "{bad}");
        }
        assert!(accepts(&headers(&ACCEPT, Some("text/event-stream")), &[EVENTS]).is_ok());
    }

    #[test]
    fn a_body_is_json_by_its_type() {
        for good in ["application/json", "Application/JSON; charset=utf-8"] {
            assert!(is_json(&headers(&CONTENT_TYPE, Some(good))).is_ok(), "{good}");
        }
        for bad in [None, Some("text/plain"), Some("application/jsonl")] {
            let refused = is_json(&headers(&CONTENT_TYPE, bad)).unwrap_err();
            assert_eq!(refused.status, StatusCode::UNSUPPORTED_MEDIA_TYPE, "{bad:?}");
        }
    }

    #[test]
    fn an_unknown_version_is_told_the_known_ones() {
        let given = |version| is_known_version(&headers(&VERSION, version), Some("2031-01-01"));
        for good in [None, Some("2025-03-26"), Some("2025-11-25"), Some("2031-01-01")] {
            assert!(given(good).is_ok(), "{good:?}");
        }
        let refused = given(Some("2026-07-28")).unwrap_err();
        assert_eq!((refused.status, refused.code), (StatusCode::BAD_REQUEST, UNSUPPORTED_VERSION));
        assert_eq!(refused.data.unwrap()["requested"], "2026-07-28");
    }
}
