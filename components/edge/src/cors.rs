//! CORS: what a browser needs to know before a page of another origin may call,
//! and read the answer. The origin policy has admitted the origin before.

use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_MAX_AGE, ALLOW, HeaderName,
};
use http::{HeaderMap, HeaderValue, Response, StatusCode};

/// The methods of an endpoint.
pub(crate) const METHODS: HeaderValue = HeaderValue::from_static("GET, POST, DELETE, OPTIONS");
/// The headers that a page may send, and those that it may read.
const SENT: &str = "authorization, content-type, accept, last-event-id, mcp-protocol-version, mcp-session-id, \
                    mcp-method, mcp-name";
/// How the names of the headers begin that repeat arguments of tools. A tool defines the
/// rest of the name, and CORS has no wildcard for that.
const PARAM: &str = "mcp-param-";
const READ: &str = "mcp-session-id, mcp-proxy-upstream, www-authenticate";

/// The headers that let a page of this origin read a response.
#[must_use]
pub fn headers(origin: &str) -> [(&'static str, &str); 3] {
    [("access-control-allow-origin", origin), ("access-control-expose-headers", READ), ("vary", "origin")]
}

/// The answer to an `OPTIONS` request. `requested` is its
/// `Access-Control-Request-Headers`: the names of the headers that the page wants to send.
#[must_use]
pub fn preflight(origin: Option<&str>, requested: Option<&str>) -> Response<String> {
    let mut response = Response::new(String::new());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let headers = response.headers_mut();
    share(headers, origin);
    headers.insert(ALLOW, METHODS);
    if origin.is_some() {
        headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST, DELETE"));
        let params = requested.into_iter().flat_map(params);
        let sent = params.fold(SENT.to_owned(), |sent, name| format!("{sent}, {name}"));
        headers.extend(HeaderValue::try_from(sent).ok().map(|sent| (ACCESS_CONTROL_ALLOW_HEADERS, sent)));
        headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("86400"));
    }
    response
}

/// The valid names in a list of headers that repeat arguments of tools.
fn params(requested: &str) -> impl Iterator<Item = HeaderName> {
    let names = requested.split(',').filter_map(|name| HeaderName::try_from(name.trim()).ok());
    names.filter(|name| name.as_str().strip_prefix(PARAM).is_some_and(|rest| !rest.is_empty()))
}

/// Lets a page of this origin read the response with these headers.
pub fn share(response: &mut HeaderMap, origin: Option<&str>) {
    for (name, value) in origin.into_iter().flat_map(headers) {
        if let Ok(value) = HeaderValue::from_str(value) {
            response.insert(HeaderName::from_static(name), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(response: &Response<String>) -> Vec<String> {
        let line = |(name, value): (&HeaderName, &HeaderValue)| format!("{name}: {}", value.to_str().unwrap());
        response.headers().iter().map(line).collect()
    }

    #[test]
    fn a_page_is_told_what_it_may_send_and_read() {
        let response = preflight(Some("https://app.example"), None);
        assert_eq!((response.status(), response.body().as_str()), (StatusCode::NO_CONTENT, ""));
        let expected = [
            "access-control-allow-origin: https://app.example",
            "access-control-expose-headers: mcp-session-id, mcp-proxy-upstream, www-authenticate",
            "vary: origin",
            "allow: GET, POST, DELETE, OPTIONS",
            "access-control-allow-methods: GET, POST, DELETE",
            "access-control-allow-headers: authorization, content-type, accept, last-event-id, mcp-protocol-version, \
             mcp-session-id, mcp-method, mcp-name",
            "access-control-max-age: 86400",
        ];
        assert_eq!(lines(&response), expected);
    }

    #[test]
    fn a_page_may_send_the_headers_that_its_tools_define() {
        let allowed = |requested: &str| {
            let response = preflight(Some("https://app.example"), Some(requested));
            let names = response.headers()[ACCESS_CONTROL_ALLOW_HEADERS].to_str().unwrap();
            names.strip_prefix(SENT).unwrap().to_owned()
        };
        for (requested, expected) in [
            ("mcp-method,mcp-param-region", ", mcp-param-region"),
            ("Mcp-Param-Region , mcp-param-a_b", ", mcp-param-region, mcp-param-a_b"),
            ("mcp-param-", ""),
            ("mcp-param-a b, mcp-param-\u{e9}, x-mcp-param-a", ""),
            ("*, cookie, mcp-proxy-known", ""),
            ("", ""),
        ] {
            assert_eq!(allowed(requested), expected, "{requested}");
        }
    }

    #[test]
    fn who_is_no_page_is_told_the_methods() {
        assert_eq!(lines(&preflight(None, Some("mcp-param-a"))), ["allow: GET, POST, DELETE, OPTIONS"]);
    }
}
