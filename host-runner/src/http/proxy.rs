//! The proxy variables `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY`, in upper
//! or lower case, with curl's meaning.
//!
//! A value that names no proxy never leads to a direct connection, which the user did not
//! ask for. It is a usage error if it applies to the URL, and a failed connection if it
//! applies only to a later request. No text here contains any part of a value, since
//! values hold passwords.

use std::fmt;

use ::http::{
    HeaderValue, Uri,
    uri::{Authority, Scheme},
};
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use mcp_proxy_options::UsageError;

pub(super) struct Proxies {
    /// `None` if no variable applies, which is the common case and costs nothing.
    matcher: Option<Matcher>,
    /// Whether a variable is set for plain http, and for https.
    set: [bool; 2],
    /// Why the variable for plain http, and the one for https, is unusable.
    faults: [Option<Unusable>; 2],
}

/// A variable that is set but names no proxy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unusable {
    variable: String,
    cause: &'static str,
}

/// How to use a proxy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Way {
    /// Plain http: the proxy receives the absolute URL and fetches it.
    Forward { proxy: Uri },
    /// https: the proxy opens a tunnel.
    Tunnel { proxy: Uri, authorization: Option<HeaderValue> },
    /// A SOCKS 5 proxy, which opens a tunnel for both schemes.
    Socks { proxy: Uri, login: Option<(String, String)> },
}

impl Way {
    /// The proxy, without its password.
    pub(super) fn address(&self) -> String {
        let (Self::Forward { proxy } | Self::Tunnel { proxy, .. } | Self::Socks { proxy, .. }) = self;
        proxy.to_string().trim_end_matches('/').to_owned()
    }
}

impl Proxies {
    pub(super) fn from_variables(env: &dyn Fn(&str) -> Option<String>) -> Self {
        let get = |name: &str| {
            [name.to_owned(), name.to_ascii_lowercase()].into_iter().find_map(|name| {
                let value = env(&name)?;
                Some((name, value))
            })
        };
        let set = |name: &str| get(name).filter(|(_, value)| !value.is_empty());
        let chosen = ["HTTP_PROXY", "HTTPS_PROXY"].map(|name| set(name).or_else(|| set("ALL_PROXY")));
        let no = get("NO_PROXY").map(|(_, value)| value).unwrap_or_default();
        let set = chosen.each_ref().map(Option::is_some);
        // The matcher applies `*` to names only, curl to addresses too.
        if set == [false; 2] || no.split(',').any(|entry| entry.trim() == "*") {
            return Self { matcher: None, set, faults: [None, None] };
        }
        let [http, https] = chosen.map(|variable| variable.map_or_else(Setting::default, Setting::new));
        let matcher = Matcher::builder().http(http.proxy).https(https.proxy).no(no).build();
        Self { matcher: Some(matcher), set, faults: [http.fault, https.fault] }
    }

    /// Refuses a variable that applies to `url` but names no proxy.
    pub(super) fn check(&self, url: &str) -> Result<(), UsageError> {
        let way = url.parse().map_or(Ok(None), |uri| self.way(&uri));
        way.map(drop).map_err(|fault| UsageError::new(fault.to_string()))
    }

    /// Describes the route to `url`, or returns `None` if no variable is set for its
    /// scheme.
    pub(super) fn described(&self, url: &str) -> Option<String> {
        let uri = url.parse().ok()?;
        match self.way(&uri).ok()? {
            Some(way) => Some(format!("through the proxy {}", way.address())),
            None if *of_scheme(&self.set, &uri) => Some("not through the proxy: NO_PROXY exempts the URL".to_owned()),
            None => None,
        }
    }

    /// `None`: connect directly.
    pub(super) fn way(&self, uri: &Uri) -> Result<Option<Way>, Unusable> {
        let Some(found) = self.intercept(uri)? else {
            return Ok(None);
        };
        let proxy = found.uri().clone();
        if is_socks(&found) {
            let login = found.raw_auth();
            let login = login.map(|(user, password)| (user.to_owned(), password.to_owned()));
            return Ok(Some(Way::Socks { proxy, login }));
        }
        if uri.scheme() == Some(&Scheme::HTTPS) {
            let authorization = found.basic_auth().cloned();
            return Ok(Some(Way::Tunnel { proxy, authorization }));
        }
        Ok(Some(Way::Forward { proxy }))
    }

    /// `Proxy-Authorization` for a request that a proxy forwards. A tunnel carries its
    /// own, so that the server never sees it.
    pub(super) fn authorization(&self, uri: &Uri) -> Option<HeaderValue> {
        let found = self.intercept(uri).ok()??;
        let forwarded = uri.scheme() == Some(&Scheme::HTTP) && !is_socks(&found);
        found.basic_auth().filter(|_| forwarded).cloned()
    }

    fn intercept(&self, uri: &Uri) -> Result<Option<Intercept>, Unusable> {
        let Some(found) = self.matcher.as_ref().and_then(|matcher| matcher.intercept(uri)) else {
            return Ok(None);
        };
        of_scheme(&self.faults, uri).clone().map_or(Ok(Some(found)), Err)
    }
}

