//! Which sessions are counted together. A client can make up most of what it says about
//! itself, so only its address counts, and credentials that a server has admitted.

use crate::access::Access;
use std::net::IpAddr;

impl Access {
    /// The name under which the sessions of a client are counted: its principal, or else
    /// its address. The principal counts only once a server has `admitted` it: a client
    /// could make up any number of credentials.
    #[must_use]
    pub fn client(&self, authorization: Option<&str>, address: &str, admitted: impl FnOnce(&str) -> bool) -> String {
        let principal = self.principal(authorization);
        let counts = !principal.is_empty() && admitted(&principal);
        if counts { principal } else { format!("at {}", network(address)) }
    }
}

/// The addresses that one client has: an IPv4 address, or the 64 bits that the
/// network gives to a client of IPv6.
#[must_use]
pub fn network(address: &str) -> String {
    match address.parse() {
        Ok(IpAddr::V6(long)) => {
            long.segments().iter().take(4).fold(String::new(), |text, part| format!("{text}{part:x}:"))
        }
        Ok(IpAddr::V4(_)) | Err(_) => address.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_one_client_have_one_name() {
        for (address, expected) in [
            ("192.0.2.1", "192.0.2.1"),
            ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2:"),
            ("2001:0db8:0001:0002::", "2001:db8:1:2:"),
            ("::1", "0:0:0:0:"),
            ("", ""),
            ("unknown", "unknown"),
        ] {
            assert_eq!(network(address), expected, "{address}");
        }
    }

    #[test]
    fn sessions_are_counted_by_principal_or_else_by_address() {
        let forwarded = Access::Forwarded { anonymous: true };
        let principal = forwarded.principal(Some("Bearer a"));
        assert_eq!(forwarded.client(Some("Bearer a"), "192.0.2.1", |asked| asked == principal), principal);
        assert_eq!(forwarded.client(Some("Bearer a"), "192.0.2.1", |_| false), "at 192.0.2.1");
        assert_eq!(forwarded.client(None, "192.0.2.1", |_| true), "at 192.0.2.1");
        assert_eq!(Access::Public.client(Some("Bearer a"), "2001:db8::1", |_| true), "at 2001:db8:0:0:");
    }
}
