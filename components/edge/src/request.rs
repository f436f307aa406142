//! The parts of a request that the edge looks at. Values are as the client sent
//! them; nothing here trusts them.

use crate::endpoint;
use crate::resource::Resource;
use http::Method;
use url::Url;

/// A request, as far as the edge looks at it.
#[derive(Debug, Clone)]
pub struct Request<'a> {
    /// The method; any may come.
    pub method: Method,
    /// The absolute URL that the client used.
    pub url: &'a str,
    /// `Origin`: the web page that asks, if a page does.
    pub origin: Option<&'a str>,
    /// `Host`.
    pub host: Option<&'a str>,
    /// `Authorization`.
    pub authorization: Option<&'a str>,
    /// `Mcp-Session-Id`.
    pub session: Option<&'a str>,
    /// `MCP-Protocol-Version`.
    pub version: Option<&'a str>,
    /// `Mcp-Method`: the JSON-RPC method, which only revisions without sessions repeat in
    /// a header.
    pub rpc_method: Option<&'a str>,
    /// `Content-Length`.
    pub content_length: Option<&'a str>,
}

/// The revisions with sessions. There will be no more of them.
const WITH_SESSIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

impl<'a> Request<'a> {
    /// The session that it belongs to. A server ignores the session id of a POST whose
    /// revision has no sessions (2026-07-28, basic/transports).
    #[must_use]
    pub fn session(&self) -> Option<&'a str> {
        self.session.filter(|_| !self.is_modern())
    }

    /// Whether this is a POST of a revision without sessions.
    fn is_modern(&self) -> bool {
        let modern = |version: &str| !WITH_SESSIONS.contains(&version.trim());
        self.method == Method::POST && self.rpc_method.is_some() && self.version.is_some_and(modern)
    }

    /// The path of the URL, without query and fragment.
    #[must_use]
    pub fn path(&self) -> &'a str {
        endpoint::path(self.url)
    }

    /// The endpoint of the server of this name, as the sender of this request knows it.
    #[must_use]
    pub fn resource(&self, name: &str) -> Resource {
        Resource::new(self.url, name)
    }

    /// How many bytes the client announces, if that is a number.
    #[must_use]
    pub fn length(&self) -> Option<usize> {
        self.content_length?.parse().ok()
    }

    /// Our own origin as the client knows it. Only a request with an `Origin`
    /// is compared with it, so any other has none.
    pub(crate) fn own_origin(&self) -> String {
        let url = self.origin.and_then(|_| Url::parse(self.url).ok());
        url.map(|url| url.origin().ascii_serialization()).unwrap_or_default()
    }
}