/// Selects the value for the scheme: plain http or https.
fn of_scheme<'a, T>([http, https]: &'a [T; 2], uri: &Uri) -> &'a T {
    if uri.scheme() == Some(&Scheme::HTTPS) { https } else { http }
}

/// A variable's value for the matcher.
#[derive(Default)]
struct Setting {
    /// Empty for none. For an unusable value, a name that does not exist: the matcher
    /// still knows where `NO_PROXY` makes the variable irrelevant.
    proxy: String,
    fault: Option<Unusable>,
}

impl Setting {
    fn new((variable, value): (String, String)) -> Self {
        match normal(value.trim()) {
            Ok(proxy) => Self { proxy, fault: None },
            Err(cause) => {
                Self { proxy: "http://unusable.invalid".to_owned(), fault: Some(Unusable { variable, cause }) }
            }
        }
    }
}

/// Normalises curl's spellings of a proxy to the one that the matcher accepts: http is
/// the default scheme, and everything after the authority is ignored.
fn normal(value: &str) -> Result<String, &'static str> {
    let (scheme, rest) = value.split_once("://").unwrap_or(("http", value));
    let scheme = scheme.to_ascii_lowercase();
    if !["http", "https", "socks5", "socks5h"].contains(&scheme.as_str()) {
        return Err("its scheme is none of http, https, socks5 and socks5h");
    }
    let (place, after) = rest.split_at_checked(rest.find(['/', '?', '#']).unwrap_or(rest.len())).unwrap_or_default();
    if after.contains('@') || place.matches('@').count() > 1 {
        return Err("its user or password has characters with a meaning in URLs: write them as %40, %2F, %3F or %23");
    }
    let authority: Authority = place.parse().map_err(|_invalid| "it is not a URL: write it as http://host:port")?;
    let address = place.rsplit('@').next().unwrap_or(place);
    let host = authority.host();
    if host.is_empty() || (address.len() != host.len() && authority.port_u16().is_none()) {
        return Err("it is not a URL: write it as http://host:port");
    }
    Ok(format!("{scheme}://{place}"))
}

fn is_socks(found: &Intercept) -> bool {
    let scheme = found.uri().scheme_str();
    scheme.is_some_and(|scheme| scheme.starts_with("socks"))
}

impl fmt::Display for Unusable {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { variable, cause } = self;
        write!(out, "the variable {variable} names no proxy that can be used: {cause}")
    }
}

