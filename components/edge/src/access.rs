//! Who may come in, and whom a session belongs to. Tokens are compared in
//! constant time, and a principal is a hash, so that no credential is stored or
//! logged.

use sha2::{Digest, Sha256};
use std::fmt::{self, Write};
use subtle::ConstantTimeEq;

/// Who may come in.
#[derive(Clone, PartialEq, Eq)]
pub enum Access {
    /// Everybody.
    Public,
    /// Whoever has this bearer token.
    Token(String),
    /// Whoever the server lets in: it gets the client's own credentials.
    Forwarded {
        /// Whether clients without credentials may try.
        anonymous: bool,
    },
}

impl Access {
    /// Whether a request with this `Authorization` may come in.
    #[must_use]
    pub fn admits(&self, authorization: Option<&str>) -> bool {
        match self {
            Self::Public => true,
            Self::Forwarded { anonymous } => *anonymous || authorization.is_some(),
            Self::Token(token) => authorization.and_then(bearer).is_some_and(|given| same(given, token)),
        }
    }

    /// Whether the server gets the client's own credentials.
    #[must_use]
    pub fn is_forwarded(&self) -> bool {
        matches!(self, Self::Forwarded { .. })
    }

    /// The credentials that the server gets, if it gets those of the client.
    #[must_use]
    pub fn forwarded<'a>(&self, authorization: Option<&'a str>) -> Option<&'a str> {
        match self {
            Self::Forwarded { .. } => authorization,
            Self::Public | Self::Token(_) => None,
        }
    }

    /// Whom a session belongs to: whoever has these credentials, or everybody,
    /// which is the empty principal.
    #[must_use]
    pub fn principal(&self, authorization: Option<&str>) -> String {
        self.forwarded(authorization).map_or_else(String::new, fingerprint)
    }
}

/// The token must not get into a log.
impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Public => f.write_str("Public"),
            Self::Token(_) => f.write_str("Token(..)"),
            Self::Forwarded { anonymous } => f.debug_struct("Forwarded").field("anonymous", anonymous).finish(),
        }
    }
}

fn bearer(authorization: &str) -> Option<&str> {
    let (scheme, token) = authorization.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// Compares hashes, in a time that depends neither on the lengths nor on how
/// much agrees.
fn same(given: &str, token: &str) -> bool {
    Sha256::digest(given).ct_eq(&Sha256::digest(token)).into()
}

fn fingerprint(credentials: &str) -> String {
    Sha256::digest(credentials).iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").ok();
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_access_admits_its_own() {
        let token = Access::Token("secret".to_owned());
        let (forwarded, open) = (Access::Forwarded { anonymous: false }, Access::Forwarded { anonymous: true });
        for (access, authorization, admitted) in [
            (&Access::Public, None, true),
            (&Access::Public, Some("anything"), true),
            (&token, Some("Bearer secret"), true),
            (&token, Some("bearer  secret "), true),
            (&token, None, false),
            (&token, Some(""), false),
            (&token, Some("secret"), false),
            (&token, Some("Bearer"), false),
            (&token, Some("Bearer "), false),
            (&token, Some("Bearer Secret"), false),
            (&token, Some("Bearer secrets"), false),
            (&token, Some("Basic secret"), false),
            (&forwarded, Some("Basic x"), true),
            (&forwarded, None, false),
            (&open, None, true),
        ] {
            assert_eq!(access.admits(authorization), admitted, "{access:?} {authorization:?}");
        }
    }

    #[test]
    fn only_forwarded_credentials_make_a_principal() {
        let forwarded = Access::Forwarded { anonymous: true };
        let (one, other) = (forwarded.principal(Some("Bearer a")), forwarded.principal(Some("Bearer b")));
        assert_ne!(one, other);
        assert_eq!(one.len(), 64);
        assert_eq!(one, forwarded.principal(Some("Bearer a")));
        assert!(!one.contains("Bearer"));
        assert_eq!(forwarded.principal(None), "");
        for access in [Access::Public, Access::Token("a".to_owned())] {
            assert_eq!(access.principal(Some("Bearer a")), "", "{access:?}");
            assert_eq!(access.forwarded(Some("Bearer a")), None, "{access:?}");
        }
    }

    #[test]
    fn a_token_is_not_in_the_debug_text() {
        assert_eq!(format!("{:?}", Access::Token("secret".to_owned())), "Token(..)");
    }
}
