//! Refusals: the reasons, and what the client gets. Every refusal is a JSON-RPC
//! error without an id, since no message was read. A refusal repeats nothing
//! that the client sent.

use crate::cors;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderName, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, Response, StatusCode};
use serde_json::json;
use std::borrow::Cow;

/// The JSON-RPC codes: ours to define, a request that is invalid, a mistake of ours.
const SERVER_ERROR: i32 = -32000;
const INVALID_REQUEST: i32 = -32600;
const INTERNAL_ERROR: i32 = -32603;

const BAD_AUTHORIZATION: &str =
    "the Authorization header has control characters in it, or others that are not printable ASCII";
const NO_METADATA: &str = "it is not known who issues tokens for this endpoint";
const METADATA_FAILED: &str = "the server did not say who issues tokens for it; try again later";
const NOT_OPENED: &str = "the session could not be opened; try again";
const RESTARTED: &str = "the session was restarted; whether the request was carried out is not known";
const TOO_MANY_ATTEMPTS: &str = "too many requests without the credentials that they need; try again later";
const TOO_MANY_OPENINGS: &str = "too many sessions are being opened; try again later";

/// Why a request is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// The settings cannot work; the text says why, to everybody.
    Misconfigured(String),
    /// No server has its endpoint at this path.
    NoEndpoint,
    /// It comes from a web page of somebody else.
    Origin,
    /// It was sent to a name that is not ours.
    Host,
    /// Its credentials are missing or wrong. The text is the challenge.
    Unauthorized(String),
    /// The same, once too often.
    TooManyAttempts,
    /// Its credentials cannot be forwarded.
    BadAuthorization,
    /// Nobody says who issues the tokens for this endpoint.
    NoMetadata,
    /// The server did not say it when it was asked.
    MetadataFailed,
    /// MCP does not use this method.
    BadMethod,
    /// It must name a session, and does not.
    NoSession,
    /// Its body is too long.
    TooLong {
        /// The most bytes.
        limit: usize,
        /// The setting that says so.
        setting: &'static str,
    },
    /// Sessions are being opened too fast.
    TooManyOpenings,
    /// The client has as many sessions as it may have.
    TooManySessions {
        /// The setting that says so.
        setting: &'static str,
    },
    /// There is no such session, or it belongs to somebody else.
    UnknownSession,
    /// The session ended while the request waited for it.
    SessionEnded,
    /// What the session needs cannot be had now.
    NotOpened,
    /// The session was restarted while it had the request.
    Restarted,
    /// Something went wrong that should not have.
    Internal,
}

impl Refusal {
    /// The response to a page of this origin, or to a client that is no page.
    #[must_use]
    pub fn response(&self, origin: Option<&str>) -> Response<String> {
        let (status, code, message) = self.words();
        let error = json!({"code": code, "message": message});
        let mut response = Response::new(json!({"jsonrpc": "2.0", "error": error}).to_string());
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.extend(self.header());
        cors::share(headers, origin.filter(|_| self.is_readable()));
        response
    }

    /// The HTTP status, the JSON-RPC code and the message.
    fn words(&self) -> (StatusCode, i32, Cow<'_, str>) {
        use StatusCode as Http;
        match self {
            Self::Misconfigured(why) => (Http::SERVICE_UNAVAILABLE, SERVER_ERROR, why.into()),
            Self::NoEndpoint => (Http::NOT_FOUND, SERVER_ERROR, "there is no MCP endpoint at this path".into()),
            Self::Origin => (Http::FORBIDDEN, SERVER_ERROR, "the Origin of this request is not allowed here".into()),
            Self::Host => (Http::FORBIDDEN, SERVER_ERROR, "the Host of this request is not allowed here".into()),
            Self::Unauthorized(_) => (Http::UNAUTHORIZED, SERVER_ERROR, "this endpoint wants a bearer token".into()),
            Self::TooManyAttempts => (Http::TOO_MANY_REQUESTS, SERVER_ERROR, TOO_MANY_ATTEMPTS.into()),
            Self::BadAuthorization => (Http::BAD_REQUEST, INVALID_REQUEST, BAD_AUTHORIZATION.into()),
            Self::NoMetadata => (Http::NOT_FOUND, SERVER_ERROR, NO_METADATA.into()),
            Self::MetadataFailed => (Http::BAD_GATEWAY, SERVER_ERROR, METADATA_FAILED.into()),
            Self::BadMethod => {
                (Http::METHOD_NOT_ALLOWED, INVALID_REQUEST, "only GET, POST and DELETE are for MCP".into())
            }
            Self::NoSession => (Http::BAD_REQUEST, INVALID_REQUEST, "the Mcp-Session-Id header is missing".into()),
            Self::TooLong { limit, setting } => {
                let message = format!("the body is over the limit of {limit} bytes ({setting})");
                (Http::PAYLOAD_TOO_LARGE, INVALID_REQUEST, message.into())
            }
            Self::TooManyOpenings => (Http::TOO_MANY_REQUESTS, SERVER_ERROR, TOO_MANY_OPENINGS.into()),
            Self::TooManySessions { setting } => {
                let message =
                    format!("too many sessions of this client are open ({setting}); close one, or try again later");
                (Http::TOO_MANY_REQUESTS, SERVER_ERROR, message.into())
            }
            Self::UnknownSession => {
                (Http::NOT_FOUND, SERVER_ERROR, "there is no such session: initialize again".into())
            }
            Self::SessionEnded => (Http::SERVICE_UNAVAILABLE, SERVER_ERROR, "the session has ended".into()),
            Self::NotOpened => (Http::SERVICE_UNAVAILABLE, SERVER_ERROR, NOT_OPENED.into()),
            Self::Restarted => (Http::SERVICE_UNAVAILABLE, SERVER_ERROR, RESTARTED.into()),
            Self::Internal => (Http::INTERNAL_SERVER_ERROR, INTERNAL_ERROR, "internal error".into()),
        }
    }

