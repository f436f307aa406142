//! Which client mcp-proxy is to an authorization server, in the specification's order: one
//! that the user names, one whose metadata is a document on the web, or one that registers
//! itself (MCP 2026-07-28, "Client Registration Approaches"; RFC 7591).

use ::http::StatusCode;
use mcp_proxy_options::AuthOptions;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{callback, metadata::Server};
use crate::http::Web;

const NAME: &str = "mcp-proxy";

/// How a client proves to the token endpoint who it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Method {
    None,
    ClientSecretBasic,
    ClientSecretPost,
    PrivateKeyJwt,
}

/// A client of an authorization server.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Client {
    pub(crate) id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) secret: Option<String>,
    pub(crate) method: Method,
    /// It registered itself, for a callback on this port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) registered_for: Option<u16>,
    /// The scopes that it registered with, if it named any: it may ask for no others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) scope: Option<String>,
}

/// What a client registers for.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'a> {
    /// Another grant than that of a browser.
    pub(crate) grant: Option<&'a str>,
    pub(crate) scope: Option<&'a str>,
    /// Where its callback listens.
    pub(crate) port: u16,
}

/// The grant of a code that a person enters at another device (RFC 8628).
pub(crate) const DEVICE_CODE: &str = "urn:ietf:params:oauth:grant-type:device_code";

impl Client {
    /// The client that the user's options or a document on the web name.
    pub(crate) fn given(options: &AuthOptions, server: &Server) -> Result<Option<Self>, String> {
        if let Some(id) = &options.client_id {
            let secret = options.client_secret.clone();
            let method = given_method(options, server)?;
            return Ok(Some(Self { id: id.clone(), secret, method, registered_for: None, scope: None }));
        }
        let document = options.client_metadata.as_ref().filter(|_| server.client_id_metadata_document_supported);
        let of_document = |url: &String| {
            let (id, method) = (url.clone(), Method::None);
            Self { id, secret: None, method, registered_for: None, scope: None }
        };
        Ok(document.map(of_document))
    }
}

/// The method for a client that the user names.
fn given_method(options: &AuthOptions, server: &Server) -> Result<Method, String> {
    if options.key.is_some() {
        return Ok(Method::PrivateKeyJwt);
    }
    if options.client_secret.is_none() {
        return Ok(Method::None);
    }
    // RFC 8414, section 2: without a list, it is client_secret_basic.
    let Some(methods) = &server.token_endpoint_auth_methods_supported else { return Ok(Method::ClientSecretBasic) };
    let methods: Vec<&str> = methods.iter().map(String::as_str).collect();
    [("client_secret_basic", Method::ClientSecretBasic), ("client_secret_post", Method::ClientSecretPost)]
        .into_iter()
        .find_map(|(name, method)| methods.contains(&name).then_some(method))
        .ok_or_else(|| format!("the authorization server takes no client secret, but {}", methods.join(", ")))
}

/// The method to register with.
fn own_method(server: &Server) -> Result<&'static str, String> {
    let Some(methods) = &server.token_endpoint_auth_methods_supported else { return Ok("none") };
    let known = ["none", "client_secret_basic", "client_secret_post"];
    let found = known.into_iter().find(|known| methods.iter().any(|method| method == known));
    found.ok_or_else(|| format!("no way to authenticate at the token endpoint, which takes {}", methods.join(", ")))
}

#[derive(Deserialize)]
struct Registered {
    client_id: String,
    client_secret: Option<String>,
    token_endpoint_auth_method: Option<String>,
    scope: Option<String>,
}

/// Registers a client. Some servers let a client ask only for the scopes that it registered
/// with; others refuse to register scopes that belong to a resource.
pub(crate) async fn register(web: &Web, server: &Server, asked: Asked<'_>) -> Result<Client, String> {
    if server.registration_endpoint.is_none() {
        let issuer = &server.issuer;
        return Err(format!("{issuer} lets no client register itself: give --oauth-client-id with an id from there"));
    }
    let endpoint = server.endpoint("registration_endpoint", server.registration_endpoint.as_deref())?;
    let mut scope = asked.scope;
    let (mut status, mut body) = web.post_json(&endpoint, &request(server, asked)?).await?;
    if status == StatusCode::BAD_REQUEST && scope.take().is_some() {
        (status, body) = web.post_json(&endpoint, &request(server, Asked { scope, ..asked })?).await?;
    }
    if !status.is_success() {
        return Err(format!("{endpoint} refused to register a client ({status}): {}", error_of(&body)));
    }
    let registered: Registered = serde_json::from_slice(&body)
        .map_err(|error| format!("{endpoint} answered the registration with something else: {error}"))?;
    let method = registered.method(own_method(server)?)?;
    let Registered { client_id: id, client_secret: secret, scope: own, .. } = registered;
    let scope = own.or(scope.map(str::to_owned));
    Ok(Client { id, secret, method, registered_for: Some(asked.port), scope })
}

fn request(server: &Server, asked: Asked<'_>) -> Result<serde_json::Value, String> {
    let refresh = server.refreshes().then_some("refresh_token");
    let grants: Vec<&str> = asked.grant.into_iter().chain(["authorization_code"]).chain(refresh).collect();
    let mut request = json!({
        "client_name": NAME,
        "application_type": "native",
        "redirect_uris": [callback::redirect(asked.port)],
        "grant_types": grants,
        "response_types": ["code"],
        "token_endpoint_auth_method": own_method(server)?,
    });
    if let (Some(scope), Some(members)) = (asked.scope, request.as_object_mut()) {
        members.insert("scope".to_owned(), scope.into());
    }
    Ok(request)
}

