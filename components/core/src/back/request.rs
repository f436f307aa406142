//! The HTTP request of a call: URL, method, headers and body. A pure function of the call,
//! the settings and the cookies. When to send it does not belong here.

use super::call::Call;
use super::classify::SendMode;
use super::cookies::Cookies;
use crate::config::Config;
use crate::outgoing::Purpose;
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, COOKIE, HeaderName, HeaderValue};
use http::{Method, Request, Uri};
use url::Url;

pub(super) const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const EITHER: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");

/// The place of the last request, parsed: most requests go to the same one.
#[derive(Debug, Default)]
pub(super) struct LastPlace(Option<(Url, Uri)>);

impl LastPlace {
    pub(super) fn uri(&mut self, url: &Url) -> Uri {
        if let Some((_, uri)) = self.0.as_ref().filter(|(last, _)| last == url) {
            return uri.clone();
        }
        let uri: Uri = url.as_str().parse().unwrap_or_default();
        self.0 = Some((url.clone(), uri.clone()));
        uri
    }
}

/// Builds the request for the call's current state, to its URL as a `uri`. The protocol's
/// headers override the user's.
pub(super) fn request(config: &Config, cookies: &Cookies, call: &Call, uri: Uri) -> Request<Bytes> {
    let (method, body) = match (call.mode, call.purpose) {
        (SendMode::Stream, _) => (Method::GET, Bytes::new()),
        (_, Some(Purpose::Goodbye)) => (Method::DELETE, Bytes::new()),
        (_, _) => (Method::POST, call.outgoing.body.clone()),
    };
    let cookie = (COOKIE, cookies.header(&call.url, config.headers.get(COOKIE)));
    let own = if method == Method::GET {
        [cookie, (ACCEPT, Some(EVENTS)), (LAST_EVENT_ID, call.cursor.last_event.clone())]
    } else if method == Method::POST {
        [cookie, (ACCEPT, Some(EITHER)), (CONTENT_TYPE, Some(JSON))]
    } else {
        [cookie, (ACCEPT, None), (CONTENT_TYPE, None)]
    };
    let mut request = Request::new(body);
    *request.method_mut() = method;
    *request.uri_mut() = uri;
    request.headers_mut().reserve(config.headers.len() + own.len() + call.outgoing.session.headers.len());
    request.headers_mut().extend(config.headers.clone());
    let own = own.into_iter().filter_map(|(name, value)| Some((name, value?)));
    for (name, value) in own.chain(call.outgoing.session.headers.iter().cloned()) {
        request.headers_mut().insert(name, value);
    }
    request
}
