//! Whose sessions are counted together. A client chooses most of what it says of
//! itself, so only its credentials and its address count.

use crate::access::Access;
use std::net::IpAddr;

impl Access {
    /// The name under which the sessions of a client are counted: its principal,
    /// or else its address.
    #[must_use]
    pub fn client(&self, authorization: Option<&str>, address: &str) -> String {
        let principal = self.principal(authorization);
        if principal.is_empty() { format!("at {}", network(address)) } else { principal }
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
        assert_eq!(forwarded.client(Some("Bearer a"), "192.0.2.1"), forwarded.principal(Some("Bearer a")));
        assert_eq!(forwarded.client(None, "192.0.2.1"), "at 192.0.2.1");
        assert_eq!(Access::Public.client(Some("Bearer a"), "2001:db8::1"), "at 2001:db8:0:0:");
    }
}
