//! Rewrites `WWW-Authenticate` for clients (RFC 9110, 11.6.1; RFC 6750, 3; RFC 9728, 5.1). A
//! server's challenge names the server's own metadata, which are not true for us. So a client
//! gets a challenge of ours, with only those parameters of the server's that tell the client
//! which token to fetch.

use http::header::WWW_AUTHENTICATE;
use http::{HeaderMap, HeaderValue, StatusCode};

/// The parameters that tell a client which token to fetch, in the order of our challenge.
/// Some clients search the header for `name=`, so free text comes last.
const TOLD: [&str; 3] = ["error", "scope", "error_description"];

/// Makes the challenge of a response ours, if it has one. A 401 must have one. `metadata` is
/// the URL of the endpoint's metadata.
pub fn replace(status: StatusCode, headers: &mut HeaderMap, metadata: &str) {
    let given = headers.get(WWW_AUTHENTICATE).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    if given.is_none() && status != StatusCode::UNAUTHORIZED {
        return;
    }
    headers.remove(WWW_AUTHENTICATE);
    let ours = HeaderValue::try_from(restate(&given.unwrap_or_default(), metadata));
    headers.extend(ours.ok().map(|ours| (WWW_AUTHENTICATE, ours)));
}

/// Our challenge to a client whose credentials are missing or wrong.
pub(crate) fn ask(metadata: &str) -> String {
    format!("Bearer resource_metadata=\"{metadata}\"")
}

/// A server's challenge as ours. Without one for bearer tokens, it is [`ask`].
fn restate(challenge: &str, metadata: &str) -> String {
    let parameters = bearer(challenge);
    let told = TOLD.iter().filter_map(|name| {
        let (_, value) = parameters.iter().find(|(given, _)| given == name)?;
        Some(format!(", {name}=\"{}\"", printable(name, value)?))
    });
    told.fold(ask(metadata), |text, parameter| text + &parameter)
}

/// A value that needs no escapes. Text for people may lose a character; a code or a scope would
/// then be another one.
fn printable(name: &str, value: &str) -> Option<String> {
    let allowed = |letter: char| matches!(letter, ' '..='~') && !matches!(letter, '"' | '\\');
    let kept: String = value.chars().filter(|letter| allowed(*letter)).collect();
    (!kept.is_empty() && (kept == value || name == "error_description")).then_some(kept)
}

/// The parameters of the first challenge for bearer tokens, with names in lower case.
fn bearer(challenges: &str) -> Vec<(String, String)> {
    let mut rest = challenges;
    let (mut of_bearer, mut found) = (false, Vec::new());
    while let Some((word, after)) = word(rest) {
        match value(after) {
            Some((value, after)) => {
                let first = !found.iter().any(|(name, _)| *name == word);
                found.extend(value.filter(|_| of_bearer && first).map(|value| (word, value)));
                rest = after;
            }
            // The next scheme.
            None if of_bearer => break,
            None => {
                of_bearer = word == "bearer";
                rest = blob(after);
            }
        }
    }
    found
}

/// The next token, in lower case, and the text after it.
fn word(text: &str) -> Option<(String, &str)> {
    let text = text.trim_start_matches([' ', '\t', ',']);
    let (word, rest) = text.split_at(text.find(|letter| !is_token(letter)).unwrap_or(text.len()));
    (!word.is_empty()).then(|| (word.to_ascii_lowercase(), rest))
}

/// The value of a parameter, if this follows its name. A quoted text without an end has none.
fn value(text: &str) -> Option<(Option<String>, &str)> {
    let text = text.trim_start().strip_prefix('=')?.trim_start();
    let Some(quoted) = text.strip_prefix('"') else {
        let (value, rest) = text.split_at(text.find([',', ' ', '\t']).unwrap_or(text.len()));
        return Some((Some(value.to_owned()), rest));
    };
    let (mut value, mut letters) = (String::new(), quoted.char_indices());
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return Some((Some(value), quoted.get(at + 1..).unwrap_or_default())),
            '\\' => value.extend(letters.next().map(|(_, letter)| letter)),
            _ => value.push(letter),
        }
    }
    Some((None, ""))
}

