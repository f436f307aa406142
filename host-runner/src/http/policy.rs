//! Egress policy: which origins the component may contact, and which of them get the
//! user's credentials. Pure: inspects only URLs.

use ::http::Uri;
use mcp_proxy_options::{AllowedHost, UsageError};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The server's own origin: allowed, with credentials.
    Own,
    /// Allowed by `--allow-host`: without credentials.
    Allowed,
    Refused,
}

pub(super) struct Policy {
    own: Origin,
    /// The same host with https, if the URL is plain http on its default port: servers
    /// redirect there.
    upgraded: Option<Origin>,
    allowed: Vec<AllowedHost>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Origin {
    scheme: Scheme,
    host: String,
    port: u16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scheme {
    Http,
    Https,
}

impl Policy {
    pub(super) fn new(url: &str, allowed: &[AllowedHost]) -> Result<Self, UsageError> {
        let own = url.parse().ok().as_ref().and_then(Origin::of);
        let own = own.ok_or_else(|| UsageError::new(format!("`{url}` is not a URL")))?;
        let upgraded = own.upgraded();
        let allowed = allowed.to_vec();
        Ok(Self { own, upgraded, allowed })
    }

    pub(super) fn judge(&self, uri: &Uri) -> Verdict {
        let Some(origin) = Origin::of(uri) else {
            return Verdict::Refused;
        };
        if origin == self.own || Some(&origin) == self.upgraded.as_ref() {
            return Verdict::Own;
        }
        match self.allowed.iter().any(|allowed| origin.matches(allowed)) {
            true => Verdict::Allowed,
            false => Verdict::Refused,
        }
    }
}

impl Origin {
    fn of(uri: &Uri) -> Option<Self> {
        let scheme = match uri.scheme_str()? {
            "http" => Scheme::Http,
            "https" => Scheme::Https,
            _ => return None,
        };
        let host = uri.host()?.to_ascii_lowercase();
        let port = uri.port_u16().unwrap_or(scheme.default_port());
        Some(Self { scheme, host, port })
    }

    fn upgraded(&self) -> Option<Self> {
        let plain = self.scheme == Scheme::Http && self.port == Scheme::Http.default_port();
        plain.then(|| Self { scheme: Scheme::Https, host: self.host.clone(), port: Scheme::Https.default_port() })
    }

    fn matches(&self, allowed: &AllowedHost) -> bool {
        let port = allowed.port.unwrap_or(self.scheme.default_port());
        self.host == allowed.host && self.port == port
    }
}

impl Scheme {
    fn default_port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

/// The message for the user when the host refuses a request.
pub(super) fn refusal(uri: &Uri) -> String {
    let scheme = uri.scheme_str().unwrap_or("?");
    let authority = uri.authority().map_or("?", |authority| authority.as_str());
    let host = authority.rsplit('@').next().unwrap_or(authority);
    format!(
        "refused a request to {scheme}://{host}: it is not the server's own origin; \
         if it is wanted, add --allow-host {host}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(url: &str, allowed: &[(&str, Option<u16>)], uri: &str) -> Verdict {
        let allowed: Vec<AllowedHost> =
            allowed.iter().map(|(host, port)| AllowedHost { host: (*host).to_owned(), port: *port }).collect();
        Policy::new(url, &allowed).unwrap().judge(&uri.parse().unwrap())
    }

    #[test]
    fn only_the_url_s_own_origin_gets_credentials() {
        use Verdict::{Own, Refused};
        let cases = [
            ("https://a.example/mcp", "https://a.example/other?x", Own),
            ("https://a.example/mcp", "https://A.EXAMPLE:443/mcp", Own),
            ("https://a.example/mcp", "http://a.example/mcp", Refused),
            ("https://a.example/mcp", "https://a.example:8443/", Refused),
            ("https://a.example/mcp", "https://b.example/mcp", Refused),
            ("https://a.example/mcp", "https://x.a.example/mcp", Refused),
            ("http://a.example/mcp", "https://a.example/mcp", Own),
            ("http://a.example:80/mcp", "https://a.example:443/mcp", Own),
            ("http://a.example/mcp", "https://a.example:8443/", Refused),
            ("http://a.example:8080/mcp", "https://a.example/", Refused),
            ("http://[::1]:8080/mcp", "http://[::1]:8080/x", Own),
            ("http://[::1]:8080/mcp", "http://[::2]:8080/x", Refused),
            ("http://127.0.0.1:1/", "http://127.0.0.1:2/", Refused),
        ];
        for (url, uri, verdict) in cases {
            assert_eq!(judge(url, &[], uri), verdict, "{url} → {uri}");
        }
    }

    #[test]
    fn an_allowed_host_is_reached_without_credentials() {
        use Verdict::{Allowed, Own, Refused};
        let allowed: &[(&str, Option<u16>)] = &[("b.example", None), ("c.example", Some(8443))];
        let cases = [
            ("https://a.example/", Own),
            ("https://b.example/x", Allowed),
            ("http://b.example/x", Allowed),
            ("https://b.example:8443/x", Refused),
            ("https://c.example:8443/x", Allowed),
            ("https://c.example/x", Refused),
            ("ftp://b.example/x", Refused),
        ];
        for (uri, verdict) in cases {
            assert_eq!(judge("https://a.example/mcp", allowed, uri), verdict, "{uri}");
        }
    }

    #[test]
    fn a_refusal_names_the_host_and_the_remedy() {
        let text = refusal(&"https://b.example:8443/secret?x".parse().unwrap());
        assert!(text.contains("--allow-host b.example:8443") && !text.contains("secret"));
    }
}
