//! The origin policy: the checks of `Origin` and `Host` that keep out the web
//! pages of others, and the names that others point at us (DNS rebinding). A
//! request that carries neither header comes from no page.

use crate::refusal::Refusal;

/// The origins and hosts that are let in.
#[derive(Debug, Clone, Default)]
pub struct OriginPolicy {
    origins: Vec<String>,
    hosts: Vec<String>,
}

impl OriginPolicy {
    /// Lets in these origins (`https://app.example`) beside our own, and these
    /// hosts (`mcp.example`, with or without a port). No hosts: any.
    #[must_use]
    pub fn new(origins: Vec<String>, hosts: Vec<String>) -> Self {
        Self { origins, hosts }
    }

    /// Checks the `Origin` and the `Host` of a request that was sent to `own`,
    /// our origin as the client knows it.
    ///
    /// # Errors
    /// If the request must not come in.
    pub fn admit(&self, origin: Option<&str>, host: Option<&str>, own: &str) -> Result<(), Refusal> {
        let listed = |origin: &str| self.origins.iter().any(|listed| listed.eq_ignore_ascii_case(origin));
        let allowed = |origin: &str| listed(origin) || (self.is_ours(own) && same(origin, own));
        if !origin.is_none_or(allowed) {
            return Err(Refusal::Origin);
        }
        if !self.hosts.is_empty() && !self.is_ours(host.unwrap_or_default()) {
            return Err(Refusal::Host);
        }
        Ok(())
    }

    /// Whether a host, or the host of an origin, is one of ours.
    fn is_ours(&self, place: &str) -> bool {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn knock(policy: &OriginPolicy, origin: Option<&str>, host: &str) -> Result<(), Refusal> {
        policy.admit(origin, Some(host), &format!("https://{host}"))
    }

    #[test]
    fn pages_of_others_stay_out() {
        let policy = OriginPolicy::new(vec!["https://app.example".to_owned()], Vec::new());
        for good in [None, Some("https://app.example"), Some("HTTPS://APP.example"), Some("https://edge.example")] {
            assert_eq!(knock(&policy, good, "edge.example"), Ok(()), "{good:?}");
        }
        for bad in ["null", "", "https://evil.example", "http://edge.example", "https://app.example.evil", "\u{e9}"] {
            assert_eq!(knock(&policy, Some(bad), "edge.example"), Err(Refusal::Origin), "{bad}");
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
            assert_eq!(knock(&policy, None, bad), Err(Refusal::Host), "{bad}");
        }
        // A name that leads to us is not ours because the page says so too.
        assert_eq!(knock(&policy, Some("https://evil.example"), "evil.example"), Err(Refusal::Origin));
    }
}