impl std::error::Error for Unusable {}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxies(variables: &'static [(&str, &str)]) -> Proxies {
        Proxies::from_variables(&|name| {
            let found = variables.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    fn way(variables: &'static [(&str, &str)], uri: &'static str) -> String {
        shown(proxies(variables).way(&Uri::from_static(uri)))
    }

    fn shown(way: Result<Option<Way>, Unusable>) -> String {
        match way {
            Err(fault) => fault.to_string(),
            Ok(None) => "direct".to_owned(),
            Ok(Some(Way::Forward { proxy })) => format!("forward {proxy}"),
            Ok(Some(Way::Tunnel { proxy, .. })) => format!("tunnel {proxy}"),
            Ok(Some(Way::Socks { proxy, .. })) => format!("socks {proxy}"),
        }
    }

    #[test]
    fn the_variables_choose_the_way() {
        let both: &[_] = &[("HTTP_PROXY", "http://p:1"), ("https_proxy", "http://q:2")];
        let no: &[_] = &[("ALL_PROXY", "http://p:1"), ("no_proxy", "localhost,.a.example")];
        let socks: &[_] = &[("ALL_PROXY", "socks5h://p:1")];
        let cases = [
            (&[] as &[_], "https://a.example/", "direct"),
            (both, "http://a.example/", "forward http://p:1/"),
            (both, "https://a.example/", "tunnel http://q:2/"),
            (&[("HTTP_PROXY", "http://p:1")], "https://a.example/", "direct"),
            (&[("ALL_PROXY", "p:1")], "https://a.example/", "tunnel http://p:1/"),
            (no, "http://localhost:3000/", "direct"),
            (no, "https://x.a.example/", "direct"),
            (no, "https://b.example/", "tunnel http://p:1/"),
            (socks, "http://a.example/", "socks socks5h://p:1/"),
            (&[("ALL_PROXY", "p:1"), ("NO_PROXY", "*")], "https://127.0.0.1/", "direct"),
            (&[("ALL_PROXY", "p:1"), ("NO_PROXY", "*")], "https://a.example/", "direct"),
        ];
        for (variables, uri, expected) in cases {
            assert_eq!(way(variables, uri), expected, "{variables:?} {uri}");
        }
    }

    #[test]
    fn every_spelling_of_a_proxy_that_curl_takes_is_taken() {
        let cases = [
            ("p:1", "forward http://p:1/"),
            ("p", "forward http://p/"),
            ("127.0.0.1:1", "forward http://127.0.0.1:1/"),
            ("[::1]:1", "forward http://[::1]:1/"),
            ("user:pw@p:1", "forward http://p:1/"),
            ("p:1/", "forward http://p:1/"),
            ("http://p:1/path?query", "forward http://p:1/"),
            ("HTTP://p:1", "forward http://p:1/"),
            ("https://user@p:1", "forward https://p:1/"),
            ("http://user:p%40ss@[::1]:1", "forward http://[::1]:1/"),
            (" http://p:1\n", "forward http://p:1/"),
            ("socks5://p:1", "socks socks5://p:1/"),
            ("SOCKS5H://user:pw@p:1", "socks socks5h://p:1/"),
            ("", "direct"),
        ];
        for (value, expected) in cases {
            let env = |name: &str| (name == "http_proxy").then(|| value.to_owned());
            let way = Proxies::from_variables(&env).way(&Uri::from_static("http://a.example/"));
            assert_eq!(shown(way), expected, "{value}");
        }
    }

    #[test]
    fn a_value_that_names_no_proxy_is_an_error_and_never_a_direct_connection() {
        let values = [
            "garbage://s3cret",
            "socks4://s3cret:1",
            "socks://s3cret:1",
            "://s3cret",
            "http://",
            "http:///s3cret",
            "http://:8080",
            "http://user:s3cret@",
            "http://user:s3cret@:1",
            "http://s3cret:port",
            "http://s3cret:99999",
            "http://s3cret:",
            "http://user:s3^cret@p:1",
            "http://user:s3cret@s3cret@p:1",
            "http://user:1/s3cret@p:1",
            "http://user:1#s3cret@p:1",
            "http://user:1?s3cret@p:1",
            "s3cret s3cret",
            "http:s3cret",
        ];
        for value in values {
            for name in ["https_proxy", "HTTPS_PROXY", "ALL_PROXY"] {
                let env = |asked: &str| (asked == name).then(|| value.to_owned());
                let error = Proxies::from_variables(&env).check("https://a.example/mcp").unwrap_err().to_string();
                assert!(error.contains(&format!(" {name} ")) && !error.contains("s3cret"), "{value}: {error}");
                assert!(Proxies::from_variables(&env).way(&Uri::from_static("https://a.example/")).is_err());
            }
        }
    }

    #[test]
    fn only_the_variable_that_applies_is_judged() {
        let other: &[_] = &[("HTTP_PROXY", "garbage://x"), ("HTTPS_PROXY", "http://p:1")];
        let all: &[_] = &[("ALL_PROXY", "garbage://x"), ("HTTP_PROXY", "http://p:1")];
        let no: &[_] = &[("ALL_PROXY", "garbage://x"), ("NO_PROXY", "a.example")];
        let cases = [
            (other, "https://a.example/", true),
            (other, "http://a.example/", false),
            (all, "http://a.example/", true),
            (all, "https://a.example/", false),
            (no, "https://a.example/", true),
            (no, "https://b.example/", false),
            (&[("ALL_PROXY", "garbage://x"), ("no_proxy", "a.example, *")], "https://127.0.0.1/", true),
        ];
        for (variables, url, usable) in cases {
            assert_eq!(proxies(variables).check(url).is_ok(), usable, "{variables:?} {url}");
        }
    }

    #[test]
    fn the_way_is_described_without_a_password() {
        let through: &[_] = &[("ALL_PROXY", "http://user:s3cret@p:1/s3cret")];
        let exempt: &[_] = &[("HTTPS_PROXY", "http://user:s3cret@p:1"), ("NO_PROXY", "a.example")];
        let all: &[_] = &[("HTTP_PROXY", "http://p:1"), ("no_proxy", "*")];
        let directly = Some("not through the proxy: NO_PROXY exempts the URL");
        let cases = [
            (through, "https://a.example/mcp", Some("through the proxy http://p:1")),
            (&[("HTTP_PROXY", "socks5h://u:s3cret@p:1")], "http://a.example/", Some("through the proxy socks5h://p:1")),
            (exempt, "https://a.example/mcp", directly),
            (exempt, "https://b.example/mcp", Some("through the proxy http://p:1")),
            (exempt, "http://a.example/mcp", None),
            (all, "http://127.0.0.1/", directly),
            (all, "https://127.0.0.1/", None),
            (&[("NO_PROXY", "*")], "http://a.example/", None),
            (&[], "http://a.example/", None),
        ];
        for (variables, url, expected) in cases {
            assert_eq!(proxies(variables).described(url).as_deref(), expected, "{variables:?} {url}");
        }
    }

    #[test]
    fn a_proxy_s_password_goes_to_the_proxy_only() {
        let proxies = proxies(&[("ALL_PROXY", "http://user:pw@p:1")]);
        let plain = proxies.authorization(&Uri::from_static("http://a.example/"));
        assert_eq!(plain.unwrap(), "Basic dXNlcjpwdw==");
        let secure = Uri::from_static("https://a.example/");
        assert_eq!(proxies.authorization(&secure), None);
        let Ok(Some(Way::Tunnel { proxy, authorization })) = proxies.way(&secure) else {
            panic!("must be a tunnel");
        };
        assert_eq!(proxy, Uri::from_static("http://p:1/"));
        assert_eq!(authorization.unwrap(), "Basic dXNlcjpwdw==");
    }
}
