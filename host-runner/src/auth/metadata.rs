//! The metadata of a protected resource (RFC 9728) and of an authorization server (RFC
//! 8414, `OpenID` Connect Discovery): where to look for it, and what makes it acceptable.
//! Pure: nothing here makes a request.

use serde::{Deserialize, Serialize};
use url::{Host, Url};

/// Metadata of a protected resource.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Resource {
    pub(crate) resource: String,
    #[serde(default)]
    pub(crate) authorization_servers: Vec<String>,
    #[serde(default)]
    pub(crate) scopes_supported: Vec<String>,
}

/// Metadata of an authorization server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Server {
    pub(crate) issuer: String,
    pub(crate) authorization_endpoint: Option<String>,
    pub(crate) token_endpoint: Option<String>,
    pub(crate) registration_endpoint: Option<String>,
    pub(crate) device_authorization_endpoint: Option<String>,
    pub(crate) revocation_endpoint: Option<String>,
    #[serde(default)]
    pub(crate) scopes_supported: Vec<String>,
    #[serde(default)]
    pub(crate) grant_types_supported: Vec<String>,
    pub(crate) token_endpoint_auth_methods_supported: Option<Vec<String>>,
    #[serde(default)]
    pub(crate) code_challenge_methods_supported: Vec<String>,
    #[serde(default)]
    pub(crate) authorization_response_iss_parameter_supported: bool,
    #[serde(default)]
    pub(crate) client_id_metadata_document_supported: bool,
}

/// The canonical URL of a server: no fragment, no trailing slash of its own.
pub(crate) fn canonical(url: &Url) -> String {
    let mut url = url.clone();
    url.set_fragment(None);
    let text = url.to_string();
    match url.path() {
        "/" if url.query().is_none() => text.trim_end_matches('/').to_owned(),
        _ => text,
    }
}

/// Where the metadata of the resource at `url` may be, best first. `named` is the place
/// that the server's challenge names.
pub(crate) fn resource_places(url: &Url, named: Option<&Url>) -> Vec<Url> {
    if let Some(named) = named {
        return vec![named.clone()];
    }
    let path = url.path().trim_end_matches('/');
    let mut places = vec![well_known(url, "oauth-protected-resource", path)];
    if !path.is_empty() {
        places.push(well_known(url, "oauth-protected-resource", ""));
    }
    places
}

/// Where the metadata of an authorization server may be, best first.
pub(crate) fn server_places(issuer: &Url) -> Vec<Url> {
    let path = issuer.path().trim_end_matches('/');
    let mut places = vec![well_known(issuer, "oauth-authorization-server", path)];
    places.push(well_known(issuer, "openid-configuration", path));
    if !path.is_empty() {
        let mut last = issuer.clone();
        last.set_path(&format!("{path}/.well-known/openid-configuration"));
        last.set_query(None);
        places.push(last);
    }
    places
}

fn well_known(url: &Url, name: &str, path: &str) -> Url {
    let mut place = url.clone();
    place.set_path(&format!("/.well-known/{name}{path}"));
    place.set_query(None);
    place.set_fragment(None);
    place
}

impl Resource {
    /// Whether a token for this resource is one for the server at `url`: the same origin,
    /// and the path of the resource leads there.
    pub(crate) fn covers(&self, url: &Url) -> bool {
        let Ok(resource) = Url::parse(&self.resource) else { return false };
        let path = |url: &Url| format!("{}/", url.path().trim_end_matches('/'));
        resource.origin() == url.origin() && path(url).starts_with(&path(&resource))
    }
}

impl Server {
    /// What a server of 2025-03-26 without metadata has, at the origin of the MCP server.
    pub(crate) fn by_convention(origin: &Url) -> Self {
        let at = |path: &str| origin.join(path).ok().map(String::from);
        Self {
            issuer: canonical(origin),
            authorization_endpoint: at("/authorize"),
            token_endpoint: at("/token"),
            registration_endpoint: at("/register"),
            device_authorization_endpoint: None,
            revocation_endpoint: None,
            scopes_supported: Vec::new(),
            grant_types_supported: Vec::new(),
            token_endpoint_auth_methods_supported: None,
            code_challenge_methods_supported: vec!["S256".to_owned()],
            authorization_response_iss_parameter_supported: false,
            client_id_metadata_document_supported: false,
        }
    }

    /// An endpoint that may get credentials.
    pub(crate) fn endpoint(&self, what: &str, url: Option<&str>) -> Result<Url, String> {
        let Some(text) = url else { return Err(format!("the authorization server {} has no {what}", self.issuer)) };
        let url = Url::parse(text).map_err(|_invalid| format!("the {what} `{text}` is not a URL"))?;
        if !is_private(&url) {
            return Err(format!("the {what} {text} is not https: secrets would be readable on the way"));
        }
        Ok(url)
    }

