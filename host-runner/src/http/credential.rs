//! The user's headers, which the host adds after a request has left the sandbox. The
//! component never sees them. They do not override the component's headers about the
//! message itself, since the options refuse such names.

use ::http::{
    HeaderMap, HeaderName, HeaderValue,
    header::{AUTHORIZATION, COOKIE, HOST, USER_AGENT},
};
use mcp_proxy_options::UsageError;

pub(super) struct Credentials(Vec<(HeaderName, HeaderValue)>);

/// Headers that replace a default.
fn is_replaceable(name: &HeaderName) -> bool {
    name == HOST || name == USER_AGENT
}

impl Credentials {
    pub(super) fn new(headers: &[(String, String)]) -> Result<Self, UsageError> {
        let mut parsed = Vec::with_capacity(headers.len());
        for (name, value) in headers {
            let wrong = || UsageError::new(format!("header {name} is not valid"));
            let key = HeaderName::from_bytes(name.as_bytes()).map_err(|_invalid| wrong())?;
            let mut value = HeaderValue::from_str(value).map_err(|_invalid| wrong())?;
            // Keeps the value out of HTTP/2's compression table and of debug output.
            value.set_sensitive(true);
            parsed.push((key, value));
        }
        Ok(Self(parsed))
    }

    /// Whether the user's own credentials are for the header that a token would need.
    pub(super) fn authorize(&self) -> bool {
        self.0.iter().any(|(name, _)| *name == AUTHORIZATION)
    }

    /// All values except those of replaceable headers, which are not secret.
    pub(super) fn secrets(&self) -> impl Iterator<Item = &[u8]> {
        self.0.iter().filter(|(name, _)| !is_replaceable(name)).map(|(_, value)| value.as_bytes())
    }

    pub(super) fn add_to(&self, headers: &mut HeaderMap) {
        for (name, _) in &self.0 {
            if is_replaceable(name) {
                headers.remove(name);
            }
        }
        // A request has one `Cookie` header: append the load balancer's cookie to the
        // user's.
        if let Some(own) = headers.get(COOKIE).cloned() {
            let user = self.0.iter().filter(|(name, _)| *name == COOKIE).map(|(_, value)| value);
            let all: Vec<&[u8]> = user.chain([&own]).map(HeaderValue::as_bytes).collect();
            if let Ok(mut all) = HeaderValue::from_bytes(&all.join(&b"; "[..])) {
                all.set_sensitive(true);
                headers.insert(COOKIE, all);
            }
        }
        // Decide before adding any: a name given twice is sent twice.
        let missing: Vec<_> = self.0.iter().filter(|(name, _)| !headers.contains_key(name)).collect();
        for (name, value) in missing {
            headers.append(name.clone(), value.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(user: &[(&str, &str)], component: &[(&str, &str)]) -> Vec<String> {
        let own = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
            let pairs = pairs.iter();
            pairs.map(|(a, b)| ((*a).into(), (*b).into())).collect()
        };
        let mut headers = HeaderMap::new();
        for (name, value) in own(component) {
            let name: HeaderName = name.parse().unwrap();
            headers.append(name, value.parse().unwrap());
        }
        Credentials::new(&own(user)).unwrap().add_to(&mut headers);
        let lines = headers.iter();
        let mut lines: Vec<String> =
            lines.map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect();
        lines.sort();
        lines
    }

    #[test]
    fn the_user_s_headers_are_added() {
        let user = [("Authorization", "Bearer x"), ("X-A", "1"), ("x-a", "2")];
        let lines = sent(&user, &[("accept", "text/event-stream")]);
        let expected = ["accept: text/event-stream", "authorization: Bearer x", "x-a: 1", "x-a: 2"];
        assert_eq!(lines, expected);
    }

    #[test]
    fn what_the_component_says_stands() {
        let component = [("content-type", "application/json"), ("x-a", "component")];
        let expected = ["content-type: application/json", "x-a: component"];
        assert_eq!(sent(&[("X-A", "user"), ("Content-Type", "text/plain")], &component), expected);
    }

    #[test]
    fn cookies_of_both_sides_go_in_one_header() {
        let expected = ["cookie: login=1; AWSALB=x"];
        assert_eq!(sent(&[("Cookie", "login=1")], &[("cookie", "AWSALB=x")]), expected);
        assert_eq!(sent(&[("Cookie", "login=1")], &[]), ["cookie: login=1"]);
        assert_eq!(sent(&[], &[("cookie", "AWSALB=x")]), ["cookie: AWSALB=x"]);
    }

    #[test]
    fn host_and_user_agent_are_replaced() {
        let user = [("Host", "virtual.example"), ("User-Agent", "mine")];
        let component = [("user-agent", "mcp-proxy/1")];
        assert_eq!(sent(&user, &component), ["host: virtual.example", "user-agent: mine"]);
    }
}
