//! Metadata of a protected resource (RFC 9728): what we say about an endpoint of ours, and
//! what we take from a server that decides about tokens itself. Its metadata describe the
//! server under its own URL. A client would not believe them here, so only the names of its
//! authorization servers and scopes go into ours.

use crate::challenge;
use crate::cors;
use crate::endpoint;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, Response, StatusCode};
use serde_json::{Value, json};
use url::Url;

/// Where metadata are, before the path of the endpoint.
pub(crate) const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";
/// The longest metadata of a server that we read, in bytes.
pub const LONGEST: usize = 64 * 1024;
/// How many authorization servers, and how many scopes, a server may name.
const MOST_ISSUERS: usize = 16;
const MOST_SCOPES: usize = 256;
const LONGEST_NAME: usize = 1024;

/// Who issues the tokens for a resource, and for what.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Issuers {
    /// The authorization servers; none where nobody issues tokens to strangers.
    pub servers: Vec<String>,
    /// The scopes that a client may ask for.
    pub scopes: Vec<String>,
}

/// An endpoint of ours, as its clients know it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resource {
    origin: String,
    path: String,
}

impl Resource {
    /// The endpoint of the server of this name, for a client that used this URL.
    pub(crate) fn new(url: &str, name: &str) -> Self {
        let origin = Url::parse(url).map(|url| url.origin().ascii_serialization()).unwrap_or_default();
        Self { origin, path: endpoint::path_of(name) }
    }

    /// Its URL.
    #[must_use]
    pub fn url(&self) -> String {
        format!("{}{}", self.origin, self.path)
    }

    /// The URL of its metadata.
    #[must_use]
    pub fn metadata(&self) -> String {
        format!("{}{WELL_KNOWN}{}", self.origin, self.path)
    }

    /// The challenge to a client without credentials.
    #[must_use]
    pub fn challenge(&self) -> String {
        challenge::ask(&self.metadata())
    }

    /// Its metadata, for a page of this origin or for a client that is no page.
    #[must_use]
    pub fn document(&self, issuers: &Issuers, origin: Option<&str>) -> Response<String> {
        let mut document = json!({ "resource": self.url(), "bearer_methods_supported": ["header"] });
        for (name, list) in [("authorization_servers", &issuers.servers), ("scopes_supported", &issuers.scopes)] {
            if let (false, Some(members)) = (list.is_empty(), document.as_object_mut()) {
                members.insert(name.to_owned(), json!(list));
            }
        }
        let mut response = Response::new(document.to_string());
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        cors::share(headers, origin);
        response
    }
}

/// What a server answers when we ask for its metadata.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// These are its metadata.
    Found(Described),
    /// It has none at this place.
    Absent,
    /// It did not say; it may later.
    Failed,
}

/// A resource as its server describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Described {
    resource: String,
    /// Who issues the tokens for it.
    pub issuers: Issuers,
}

/// The places where the server at this URL may have its metadata, in the order of a client's
/// search. They are at the server's own origin, whatever anybody says.
#[must_use]
pub fn places(server: &str) -> Vec<String> {
    let Ok(url) = Url::parse(server) else { return Vec::new() };
    let at = |path: &str| format!("{}{WELL_KNOWN}{path}", url.origin().ascii_serialization());
    let path = url.path().trim_end_matches('/');
    if path.is_empty() { vec![at("")] } else { vec![at(path), at("")] }
}

/// Reads what the server at this URL has answered.
#[must_use]
pub fn read(server: &str, status: u16, body: &[u8]) -> Answer {
    match StatusCode::from_u16(status) {
        Ok(StatusCode::OK) => parse(server, body).map_or(Answer::Absent, Answer::Found),
        Ok(StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS) | Err(_) => Answer::Failed,
        Ok(status) if status.is_server_error() => Answer::Failed,
        Ok(_) => Answer::Absent,
    }
}

