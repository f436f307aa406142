//! Which scopes to ask for. Pure.

use std::collections::BTreeSet;

use super::metadata::{Resource, Server};

/// Asks the authorization server for a refresh token (`OpenID` Connect Core, section 11).
pub(crate) const OFFLINE: &str = "offline_access";

/// The scopes for a first token: the user's, else those of the challenge, else those that
/// the resource lists; `None` asks for none by name.
pub(crate) fn first(
    user: Option<&str>,
    challenge: Option<&str>,
    resource: Option<&Resource>,
    server: &Server,
) -> Option<String> {
    let listed = resource.map(|resource| resource.scopes_supported.join(" ")).filter(|scope| !scope.is_empty());
    let wanted = user.or(challenge).map(str::to_owned).or(listed)?;
    let offline = server.refreshes() && server.scopes_supported.iter().any(|scope| scope == OFFLINE);
    Some(if offline && user.is_none() { union(&wanted, OFFLINE) } else { wanted })
}

/// All scopes of both, each once, in order.
pub(crate) fn union(one: &str, other: &str) -> String {
    let mut seen = BTreeSet::new();
    let words = one.split_ascii_whitespace().chain(other.split_ascii_whitespace());
    words.filter(|word| seen.insert(*word)).collect::<Vec<_>>().join(" ")
}

/// The scopes for a client that logs in as itself. It gets no refresh token, so it must not
/// ask for one (RFC 6749, section 4.4.3).
pub(crate) fn without_offline(scope: &str) -> String {
    scope.split_ascii_whitespace().filter(|word| *word != OFFLINE).collect::<Vec<_>>().join(" ")
}

/// Whether `scope` has all scopes of `wanted`.
pub(crate) fn covers(scope: &str, wanted: &str) -> bool {
    wanted.split_ascii_whitespace().all(|wanted| scope.split_ascii_whitespace().any(|word| word == wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_decides_then_the_challenge_then_the_resource() {
        let server = |scopes: &[&str], grants: &[&str]| {
            let own = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
            let convention = Server::by_convention(&"https://a.example".parse().unwrap());
            Server { scopes_supported: own(scopes), grant_types_supported: own(grants), ..convention }
        };
        let resource = Resource {
            resource: String::new(),
            authorization_servers: Vec::new(),
            scopes_supported: vec!["r1".into(), "r2".into()],
        };
        let (plain, offline) = (server(&[], &[]), server(&["x", OFFLINE], &[]));
        let codes = server(&[OFFLINE], &["authorization_code"]);
        let listed = Some(&resource);
        let cases = [
            (Some("u"), Some("c"), listed, &offline, Some("u")),
            (None, Some("c d"), listed, &plain, Some("c d")),
            (None, None, listed, &plain, Some("r1 r2")),
            (None, None, None, &plain, None),
            (None, None, None, &offline, None),
            (None, Some("c"), None, &offline, Some("c offline_access")),
            (None, Some("c offline_access"), None, &offline, Some("c offline_access")),
            (None, Some("c"), None, &codes, Some("c")),
        ];
        for (user, challenge, resource, server, expected) in cases {
            assert_eq!(first(user, challenge, resource, server).as_deref(), expected, "{user:?} {challenge:?}");
        }
    }

    #[test]
    fn a_step_up_keeps_what_was_there() {
        assert_eq!(union("a b", "b c"), "a b c");
        assert_eq!(union("", " c  c "), "c");
        assert_eq!(without_offline("a offline_access b"), "a b");
        assert_eq!(without_offline("offline_access"), "");
        assert!(covers("a b", "b"));
        assert!(covers("", ""));
        assert!(!covers("ab", "a"));
    }
}
