//! Opens a connection to the server and says what it is like, for `doctor`.

use std::time::{Duration, Instant};

use ::http::Uri;
use hyper_rustls::MaybeHttpsStream;
use rustls::ProtocolVersion;
use tower_service::Service as _;

use super::{Http, failure};

/// A connection that worked.
pub struct Link {
    pub took: Duration,
    /// The version of TLS, if the URL is https.
    pub tls: Option<&'static str>,
    /// Whether the server agreed on HTTP/2.
    pub http2: bool,
}

impl Http {
    /// The address of the proxy between here and the server, if there is one.
    pub fn proxy(&self, url: &str) -> Option<String> {
        let way = self.proxies.way(&url.parse().ok()?);
        way.ok().flatten().map(|way| way.address())
    }

    /// Connects as a request would.
    pub async fn link(&self, url: &str) -> Result<Link, String> {
        let uri: Uri = url.parse().map_err(|_invalid| format!("`{url}` is not a URL"))?;
        let begun = Instant::now();
        let stream = self.pool.dialer().call(uri.clone()).await;
        let stream = stream.map_err(|error| {
            let via = self.proxies.way(&uri).unwrap_or_default();
            failure::of_dialing_in_words(&uri, via.as_ref(), &*error)
        })?;
        let took = begun.elapsed();
        let MaybeHttpsStream::Https(stream) = stream else { return Ok(Link { took, tls: None, http2: false }) };
        let (_, session) = stream.inner().get_ref();
        let http2 = session.alpn_protocol() == Some(b"h2");
        Ok(Link { took, tls: session.protocol_version().map(name), http2 })
    }
}

fn name(version: ProtocolVersion) -> &'static str {
    if version == ProtocolVersion::TLSv1_3 { "TLS 1.3" } else { "TLS 1.2" }
}