/// The text after the credentials that some schemes have in place of parameters (`token68`).
fn blob(text: &str) -> &str {
    let start = text.trim_start_matches([' ', '\t']);
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || "-._~+/".contains(letter);
    let rest = start.trim_start_matches(is_part).trim_start_matches('=').trim_start();
    if rest.is_empty() || rest.starts_with(',') { rest } else { text }
}

fn is_token(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(letter)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: &str = "https://edge.example/.well-known/oauth-protected-resource/mcp";

    #[test]
    fn a_challenge_keeps_what_tells_the_client_which_token_to_fetch() {
        for (challenge, told) in [
            ("Bearer", ""),
            (r#"Bearer realm="x", resource_metadata="https://server.example/m""#, ""),
            (
                r#"Bearer scope="a b", error_description="It expired", error="invalid_token""#,
                r#", error="invalid_token", scope="a b", error_description="It expired""#,
            ),
            ("bearer ERROR=insufficient_scope,Scope=a", r#", error="insufficient_scope", scope="a""#),
            ("Bearer error = \"x\" , scope\t=\t\"a\"", r#", error="x", scope="a""#),
            // Other schemes, before and after.
            (r#"DPoP algs="ES256", scope="not ours", Bearer scope="a", Basic realm="x", error="y""#, r#", scope="a""#),
            ("Negotiate abc+/==, Bearer scope=a", r#", scope="a""#),
            ("Negotiate, Bearer scope=a", r#", scope="a""#),
            (r#"Basic realm="Bearer scope=a""#, ""),
            // Only the first counts.
            (r#"Bearer scope="a", scope="b""#, r#", scope="a""#),
            (r#"Bearer scope="a", Bearer scope="b", error="x""#, r#", scope="a""#),
            // What would need escapes, or has no end.
            (r#"Bearer error_description="a \"b\"\\ ö", error="a\"b""#, r#", error_description="a b ""#),
            (r#"Bearer scope="a", error_description="open"#, r#", scope="a""#),
            (r#"Bearer scope="", error="""#, ""),
            ("Bearer scope=", ""),
            ("", ""),
            ("=,= \"", ""),
        ] {
            assert_eq!(restate(challenge, OURS), format!("Bearer resource_metadata=\"{OURS}\"{told}"), "{challenge}");
        }
    }

    #[test]
    fn a_challenge_is_always_ours_and_a_401_has_one() {
        for (status, given, expected) in [
            (401, Some("Bearer scope=a"), Some(r#", scope="a""#)),
            (401, Some("Basic realm=x"), Some("")),
            (401, None, Some("")),
            (403, Some("Bearer scope=a"), Some(r#", scope="a""#)),
            (403, None, None),
            (200, None, None),
        ] {
            let given = given.map(|text| (WWW_AUTHENTICATE, HeaderValue::from_static(text)));
            let mut headers: HeaderMap = given.into_iter().collect();
            replace(StatusCode::from_u16(status).unwrap(), &mut headers, OURS);
            let expected = expected.map(|told| format!("Bearer resource_metadata=\"{OURS}\"{told}"));
            assert_eq!(headers.get(WWW_AUTHENTICATE).map(|value| value.to_str().unwrap().to_owned()), expected);
        }
    }

    #[test]
    fn a_server_cannot_name_other_metadata_in_its_words() {
        let said = r#"Bearer error_description="resource_metadata=https://evil.example/ scope=all", scope="a""#;
        let ours = restate(said, OURS);
        for (name, first) in [("resource_metadata=", format!("\"{OURS}\"")), ("scope=", "\"a\"".to_owned())] {
            assert!(ours.split_once(name).unwrap().1.starts_with(&first), "{ours}");
        }
    }
}
