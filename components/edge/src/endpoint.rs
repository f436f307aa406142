//! Paths: `/mcp` is the endpoint of the server without a name, `/<name>/mcp` the
//! endpoint of the server of that name. Nothing is decoded: a name matches byte
//! for byte or not at all.

use crate::resource::WELL_KNOWN;

/// The path of the endpoint of this server.
#[must_use]
pub fn path_of(name: &str) -> String {
    if name.is_empty() { "/mcp".to_owned() } else { format!("/{name}/mcp") }
}

/// The name of the server whose endpoint is at this path.
pub(crate) fn name(path: &str) -> Option<&str> {
    let name = path.strip_suffix("/mcp")?;
    if name.is_empty() { Some("") } else { name.strip_prefix('/').filter(|name| !name.is_empty()) }
}

/// Whose metadata are at this path: those of the server of this name, or at the root.
pub(crate) fn described(path: &str) -> Option<Described<'_>> {
    match path.strip_prefix(WELL_KNOWN)? {
        "" => Some(Described::Root),
        endpoint => name(endpoint).map(Described::Named),
    }
}

/// What metadata describe.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Described<'a> {
    /// The only server there is.
    Root,
    /// The server of this name.
    Named(&'a str),
}

/// The path of an absolute URL, without query and fragment.
pub(crate) fn path(url: &str) -> &str {
    let (_, rest) = url.split_once("://").unwrap_or_default();
    let rest = rest.split(['?', '#']).next().unwrap_or_default();
    rest.find('/').and_then(|at| rest.get(at..)).unwrap_or("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_mcp_below_the_root_or_below_a_name() {
        for (path, expected) in [
            ("/mcp", Some("")),
            ("/docs/mcp", Some("docs")),
            ("/a/b/mcp", Some("a/b")),
            ("//mcp", None),
            ("/", None),
            ("", None),
            ("mcp", None),
            ("docs/mcp", None),
            ("/mcp/", None),
            ("/mcp/x", None),
            ("/xmcp", None),
            ("/%6dcp", None),
            ("/MCP", None),
        ] {
            assert_eq!(name(path), expected, "{path}");
        }
    }

    #[test]
    fn metadata_are_before_the_path_of_their_endpoint() {
        for (path, expected) in [
            ("/.well-known/oauth-protected-resource", Some(Described::Root)),
            ("/.well-known/oauth-protected-resource/mcp", Some(Described::Named(""))),
            ("/.well-known/oauth-protected-resource/docs/mcp", Some(Described::Named("docs"))),
            ("/.well-known/oauth-protected-resource/", None),
            ("/.well-known/oauth-protected-resource/docs", None),
            ("/.well-known/oauth-protected-resourcedocs/mcp", None),
            ("/.well-known/oauth-authorization-server", None),
            ("/mcp", None),
        ] {
            assert_eq!(described(path), expected, "{path}");
        }
    }

    #[test]
    fn a_path_is_the_url_without_query_and_fragment() {
        for (url, expected) in [
            ("https://h/mcp", "/mcp"),
            ("https://h/mcp?x=/y", "/mcp"),
            ("https://h/mcp#/y", "/mcp"),
            ("https://h:8787/docs/mcp", "/docs/mcp"),
            ("https://h", "/"),
            ("https://h?/mcp", "/"),
            ("nothing", "/"),
            ("", "/"),
        ] {
            assert_eq!(path(url), expected, "{url}");
        }
    }

    #[test]
    fn a_name_leads_to_its_path_and_back() {
        for known in ["", "docs", "a-b_c"] {
            assert_eq!(name(&path_of(known)), Some(known));
        }
    }
}
