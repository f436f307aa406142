//! The origin policy: checks of `Origin` and `Host` that keep out foreign web pages and
//! foreign names that resolve to the proxy. A shell checks it before it looks for a
//! session. Authentication of the client does not belong here.

use http::header::{HOST, ORIGIN};
use http::{HeaderMap, HeaderName};

/// The allowed origins and hosts.
#[derive(Debug, Clone, Default)]
pub struct OriginPolicy {
    origins: Vec<String>,
    hosts: Vec<String>,
}

/// Why the policy rejects a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rejection {
    /// It comes from a foreign web page.
    Origin,
    /// It was sent to a host name that is not allowed.
    Host,
}

impl OriginPolicy {
    /// Allows these origins (`https://app.example`) besides the proxy's own, and these
    /// hosts (`mcp.example`, with or without a port). An empty list of hosts allows any.
    #[must_use]
    pub fn new(origins: Vec<String>, hosts: Vec<String>) -> Self {
        Self { origins, hosts }
    }

    /// Checks a request that was sent to `own`, the proxy's origin as the client knows
    /// it.
    ///
    /// # Errors
    /// If the policy rejects the request.
    pub fn admit(&self, headers: &HeaderMap, own: &str) -> Result<(), Rejection> {
        let origin = text(headers, &ORIGIN);
        let listed = |origin: &str| self.origins.iter().any(|listed| listed.eq_ignore_ascii_case(origin));
        if headers.contains_key(ORIGIN) && !(self.known(own) && same(origin, own)) && !listed(origin) {
            return Err(Rejection::Origin);
        }
        if !self.hosts.is_empty() && !self.known(text(headers, &HOST)) {
            return Err(Rejection::Host);
        }
        Ok(())
    }

    /// Whether the host, or the host of an origin, is allowed.
    fn known(&self, place: &str) -> bool {
        let host = place.split_once("://").map_or(place, |(_, host)| host);
        let name = host.rsplit_once(':').filter(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()));
        let name = name.map_or(host, |(name, _)| name);
        let fits = |listed: &String| listed.eq_ignore_ascii_case(host) || listed.eq_ignore_ascii_case(name);
        self.hosts.is_empty() || self.hosts.iter().any(fits)
    }
}

fn same(one: &str, other: &str) -> bool {
    !one.is_empty() && one.eq_ignore_ascii_case(other)
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> &'a str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn knock(policy: &OriginPolicy, origin: Option<&str>, host: &str) -> Result<(), Rejection> {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, host.parse().unwrap());
        if let Some(origin) = origin {
            headers.insert(ORIGIN, origin.parse().unwrap());
        }
        policy.admit(&headers, &format!("https://{host}"))
    }

    #[test]
    fn pages_of_others_stay_out() {
        let policy = OriginPolicy::new(vec!["https://app.example".to_owned()], Vec::new());
        for good in [None, Some("https://app.example"), Some("HTTPS://APP.example"), Some("https://edge.example")] {
            assert_eq!(knock(&policy, good, "edge.example"), Ok(()), "{good:?}");
        }
        for bad in ["null", "", "https://evil.example", "http://edge.example", "https://app.example.evil", "\u{e9}"] {
            assert_eq!(knock(&policy, Some(bad), "edge.example"), Err(Rejection::Origin), "{bad}");
        }
    }

    #[test]
    fn only_names_of_ours_are_answered_to() {
        let policy =
            OriginPolicy::new(Vec::new(), vec!["edge.example".to_owned(), "localhost".to_owned(), "[::1]".to_owned()]);
        for good in ["edge.example", "EDGE.example", "localhost:8787", "[::1]:8787", "[::1]"] {
            assert_eq!(knock(&policy, None, good), Ok(()), "{good}");
        }
        for bad in ["evil.example", "edge.example.evil", "localhost.evil:8787", "127.0.0.1"] {
            assert_eq!(knock(&policy, None, bad), Err(Rejection::Host), "{bad}");
        }
        // A page on a name that resolves to the proxy does not make that name allowed.
        assert_eq!(knock(&policy, Some("https://evil.example"), "evil.example"), Err(Rejection::Origin));
    }
}
