//! The HTTP request of a call: URL, method, headers and body. A pure function of the call,
//! the settings and the cookies. When to send it does not belong here.

use super::call::Call;
use super::classify::SendMode;
use super::cookies::Cookies;
use crate::config::Config;
use crate::outgoing::Purpose;
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, COOKIE, HeaderName, HeaderValue};
use http::{Method, Request};

pub(super) const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const EITHER: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");

/// Builds the request for the call's current state. The protocol's headers override the
/// user's.
pub(super) fn request(config: &Config, cookies: &Cookies, call: &Call) -> Request<Bytes> {
    let (method, body) = match (call.mode, call.purpose) {
        (SendMode::Stream, _) => (Method::GET, Bytes::new()),
        (_, Some(Purpose::Goodbye)) => (Method::DELETE, Bytes::new()),
        (_, _) => (Method::POST, call.outgoing.body.clone()),
    };
    let mut own = vec![(COOKIE, cookies.header(&call.url, config.headers.get(COOKIE)))];
    if method == Method::GET {
        own.extend([(ACCEPT, Some(EVENTS)), (LAST_EVENT_ID, call.cursor.last_event.clone())]);
    } else if method == Method::POST {
        own.extend([(ACCEPT, Some(EITHER)), (CONTENT_TYPE, Some(JSON))]);
    }
    let mut request = Request::new(body);
    *request.method_mut() = method;
    *request.uri_mut() = call.url.as_str().parse().unwrap_or_default();
    request.headers_mut().clone_from(&config.headers);
    let own = own.into_iter().filter_map(|(name, value)| Some((name, value?)));
    for (name, value) in own.chain(call.outgoing.session.headers.iter().cloned()) {
        request.headers_mut().insert(name, value);
    }
    request
}
