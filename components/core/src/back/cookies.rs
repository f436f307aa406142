//! Cookies for load balancers that route a session by cookie. The jar is bounded, lives
//! in memory, and returns cookies only to the origin that set them. All other uses of
//! cookies do not belong here.

use http::header::{HeaderMap, HeaderValue, SET_COOKIE};
use url::{Origin, Url};

/// Limits: every request carries the whole jar, and servers refuse long headers.
const MOST: usize = 32;
const MOST_BYTES: usize = 8 << 10;

#[derive(Debug, Default)]
pub(crate) struct Cookies {
    origin: Option<Origin>,
    kept: Vec<(String, String)>,
}

impl Cookies {
    /// Stores the cookies that a response from `url` sets.
    pub(super) fn take(&mut self, url: &Url, headers: &HeaderMap) {
        for value in headers.get_all(SET_COOKIE) {
            let Some((name, value, gone)) = value.to_str().ok().and_then(read) else { continue };
            if self.origin.as_ref() != Some(&url.origin()) {
                *self = Self { origin: Some(url.origin()), kept: Vec::new() };
            }
            self.kept.retain(|(known, _)| *known != name);
            let bytes = |(name, value): &(String, String)| name.len() + value.len();
            let all: usize = self.kept.iter().map(bytes).sum();
            if !gone && self.kept.len() < MOST && all + name.len() + value.len() <= MOST_BYTES {
                self.kept.push((name, value));
            }
        }
    }

    /// The `Cookie` header for a request to `url`; the user's own cookies come first.
    pub(super) fn header(&self, url: &Url, user: Option<&HeaderValue>) -> Option<HeaderValue> {
        if self.kept.is_empty() || self.origin.as_ref() != Some(&url.origin()) {
            return None;
        }
        let kept = self.kept.iter().map(|(name, value)| format!("{name}={value}"));
        let user = user.and_then(|value| value.to_str().ok()).map(str::to_owned);
        let text: Vec<String> = user.into_iter().chain(kept).collect();
        let mut value = HeaderValue::from_str(&text.join("; ")).ok()?;
        value.set_sensitive(true);
        Some(value)
    }
}

/// Name, value, and whether the cookie has expired.
fn read(text: &str) -> Option<(String, String, bool)> {
    let mut parts = text.split(';');
    let (name, value) = parts.next()?.split_once('=')?;
    let gone = parts.any(|attribute| {
        let (key, value) = attribute.split_once('=').unwrap_or((attribute, ""));
        let (key, value) = (key.trim().to_ascii_lowercase(), value.trim());
        (key == "max-age" && value.parse::<i64>().is_ok_and(|age| age <= 0))
            || (key == "expires" && value.contains("1970"))
    });
    let name = name.trim();
    (!name.is_empty()).then(|| (name.to_owned(), value.trim().to_owned(), gone))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(jar: &mut Cookies, url: &str, values: &[&str]) {
        let headers = values.iter().map(|value| (SET_COOKIE, value.parse().unwrap())).collect();
        jar.take(&Url::parse(url).unwrap(), &headers);
    }

    fn sent(jar: &Cookies, url: &str, user: Option<&str>) -> Option<String> {
        let user = user.map(|value| HeaderValue::from_str(value).unwrap());
        let value = jar.header(&Url::parse(url).unwrap(), user.as_ref());
        value.map(|value| value.to_str().unwrap().to_owned())
    }

    #[test]
    fn cookies_go_back_to_the_exact_origin_until_they_are_gone() {
        let mut jar = Cookies::default();
        assert_eq!(sent(&jar, "https://h/mcp", Some("u=1")), None);
        set(
            &mut jar,
            "https://h/mcp",
            &["AWSALB=a; Path=/; Expires=Fri, 01 Jan 2038 00:00:00 GMT", "b= 2 ;HttpOnly", "bad"],
        );
        assert_eq!(sent(&jar, "https://h/other", None).as_deref(), Some("AWSALB=a; b=2"));
        assert_eq!(sent(&jar, "https://h/", Some("u=1")).as_deref(), Some("u=1; AWSALB=a; b=2"));
        for foreign in ["http://h/mcp", "https://h:8/mcp", "https://x.h/mcp"] {
            assert_eq!(sent(&jar, foreign, None), None, "{foreign}");
        }
        set(&mut jar, "https://h/mcp", &["AWSALB=c", "b=; Max-Age=0"]);
        assert_eq!(sent(&jar, "https://h/mcp", None).as_deref(), Some("AWSALB=c"));
        set(&mut jar, "https://h:8/mcp", &["d=4"]);
        assert_eq!(sent(&jar, "https://h/mcp", None), None);
    }

    #[test]
    fn the_jar_is_bounded() {
        let mut jar = Cookies::default();
        let many: Vec<String> = (0..100).map(|n| format!("c{n}=x")).collect();
        set(&mut jar, "https://h/", &many.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(jar.kept.len(), MOST);
        let mut jar = Cookies::default();
        let big: Vec<String> = (0..MOST).map(|n| format!("c{n}={}", "x".repeat(3000))).collect();
        set(&mut jar, "https://h/", &big.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(jar.kept.len(), 2);
    }
}
