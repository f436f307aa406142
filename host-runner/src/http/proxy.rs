//! The proxy variables: `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY`, `NO_PROXY`, in
//! upper or lower case, with curl's meaning.

use ::http::{HeaderValue, Uri, uri::Scheme};
use hyper_util::client::proxy::matcher::{Intercept, Matcher};

pub(super) struct Proxies {
    /// `None` where no variable is set, which is the common case and then costs nothing.
    matcher: Option<Matcher>,
}

/// How to go through a proxy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Way {
    /// Plain http: the proxy is sent the whole URL and fetches it.
    Forward { proxy: Uri },
    /// https: the proxy opens a tunnel.
    Tunnel { proxy: Uri, authorization: Option<HeaderValue> },
    /// A SOCKS 5 proxy: opens a tunnel for both.
    Socks { proxy: Uri, login: Option<(String, String)> },
}

impl Way {
    /// The proxy, without its password.
    pub(super) fn proxy(&self) -> &Uri {
        match self {
            Self::Forward { proxy } | Self::Tunnel { proxy, .. } | Self::Socks { proxy, .. } => proxy,
        }
    }
}

impl Proxies {
    pub(super) fn from_variables(env: &dyn Fn(&str) -> Option<String>) -> Self {
        let get = |name: &str| {
            let value = env(name).or_else(|| env(&name.to_ascii_lowercase()));
            value.unwrap_or_default()
        };
        let (all, http, https) = (get("ALL_PROXY"), get("HTTP_PROXY"), get("HTTPS_PROXY"));
        let any = !(all.is_empty() && http.is_empty() && https.is_empty());
        let matcher = any.then(|| {
            let builder = Matcher::builder().all(all).http(http).https(https);
            builder.no(get("NO_PROXY")).build()
        });
        Self { matcher }
    }

    /// `None`: connect directly.
    pub(super) fn way(&self, uri: &Uri) -> Option<Way> {
        let found = self.intercept(uri)?;
        let proxy = found.uri().clone();
        if is_socks(&found) {
            let login = found.raw_auth();
            let login = login.map(|(user, password)| (user.to_owned(), password.to_owned()));
            return Some(Way::Socks { proxy, login });
        }
        if uri.scheme() == Some(&Scheme::HTTPS) {
            let authorization = found.basic_auth().cloned();
            return Some(Way::Tunnel { proxy, authorization });
        }
        Some(Way::Forward { proxy })
    }

    /// `Proxy-Authorization` for a request that a proxy forwards. A tunnel has
    /// its own, so that the server never sees it.
    pub(super) fn authorization(&self, uri: &Uri) -> Option<HeaderValue> {
        let found = self.intercept(uri)?;
        let forwarded = uri.scheme() == Some(&Scheme::HTTP) && !is_socks(&found);
        found.basic_auth().filter(|_| forwarded).cloned()
    }

    fn intercept(&self, uri: &Uri) -> Option<Intercept> {
        self.matcher.as_ref()?.intercept(uri)
    }
}

fn is_socks(found: &Intercept) -> bool {
    let scheme = found.uri().scheme_str();
    scheme.is_some_and(|scheme| scheme.starts_with("socks"))
}

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
        match proxies(variables).way(&Uri::from_static(uri)) {
            None => "direct".to_owned(),
            Some(Way::Forward { proxy }) => format!("forward {proxy}"),
            Some(Way::Tunnel { proxy, .. }) => format!("tunnel {proxy}"),
            Some(Way::Socks { proxy, .. }) => format!("socks {proxy}"),
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
        ];
        for (variables, uri, expected) in cases {
            assert_eq!(way(variables, uri), expected, "{variables:?} {uri}");
        }
    }

    #[test]
    fn a_proxy_s_password_goes_to_the_proxy_only() {
        let proxies = proxies(&[("ALL_PROXY", "http://user:pw@p:1")]);
        let plain = proxies.authorization(&Uri::from_static("http://a.example/"));
        assert_eq!(plain.unwrap(), "Basic dXNlcjpwdw==");
        let secure = Uri::from_static("https://a.example/");
        assert_eq!(proxies.authorization(&secure), None);
        let Some(Way::Tunnel { proxy, authorization }) = proxies.way(&secure) else {
            panic!("must be a tunnel");
        };
        assert_eq!(proxy, Uri::from_static("http://p:1/"));
        assert_eq!(authorization.unwrap(), "Basic dXNlcjpwdw==");
    }
}
