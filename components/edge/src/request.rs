//! The parts of a request that the edge looks at. Values are as the client sent
//! them; nothing here trusts them.

use crate::endpoint;
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
    /// `Content-Length`.
    pub content_length: Option<&'a str>,
}

impl<'a> Request<'a> {
    /// The path of the URL, without query and fragment.
    #[must_use]
    pub fn path(&self) -> &'a str {
        endpoint::path(self.url)
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
