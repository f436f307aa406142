//! A login: the tokens for one server, and what is needed to renew them.

use std::time::{Duration, SystemTime};

use ::http::HeaderValue;
use serde::{Deserialize, Serialize};

use super::{grant::Tokens, metadata::Server, registration::Client};

/// Renew a token when no more than this is left of it, or than a quarter of its lifetime.
const MARGIN: u64 = 60;

#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Login {
    pub(crate) server: Server,
    /// The audience of the token.
    pub(crate) resource: String,
    pub(crate) client: Client,
    /// The scopes that were asked for.
    pub(crate) asked: Option<String>,
    /// The scopes of the token, if the server named others.
    pub(crate) granted: Option<String>,
    /// When the token was obtained, and when it expires: seconds since 1970.
    pub(crate) obtained: u64,
    pub(crate) expires: Option<u64>,
    /// Empty in a file whose secrets are in the keychain.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) access: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) refresh: Option<String>,
}

impl Login {
    pub(crate) fn new(server: Server, resource: String, client: Client, asked: Option<String>, tokens: Tokens) -> Self {
        let Tokens { access, refresh, lifetime, scope: granted } = tokens;
        let obtained = now();
        let expires = lifetime.map(|lifetime| obtained.saturating_add(lifetime.as_secs()));
        Self { server, resource, client, asked, granted, obtained, expires, access, refresh }
    }

    /// The same login with new tokens. A server that sends no new refresh token lets us
    /// use the old one again.
    pub(crate) fn renewed(&self, tokens: Tokens) -> Self {
        let Self { server, resource, client, asked, refresh, granted, .. } = self.clone();
        let tokens = Tokens { refresh: tokens.refresh.or(refresh), scope: tokens.scope.or(granted), ..tokens };
        Self::new(server, resource, client, asked, tokens)
    }

    /// The same login after its refresh token was refused.
    pub(crate) fn without_refresh(&self) -> Self {
        Self { refresh: None, ..self.clone() }
    }

    /// The token is about to expire.
    pub(crate) fn is_stale(&self, now: u64) -> bool {
        self.expires.is_some_and(|expires| {
            let margin = MARGIN.min(expires.saturating_sub(self.obtained) / 4);
            now.saturating_add(margin) >= expires
        })
    }

    /// All scopes that the token may have.
    pub(crate) fn scope(&self) -> &str {
        self.granted.as_deref().or(self.asked.as_deref()).unwrap_or_default()
    }

    /// The header that carries the token; `None` if the token has characters that no
    /// header has.
    pub(crate) fn header(&self) -> Option<HeaderValue> {
        let mut value = HeaderValue::from_str(&format!("Bearer {}", self.access)).ok()?;
        value.set_sensitive(true);
        Some(value)
    }

    /// Everything that nobody else may see.
    pub(crate) fn secrets(&self) -> impl Iterator<Item = &str> {
        [Some(self.access.as_str()), self.refresh.as_deref(), self.client.secret.as_deref()].into_iter().flatten()
    }
}

/// Seconds since 1970.
pub(crate) fn now() -> u64 {
    SystemTime::UNIX_EPOCH.elapsed().unwrap_or(Duration::ZERO).as_secs()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::{super::registration::Method, *};

    pub(crate) fn login(access: &str) -> Login {
        let server = Server::by_convention(&"https://as.example".parse().unwrap());
        let client =
            Client { id: "id".into(), secret: None, method: Method::None, registered_for: Some(7), scope: None };
        let tokens = Tokens { access: access.into(), refresh: Some("r".into()), lifetime: None, scope: None };
        Login::new(server, "https://a.example/mcp".into(), client, Some("a b".into()), tokens)
    }

    #[test]
    fn a_token_is_renewed_before_it_expires() {
        let cases = [
            (3600, 0, false),
            (3600, 3539, false),
            (3600, 3540, true),
            (3600, 9999, true),
            (40, 29, false),
            (40, 30, true),
        ];
        for (lifetime, after, stale) in cases {
            let login = Login { obtained: 1000, expires: Some(1000 + lifetime), ..login("x") };
            assert_eq!(login.is_stale(1000 + after), stale, "{lifetime} {after}");
        }
        assert!(!login("x").is_stale(u64::MAX));
    }

    #[test]
    fn a_renewal_keeps_what_the_server_does_not_repeat() {
        let tokens = |refresh: Option<&str>| Tokens {
            access: "new".into(),
            refresh: refresh.map(str::to_owned),
            lifetime: None,
            scope: None,
        };
        let kept = login("old").renewed(tokens(None));
        assert_eq!((&*kept.access, kept.refresh.as_deref(), kept.scope()), ("new", Some("r"), "a b"));
        assert_eq!(login("old").renewed(tokens(Some("r2"))).refresh.as_deref(), Some("r2"));
    }
}
