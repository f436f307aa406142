//! Extracts the useful parts of a `WWW-Authenticate` header for people (RFC 9110, 11.6.1;
//! RFC 6750, 3; RFC 9728, 5.1). A pure function of the headers.

use crate::failure::one_line;
use crate::wire::text::steers;
use http::HeaderMap;
use http::header::WWW_AUTHENTICATE;

/// How much of a challenge to keep.
const LONGEST: usize = 1024;

/// The parameters that help a person, in the order of display.
const TELLING: [&str; 4] = ["error_description", "error", "scope", "resource_metadata"];

/// A host that logs in for us says here why it has no token.
const NO_LOGIN: &str = "mcp-proxy-no-login";

/// What a refusal says about credentials.
#[derive(Debug, Default)]
pub(crate) struct Challenge {
    /// The server's challenges on one line, truncated.
    pub(crate) text: Option<String>,
    /// Why the host has no token for the server.
    pub(crate) no_login: Option<String>,
}

impl Challenge {
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let all = |name: &str| {
            let values: Vec<_> =
                headers.get_all(name).iter().map(|value| String::from_utf8_lossy(value.as_bytes())).collect();
            let text: String = values.join(", ").chars().map(printable).take(LONGEST).collect();
            (!text.is_empty()).then_some(text)
        };
        Self { text: all(WWW_AUTHENTICATE.as_str()), no_login: all(NO_LOGIN) }
    }
}

fn printable(letter: char) -> char {
    if steers(letter) { ' ' } else { letter }
}

/// The helpful parameters of a challenge.
pub(crate) fn words(challenge: &str) -> String {
    let parameters = parameters(challenge);
    let named = TELLING.iter().filter_map(|telling| parameters.iter().find(|(name, _)| name == telling));
    let words =
        named.map(
            |(name, value)| {
                if name == "error_description" { one_line(value) } else { format!("{name}: {}", one_line(value)) }
            },
        );
    words.collect::<Vec<_>>().join("; ")
}

/// Whether a challenge asks for a bearer token (RFC 6750, 3).
pub(crate) fn names_bearer(challenge: &str) -> bool {
    challenge.split([' ', ',']).any(|word| word.eq_ignore_ascii_case("bearer"))
}

/// The parameters, in order. Schemes and tokens are skipped.
fn parameters(challenge: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut rest = challenge;
    while let Some((before, after)) = rest.split_once('=') {
        let name = before.rsplit([' ', ',', '\t']).next().unwrap_or_default().to_ascii_lowercase();
        let (value, next) = value(after);
        found.push((name, value));
        rest = next;
    }
    found
}

/// A value, quoted or not, and the text after it.
fn value(text: &str) -> (String, &str) {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find([',', ' ']).unwrap_or(text.len());
        let (value, rest) = text.split_at(end);
        return (value.to_owned(), rest);
    };
    let mut value = String::new();
    let mut letters = quoted.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return (value, quoted.get(at + 1..).unwrap_or_default()),
            '\\' => value.extend(letters.next().map(|(_, letter)| letter)),
            _ => value.push(letter),
        }
    }
    (value, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_telling_parameters_are_found_however_they_are_written() {
        let cases = [
            ("", ""),
            ("Basic", ""),
            ("Negotiate abc==", ""),
            (
                r#"Bearer realm="x", error="invalid_token", error_description="It expired""#,
                "It expired; error: invalid_token",
            ),
            (r#"Bearer scope="a b",resource_metadata="https://h/m""#, "scope: a b; resource_metadata: https://h/m"),
            (r#"DPoP algs="ES256", Bearer error=insufficient_scope"#, "error: insufficient_scope"),
            (r#"Bearer error_description="a \"b\", c", SCOPE="s""#, r#"a "b", c; scope: s"#),
            (r#"Bearer error_description="open"#, "open"),
            ("Bearer error=", "error: "),
        ];
        for (challenge, want) in cases {
            assert_eq!(words(challenge), want, "{challenge}");
        }
    }

    #[test]
    fn a_challenge_is_cut_and_in_one_line() {
        let mut headers = HeaderMap::new();
        assert_eq!(Challenge::of(&headers).text, None);
        headers.append(WWW_AUTHENTICATE, "Basic\tx".parse().unwrap());
        headers.append(WWW_AUTHENTICATE, "y".repeat(9000).parse().unwrap());
        let text = Challenge::of(&headers).text.unwrap();
        assert!(text.starts_with("Basic x, yyy") && text.len() == LONGEST, "{text}");
    }
}
