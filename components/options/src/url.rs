//! The server's URL and allowed hosts: what is accepted, and in which one
//! spelling it is passed on.

use http::Uri;

use crate::{AllowedHost, UsageError};

/// An absolute http(s) URL with a host, without credentials; the fragment is
/// never sent to a server and is dropped.
pub(crate) fn parse(text: &str) -> Result<String, UsageError> {
    let uri: Uri = text.parse().map_err(|_invalid| not_a_url(text))?;
    let authority = uri.authority().ok_or_else(|| not_a_url(text))?;
    if authority.as_str().contains('@') {
        return Err(UsageError::new(
            "the URL contains credentials: send them with --header or --bearer-token-env instead",
        ));
    }
    match uri.scheme_str() {
        Some("http" | "https") => {}
        Some(other) => {
            return Err(UsageError::new(format!("URL scheme {other} is not supported: use http or https")));
        }
        None => return Err(not_a_url(text)),
    }
    if authority.host().is_empty() || !valid_port(authority) {
        return Err(not_a_url(text));
    }
    Ok(uri.to_string())
}

/// A port that is present must be a number that fits; `http` leaves that open.
fn valid_port(authority: &http::uri::Authority) -> bool {
    authority.as_str().len() == authority.host().len() || authority.port_u16().is_some()
}

/// Shows the text only where it cannot hold a credential.
fn not_a_url(text: &str) -> UsageError {
    if text.contains('@') {
        return UsageError::new("the argument is not a URL: write it as https://host/path");
    }
    if text.contains("://") || text.starts_with('-') {
        return UsageError::new(format!("`{text}` is not a URL: write it as https://host/path"));
    }
    UsageError::new(format!("`{text}` is not an absolute URL: write it as https://{}", text.trim_start_matches('/')))
}

/// `HOST` or `HOST:PORT`.
pub(crate) fn allowed_host(text: &str) -> Result<AllowedHost, UsageError> {
    let wrong = || UsageError::new(format!("--allow-host `{text}` is not a host: write HOST or HOST:PORT"));
    let authority: http::uri::Authority = text.parse().map_err(|_invalid| wrong())?;
    if text.contains(['@', '*']) || authority.host().is_empty() || !valid_port(&authority) {
        return Err(wrong());
    }
    Ok(AllowedHost { host: authority.host().to_ascii_lowercase(), port: authority.port_u16() })
}