impl Described {
    /// Whether this describes the server at this URL, or our own endpoint before it. Metadata
    /// at the root of an origin may describe another resource.
    #[must_use]
    pub fn is_of(&self, server: &str, own: &Resource) -> bool {
        let (Ok(said), Ok(server)) = (Url::parse(&self.resource), Url::parse(server)) else { return false };
        let below = |prefix: &str| {
            server.path().strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let its_own = said.origin() == server.origin() && below(said.path().trim_end_matches('/'));
        its_own || Url::parse(&own.url()).is_ok_and(|own| said == own)
    }
}

/// Reads the members that we need. Others are not known to be true for us.
fn parse(server: &str, body: &[u8]) -> Option<Described> {
    let body = Some(body).filter(|body| body.len() <= LONGEST)?;
    let said: Value = serde_json::from_slice(body).ok()?;
    let resource = said.get("resource")?.as_str()?.to_owned();
    let texts = |name| said.get(name).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    let is_plain = Url::parse(server).is_ok_and(|url| url.scheme() == "http");
    let issues = |text: &&str| is_issuer(text) || (is_plain && is_issuer_over(text, "http"));
    let servers: Vec<_> = texts("authorization_servers").filter(issues).take(MOST_ISSUERS).map(str::to_owned).collect();
    let scopes = texts("scopes_supported").filter(|scope| is_scope(scope)).take(MOST_SCOPES).map(str::to_owned);
    let issuers = Issuers { servers, scopes: scopes.collect() };
    (!issuers.servers.is_empty()).then_some(Described { resource, issuers })
}

/// Whether a text names an authorization server (RFC 8414, 2).
#[must_use]
pub fn is_issuer(text: &str) -> bool {
    is_issuer_over(text, "https")
}

fn is_issuer_over(text: &str, scheme: &str) -> bool {
    let Ok(url) = Url::parse(text) else { return false };
    let is_bare = url.query().is_none() && url.fragment().is_none() && url.username().is_empty();
    url.scheme() == scheme && is_bare && url.password().is_none() && text.len() <= LONGEST_NAME
}

/// Whether a text is a scope (RFC 6749, 3.3).
fn is_scope(text: &str) -> bool {
    let allowed = |byte: u8| matches!(byte, b'!' | b'#'..=b'[' | b']'..=b'~');
    !text.is_empty() && text.len() <= LONGEST_NAME && text.bytes().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVER: &str = "https://server.example/a/sse?key=secret";

    fn issuers(servers: &[&str], scopes: &[&str]) -> Issuers {
        let owned = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect();
        Issuers { servers: owned(servers), scopes: owned(scopes) }
    }

    fn own() -> Resource {
        Resource::new("https://edge.example:8443/docs/mcp?x=1", "docs")
    }

    #[test]
    fn the_metadata_of_an_endpoint_are_those_of_its_public_url() {
        let own = own();
        assert_eq!(own.url(), "https://edge.example:8443/docs/mcp");
        assert_eq!(own.metadata(), "https://edge.example:8443/.well-known/oauth-protected-resource/docs/mcp");
        let header = json!(["header"]);
        for (issuers, expected) in [
            (Issuers::default(), json!({ "resource": own.url(), "bearer_methods_supported": header })),
            (
                issuers(&["https://login.example"], &["read", "write"]),
                json!({
                    "resource": own.url(), "bearer_methods_supported": header,
                    "authorization_servers": ["https://login.example"], "scopes_supported": ["read", "write"],
                }),
            ),
        ] {
            let response = own.document(&issuers, Some("https://app.example"));
            assert_eq!(serde_json::from_str::<Value>(response.body()).unwrap(), expected);
            assert_eq!(response.headers()["access-control-allow-origin"], "https://app.example");
            assert_eq!(response.headers()["content-type"], "application/json");
            assert!(!own.document(&issuers, None).headers().contains_key("access-control-allow-origin"));
        }
    }

    #[test]
    fn the_places_are_at_the_server_s_own_origin() {
        let root = "https://server.example/.well-known/oauth-protected-resource";
        for (server, expected) in [
            (SERVER, vec![format!("{root}/a/sse"), root.to_owned()]),
            ("https://server.example/mcp/", vec![format!("{root}/mcp"), root.to_owned()]),
            ("https://server.example", vec![root.to_owned()]),
            ("https://server.example/", vec![root.to_owned()]),
            ("nothing", vec![]),
        ] {
            assert_eq!(places(server), expected, "{server}");
        }
    }

    #[test]
    fn of_a_server_s_metadata_we_take_the_issuers_and_the_scopes() {
        let long = format!("https://login.example/{}", "x".repeat(2000));
        let some = "https://login.example/t";
        let found = |servers: &[&str], scopes: &[&str]| {
            Answer::Found(Described { resource: SERVER.to_owned(), issuers: issuers(servers, scopes) })
        };
        let of = |more: Value| {
            let mut whole = json!({ "resource": SERVER, "authorization_servers": [some] });
            whole.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            whole.to_string()
        };
        for (body, expected) in [
            (of(json!({})), found(&[some], &[])),
            (of(json!({ "scopes_supported": ["a", "b:c"] })), found(&[some], &["a", "b:c"])),
            (of(json!({ "scopes_supported": ["", "a b", "\"", "\\", "ö", "a"] })), found(&[some], &["a"])),
            (of(json!({ "scopes_supported": null, "resource_name": "x", "jwks_uri": "x" })), found(&[some], &[])),
            (
                of(json!({ "authorization_servers": [
                    "http://login.example", "login", "", "https://a:b@login.example", "https://login.example?x",
                    "https://login.example#x", "javascript:0", long, some,
                ] })),
                found(&[some], &[]),
            ),
            (of(json!({ "authorization_servers": vec![some; 100] })), found(&[some; 16], &[])),
            (of(json!({ "authorization_servers": ["http://login.example"] })), Answer::Absent),
            (of(json!({ "authorization_servers": [] })), Answer::Absent),
            (of(json!({ "authorization_servers": some })), Answer::Absent),
            (of(json!({ "resource": null })), Answer::Absent),
            (json!({ "resource": SERVER }).to_string(), Answer::Absent),
            ("<!doctype html>".to_owned(), Answer::Absent),
            (String::new(), Answer::Absent),
        ] {
            assert_eq!(read(SERVER, 200, body.as_bytes()), expected, "{body}");
        }
        let plain = of(json!({ "authorization_servers": ["http://login.example"] }));
        assert!(matches!(read("http://server.example/mcp", 200, plain.as_bytes()), Answer::Found(_)));
    }

    #[test]
    fn a_status_says_whether_to_ask_again() {
        for (status, expected) in [
            (204, Answer::Absent),
            (302, Answer::Absent),
            (401, Answer::Absent),
            (404, Answer::Absent),
            (408, Answer::Failed),
            (429, Answer::Failed),
            (500, Answer::Failed),
            (503, Answer::Failed),
            (0, Answer::Failed),
        ] {
            assert_eq!(read(SERVER, status, b"{}"), expected, "{status}");
        }
    }

    #[test]
    fn metadata_of_another_resource_are_not_believed() {
        for (resource, expected) in [
            (SERVER, true),
            ("https://server.example/a/sse", true),
            ("https://server.example/a/", true),
            ("https://server.example", true),
            ("https://edge.example:8443/docs/mcp", true),
            ("https://server.example/a/s", false),
            ("https://server.example/b", false),
            ("https://server.example:8443/a/sse", false),
            ("http://server.example/a/sse", false),
            ("https://other.example/a/sse", false),
            ("https://edge.example:8443/mcp", false),
            ("https://edge.example/docs/mcp", false),
            ("server.example", false),
        ] {
            let described = Described { resource: resource.to_owned(), issuers: Issuers::default() };
            assert_eq!(described.is_of(SERVER, &own()), expected, "{resource}");
        }
    }
}
