//! What a refusal says about the token that it wants: the Bearer challenge of a 401 or a
//! 403 (RFC 6750, section 3; RFC 9728, section 5.1). A pure function of the headers.

use ::http::{HeaderMap, header::WWW_AUTHENTICATE};

/// Longer headers are not read.
const LONGEST: usize = 8 << 10;

/// The parameters of a Bearer challenge. All are optional.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Challenge {
    /// Where the metadata of the protected resource is.
    pub(crate) resource_metadata: Option<String>,
    /// The scopes that the request needs.
    pub(crate) scope: Option<String>,
    pub(crate) error: Option<String>,
}

impl Challenge {
    /// The first Bearer challenge of a response; `None` if there is none.
    pub(crate) fn of(headers: &HeaderMap) -> Option<Self> {
        let values = headers.get_all(WWW_AUTHENTICATE).iter().filter_map(|value| value.to_str().ok());
        values.filter(|value| value.len() <= LONGEST).find_map(bearer)
    }

    /// The token is good, but not for this request.
    pub(crate) fn wants_more(&self) -> bool {
        self.error.as_deref() == Some("insufficient_scope")
    }
}

/// Reads the Bearer challenge among the challenges of one header.
fn bearer(header: &str) -> Option<Challenge> {
    let mut challenge = None;
    let mut rest = header;
    while let Some((word, after)) = word(rest) {
        rest = match value(after) {
            // A word without a value is the name of a scheme.
            None if challenge.is_some() => break,
            None => {
                challenge = word.eq_ignore_ascii_case("bearer").then(Challenge::default);
                after
            }
            Some((value, after)) => {
                challenge.iter_mut().for_each(|challenge| challenge.set(word, value.clone()));
                after
            }
        };
    }
    challenge
}

impl Challenge {
    fn set(&mut self, name: &str, value: String) {
        let place = match name.to_ascii_lowercase().as_str() {
            "resource_metadata" => &mut self.resource_metadata,
            "scope" => &mut self.scope,
            "error" => &mut self.error,
            _ => return,
        };
        if !value.is_empty() {
            place.get_or_insert(value);
        }
    }
}

/// The next word, and the text after it.
fn word(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_start_matches([' ', '\t', ',']);
    let end = text.find([' ', '\t', ',', '=']).unwrap_or(text.len());
    text.split_at_checked(end).filter(|(word, _)| !word.is_empty())
}

/// The value after a name, quoted or not, and the text after it.
fn value(text: &str) -> Option<(String, &str)> {
    let text = text.trim_start().strip_prefix('=')?.trim_start();
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find([' ', '\t', ',']).unwrap_or(text.len());
        return text.split_at_checked(end).map(|(value, rest)| (value.to_owned(), rest));
    };
    let mut value = String::new();
    let mut letters = quoted.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return Some((value, quoted.get(at + 1..).unwrap_or_default())),
            '\\' => value.extend(letters.next().map(|(_, letter)| letter)),
            _ => value.push(letter),
        }
    }
    Some((value, ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn challenge(headers: &[&str]) -> Option<Challenge> {
        let pairs = headers.iter().map(|value| (WWW_AUTHENTICATE, value.parse().unwrap()));
        let mut map = HeaderMap::new();
        map.extend(pairs.map(|(name, value)| (Some(name), value)));
        Challenge::of(&map)
    }

    #[test]
    fn the_bearer_challenge_is_found_however_it_is_written() {
        let of = |metadata: Option<&str>, scope: Option<&str>, error: Option<&str>| {
            let own = |text: Option<&str>| text.map(str::to_owned);
            Some(Challenge { resource_metadata: own(metadata), scope: own(scope), error: own(error) })
        };
        let cases: [(&[&str], Option<Challenge>); 12] = [
            (&[], None),
            (&["Basic realm=\"x\""], None),
            (&["Bearer"], of(None, None, None)),
            (&["bearer scope=\"a b\""], of(None, Some("a b"), None)),
            (&["Bearer scope=a, error=invalid_token"], of(None, Some("a"), Some("invalid_token"))),
            (&["Bearer resource_metadata=\"http://h/a?b=c,d\""], of(Some("http://h/a?b=c,d"), None, None)),
            (&["Basic realm=\"Bearer scope=x\", Bearer scope=\"y\""], of(None, Some("y"), None)),
            (&["Bearer scope=\"y\", Basic realm=\"r\", scope=\"z\""], of(None, Some("y"), None)),
            (&["Basic realm=\"r\"", "BEARER Scope = \"q\\\"r\""], of(None, Some("q\"r"), None)),
            (&["Bearer scope=\"\""], of(None, None, None)),
            (&["Bearer scope=\"open"], of(None, Some("open"), None)),
            (&["Bearer scope=\"one\", scope=\"two\""], of(None, Some("one"), None)),
        ];
        for (headers, expected) in cases {
            assert_eq!(challenge(headers), expected, "{headers:?}");
        }
    }
}