impl Registered {
    /// The server may register another method than we asked for.
    fn method(&self, asked: &str) -> Result<Method, String> {
        match self.token_endpoint_auth_method.as_deref().unwrap_or(asked) {
            "none" => Ok(Method::None),
            "client_secret_basic" => Ok(Method::ClientSecretBasic),
            "client_secret_post" => Ok(Method::ClientSecretPost),
            other => Err(format!(
                "the authorization server wants `{other}` at the token endpoint, which mcp-proxy cannot do for a registered client"
            )),
        }
    }
}

/// What a place has answered, for a person.
pub(crate) fn answered(place: &impl std::fmt::Display, status: StatusCode, body: &[u8]) -> String {
    match error_of(body) {
        said if said.is_empty() => format!("{place} answered {status}"),
        said => format!("{place} answered {status}: {said}"),
    }
}

/// The error that a body names, for a person.
pub(crate) fn error_of(body: &[u8]) -> String {
    #[derive(Deserialize)]
    struct Refusal {
        error: String,
        error_description: Option<String>,
    }
    match serde_json::from_slice::<Refusal>(body) {
        Ok(Refusal { error, error_description: Some(text) }) => format!("{error}: {}", cut(&text)),
        Ok(Refusal { error, error_description: None }) => cut(&error),
        Err(_) => cut(&String::from_utf8_lossy(body)),
    }
}

/// The beginning of a peer's text.
pub(crate) fn cut(text: &str) -> String {
    const LONGEST: usize = 200;
    let mut shown: String =
        text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).take(LONGEST).collect();
    if text.chars().count() > LONGEST {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(methods: Option<&[&str]>) -> Server {
        let methods = methods.map(|methods| methods.iter().map(|method| (*method).to_owned()).collect());
        let convention = Server::by_convention(&"https://a.example".parse().unwrap());
        Server { token_endpoint_auth_methods_supported: methods, ..convention }
    }

    fn options(id: Option<&str>, secret: Option<&str>, document: Option<&str>) -> AuthOptions {
        let own = |text: Option<&str>| text.map(str::to_owned);
        AuthOptions {
            client_id: own(id),
            client_secret: own(secret),
            client_metadata: own(document),
            ..AuthOptions::default()
        }
    }

    #[test]
    fn the_user_s_client_comes_first_then_the_document() {
        let mut supports = server(None);
        supports.client_id_metadata_document_supported = true;
        let document = Some("https://me.example/client.json");
        let cases = [
            (options(Some("id"), None, document), &supports, Some(("id", Method::None))),
            (options(Some("id"), Some("s"), None), &supports, Some(("id", Method::ClientSecretBasic))),
            (options(None, None, document), &supports, Some(("https://me.example/client.json", Method::None))),
            (options(None, None, document), &server(None), None),
            (options(None, None, None), &supports, None),
        ];
        for (options, server, expected) in cases {
            let client = Client::given(&options, server).unwrap();
            assert_eq!(client.as_ref().map(|client| (&*client.id, client.method)), expected);
        }
    }

    #[test]
    fn the_secret_goes_where_the_server_takes_it() {
        let method = |methods| given_method(&options(Some("id"), Some("s"), None), &server(methods));
        assert_eq!(method(None), Ok(Method::ClientSecretBasic));
        assert_eq!(method(Some(&["client_secret_post"])), Ok(Method::ClientSecretPost));
        assert_eq!(method(Some(&["client_secret_post", "client_secret_basic"])), Ok(Method::ClientSecretBasic));
        assert!(method(Some(&["none"])).is_err());
        assert!(method(Some(&[])).is_err());
        assert_eq!(own_method(&server(Some(&["client_secret_post", "none"]))), Ok("none"));
        assert_eq!(own_method(&server(Some(&["client_secret_post"]))), Ok("client_secret_post"));
        assert!(own_method(&server(Some(&["tls_client_auth"]))).is_err());
    }

    #[test]
    fn a_client_registers_for_what_it_will_ask_for() {
        let asked = |grant, scope| request(&server(None), Asked { grant, scope, port: 7 }).unwrap();
        let browser = asked(None, None);
        assert_eq!(browser["grant_types"], json!(["authorization_code", "refresh_token"]));
        assert_eq!(browser["redirect_uris"], json!(["http://127.0.0.1:7/callback"]));
        assert!(browser.get("scope").is_none());
        let device = asked(Some(DEVICE_CODE), Some("a b"));
        assert_eq!(device["grant_types"], json!([DEVICE_CODE, "authorization_code", "refresh_token"]));
        assert_eq!(device["scope"], "a b");
    }

    #[test]
    fn a_refusal_is_shown_by_its_beginning() {
        assert_eq!(error_of(br#"{"error":"bad","error_description":"no\nway"}"#), "bad: no way");
        assert_eq!(error_of(br#"{"error":"bad"}"#), "bad");
        assert_eq!(error_of(b"<html>"), "<html>");
        assert_eq!(answered(&"it", StatusCode::BAD_GATEWAY, b""), "it answered 502 Bad Gateway");
        assert_eq!(answered(&"it", StatusCode::NOT_FOUND, b"no"), "it answered 404 Not Found: no");
        assert_eq!(cut(&"x".repeat(300)).chars().count(), 201);
    }
}