    /// Where a person logs in with a browser.
    pub(crate) fn browser_endpoint(&self) -> Result<Url, String> {
        if !self.code_challenge_methods_supported.iter().any(|method| method == "S256") {
            let issuer = &self.issuer;
            return Err(format!("{issuer} does not say that it checks PKCE with S256, so a stolen code could be used"));
        }
        self.endpoint("authorization_endpoint", self.authorization_endpoint.as_deref())
    }

    /// Where tokens come from.
    pub(crate) fn token_endpoint(&self) -> Result<Url, String> {
        self.endpoint("token_endpoint", self.token_endpoint.as_deref())
    }

    /// Whether it issues refresh tokens. A server that lists no grants has at least codes.
    pub(crate) fn refreshes(&self) -> bool {
        self.grant_types_supported.is_empty() || self.grant_types_supported.iter().any(|grant| grant == "refresh_token")
    }
}

/// Nobody reads along: https, or this machine.
pub(crate) fn is_private(url: &Url) -> bool {
    url.scheme() == "https" || (url.scheme() == "http" && is_loopback(url))
}

/// Whether the URL names this machine.
pub(crate) fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        text.parse().unwrap()
    }

    fn texts(urls: Vec<Url>) -> Vec<String> {
        urls.into_iter().map(String::from).collect()
    }

    #[test]
    fn the_metadata_of_a_resource_is_looked_for_in_order() {
        let cases: [(&str, Option<&str>, &[&str]); 5] = [
            ("https://a.example", None, &["https://a.example/.well-known/oauth-protected-resource"]),
            (
                "https://a.example/mcp?x=1",
                None,
                &[
                    "https://a.example/.well-known/oauth-protected-resource/mcp",
                    "https://a.example/.well-known/oauth-protected-resource",
                ],
            ),
            (
                "https://a.example:8443/t/mcp/",
                None,
                &[
                    "https://a.example:8443/.well-known/oauth-protected-resource/t/mcp",
                    "https://a.example:8443/.well-known/oauth-protected-resource",
                ],
            ),
            ("https://a.example/mcp", Some("https://a.example/m"), &["https://a.example/m"]),
            ("http://localhost:1/", None, &["http://localhost:1/.well-known/oauth-protected-resource"]),
        ];
        for (server, named, places) in cases {
            assert_eq!(texts(resource_places(&url(server), named.map(url).as_ref())), places, "{server}");
        }
    }

    #[test]
    fn the_metadata_of_an_authorization_server_is_looked_for_in_order() {
        let root = ["https://as.example/.well-known/oauth-authorization-server"];
        let root = [root[0], "https://as.example/.well-known/openid-configuration"];
        assert_eq!(texts(server_places(&url("https://as.example"))), root);
        assert_eq!(texts(server_places(&url("https://as.example/"))), root);
        let tenant = [
            "https://as.example/.well-known/oauth-authorization-server/t/1",
            "https://as.example/.well-known/openid-configuration/t/1",
            "https://as.example/t/1/.well-known/openid-configuration",
        ];
        assert_eq!(texts(server_places(&url("https://as.example/t/1"))), tenant);
    }

    #[test]
    fn a_resource_covers_what_is_below_it() {
        let cases = [
            ("https://a.example/mcp", "https://a.example/mcp", true),
            ("https://a.example/mcp/", "https://a.example/mcp", true),
            ("https://a.example", "https://a.example/mcp", true),
            ("https://A.example:443/", "https://a.example/t/mcp", true),
            ("https://a.example/mcp", "https://a.example/mcp/x?y", true),
            ("https://a.example/mcp", "https://a.example/mcp2", false),
            ("https://a.example/other", "https://a.example/mcp", false),
            ("https://b.example/mcp", "https://a.example/mcp", false),
            ("http://a.example/mcp", "https://a.example/mcp", false),
            ("nonsense", "https://a.example/mcp", false),
        ];
        for (resource, server, covers) in cases {
            let metadata =
                Resource { resource: resource.into(), authorization_servers: Vec::new(), scopes_supported: Vec::new() };
            assert_eq!(metadata.covers(&url(server)), covers, "{resource} {server}");
        }
    }

    #[test]
    fn canonical_urls_have_one_spelling() {
        let cases = [
            ("https://A.Example", "https://a.example"),
            ("https://a.example:443/", "https://a.example"),
            ("https://a.example/mcp#x", "https://a.example/mcp"),
            ("https://a.example/mcp/", "https://a.example/mcp/"),
            ("https://a.example/?tenant=1", "https://a.example/?tenant=1"),
        ];
        for (given, expected) in cases {
            assert_eq!(canonical(&url(given)), expected);
        }
    }

    #[test]
    fn secrets_go_over_https_or_stay_on_this_machine() {
        let cases = [
            ("https://a.example", true),
            ("http://a.example", false),
            ("http://localhost:1/x", true),
            ("http://127.0.0.2", true),
            ("http://[::1]:1", true),
            ("http://localhost.example", false),
            ("ftp://localhost", false),
        ];
        for (text, private) in cases {
            assert_eq!(is_private(&url(text)), private, "{text}");
        }
    }
}