    /// The header that the status asks for.
    fn header(&self) -> Option<(HeaderName, HeaderValue)> {
        if let Self::Unauthorized(challenge) = self {
            Some((WWW_AUTHENTICATE, HeaderValue::from_str(challenge).ok()?))
        } else if *self == Self::BadMethod {
            Some((ALLOW, cors::METHODS))
        } else if *self == Self::Restarted {
            Some((RETRY_AFTER, HeaderValue::from_static("1")))
        } else {
            None
        }
    }

    /// Whether a page of another origin may read it: not before its origin was
    /// admitted, and not if we are broken.
    fn is_readable(&self) -> bool {
        !matches!(self, Self::Misconfigured(_) | Self::NoEndpoint | Self::Origin | Self::Host | Self::Internal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Status, code, the extra header if there is one, and whether pages may read it.
    fn shown(refusal: &Refusal) -> (u16, i32, Option<String>, bool) {
        let response = refusal.response(Some("https://app.example"));
        let headers = response.headers();
        assert_eq!(
            (headers[CONTENT_TYPE].as_bytes(), headers[CACHE_CONTROL].as_bytes()),
            (&b"application/json"[..], &b"no-store"[..])
        );
        let body: serde_json::Value = serde_json::from_str(response.body()).unwrap();
        assert!(body["error"]["message"].as_str().is_some_and(|message| !message.is_empty()));
        let extra = [ALLOW, RETRY_AFTER, WWW_AUTHENTICATE]
            .iter()
            .find_map(|name| Some(format!("{name}: {}", headers.get(name)?.to_str().unwrap())));
        let code = i32::try_from(body["error"]["code"].as_i64().unwrap()).unwrap();
        (response.status().as_u16(), code, extra, headers.contains_key("access-control-allow-origin"))
    }

    #[test]
    fn every_refusal_has_its_status_its_code_and_its_header() {
        let setting = "SETTING";
        for (refusal, status, code, extra, readable) in [
            (Refusal::Misconfigured("why".to_owned()), 503, -32000, None, false),
            (Refusal::NoEndpoint, 404, -32000, None, false),
            (Refusal::Origin, 403, -32000, None, false),
            (Refusal::Host, 403, -32000, None, false),
            (Refusal::Unauthorized("Bearer a=b".to_owned()), 401, -32000, Some("www-authenticate: Bearer a=b"), true),
            (Refusal::NoMetadata, 404, -32000, None, true),
            (Refusal::MetadataFailed, 502, -32000, None, true),
            (Refusal::TooManyAttempts, 429, -32000, None, true),
            (Refusal::BadAuthorization, 400, -32600, None, true),
            (Refusal::BadMethod, 405, -32600, Some("allow: GET, POST, DELETE, OPTIONS"), true),
            (Refusal::NoSession, 400, -32600, None, true),
            (Refusal::TooLong { limit: 5, setting }, 413, -32600, None, true),
            (Refusal::TooManyOpenings, 429, -32000, None, true),
            (Refusal::TooManySessions { setting }, 429, -32000, None, true),
            (Refusal::UnknownSession, 404, -32000, None, true),
            (Refusal::SessionEnded, 503, -32000, None, true),
            (Refusal::NotOpened, 503, -32000, None, true),
            (Refusal::Restarted, 503, -32000, Some("retry-after: 1"), true),
            (Refusal::Internal, 500, -32603, None, false),
        ] {
            assert_eq!(shown(&refusal), (status, code, extra.map(str::to_owned), readable), "{refusal:?}");
        }
    }

    #[test]
    fn a_body_is_a_json_rpc_error_without_an_id() {
        let refusal = Refusal::TooLong { limit: 5, setting: "MAX_BODY_BYTES" };
        let body = r#"{"error":{"code":-32600,"message":"the body is over the limit of 5 bytes (MAX_BODY_BYTES)"},"jsonrpc":"2.0"}"#;
        assert_eq!(refusal.response(None).body(), body);
    }
}
