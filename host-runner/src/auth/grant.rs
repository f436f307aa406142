//! Gets tokens from a token endpoint: for a code, a refresh token, a device code, or the
//! client itself. The `oauth2` crate writes and reads the messages; this file says which
//! client asks, for which resource, and puts failures into words.

use std::time::Duration;

use ::http::{
    HeaderValue, Request, Response,
    header::{AUTHORIZATION, CONTENT_TYPE},
};
use base64::{Engine as _, prelude::BASE64_STANDARD as BASE64};
use http_body_util::Full;
use oauth2::{
    AsyncHttpClient, AuthType, ClientId, ClientSecret, DeviceAuthorizationUrl, EndpointNotSet, EndpointSet,
    HttpRequest, HttpResponse, PkceCodeVerifier, RedirectUrl, RefreshToken, RequestTokenError, Scope,
    StandardDeviceAuthorizationResponse, TokenResponse as _, TokenUrl,
    basic::{BasicClient, BasicTokenResponse},
};
use url::form_urlencoded;

use super::{
    assertion::Signer,
    metadata::Server,
    registration::{Client, Method, answered, cut},
};
use crate::http::Web;

/// How long a person may take to enter a code at another device, if the server sets no
/// limit.
const DEVICE: Duration = Duration::from_secs(15 * 60);

type Oauth = BasicClient<EndpointNotSet, EndpointNotSet, EndpointNotSet, EndpointNotSet, EndpointSet>;

/// What a token endpoint gave.
pub(crate) struct Tokens {
    pub(crate) access: String,
    pub(crate) refresh: Option<String>,
    pub(crate) lifetime: Option<Duration>,
    /// If it differs from what was asked for.
    pub(crate) scope: Option<String>,
}

/// Why there is no token.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) text: String,
    /// What the server no longer knows, so that asking again is useless.
    pub(crate) lost: Option<Lost>,
}

/// What a server no longer knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lost {
    /// The refresh token, or the code.
    Grant,
    Client,
}

impl From<String> for Refused {
    fn from(text: String) -> Self {
        Self { text, lost: None }
    }
}

/// Asks one authorization server for tokens for one resource.
pub(crate) struct Asker<'a> {
    pub(crate) web: &'a Web,
    pub(crate) server: &'a Server,
    pub(crate) client: &'a Client,
    pub(crate) signer: Option<&'a Signer>,
    pub(crate) resource: &'a str,
}

impl Asker<'_> {
    /// The token for a code.
    pub(crate) async fn exchange(&self, code: String, verifier: String, redirect: String) -> Result<Tokens, Refused> {
        let redirect = RedirectUrl::new(redirect).map_err(|error| error.to_string())?;
        let oauth = self.oauth()?.set_redirect_uri(redirect);
        let mut request = oauth.exchange_code(oauth2::AuthorizationCode::new(code));
        request = request.set_pkce_verifier(PkceCodeVerifier::new(verifier));
        for (name, value) in self.extra()? {
            request = request.add_extra_param(name, value);
        }
        tokens(request.request_async(&Wire(self.web)).await)
    }

    /// A new token for a refresh token. The old refresh token stays good if there is no new
    /// one.
    pub(crate) async fn refresh(&self, token: &str) -> Result<Tokens, Refused> {
        let (oauth, token) = (self.oauth()?, RefreshToken::new(token.to_owned()));
        let mut request = oauth.exchange_refresh_token(&token);
        for (name, value) in self.extra()? {
            request = request.add_extra_param(name, value);
        }
        tokens(request.request_async(&Wire(self.web)).await)
    }

    /// A token for the client itself.
    pub(crate) async fn own(&self, scope: Option<&str>) -> Result<Tokens, Refused> {
        let oauth = self.oauth()?;
        let mut request = oauth.exchange_client_credentials().add_scopes(scopes(scope));
        for (name, value) in self.extra()? {
            request = request.add_extra_param(name, value);
        }
        tokens(request.request_async(&Wire(self.web)).await)
    }

    /// A token for a person who confirms a code on another device. `tell` gets the place
    /// and the code.
    pub(crate) async fn device(&self, scope: Option<&str>, tell: impl FnOnce(&str, &str)) -> Result<Tokens, Refused> {
        let server = self.server;
        let endpoint =
            server.endpoint("device_authorization_endpoint", server.device_authorization_endpoint.as_deref())?;
        let endpoint = DeviceAuthorizationUrl::new(endpoint.into()).map_err(|error| error.to_string())?;
        let oauth = self.oauth()?.set_device_authorization_url(endpoint);
        let mut request = oauth.exchange_device_code().add_scopes(scopes(scope));
        for (name, value) in self.extra()? {
            request = request.add_extra_param(name, value);
        }
        let details: StandardDeviceAuthorizationResponse =
            request.request_async(&Wire(self.web)).await.map_err(refused)?;
        let place = details.verification_uri_complete().map_or(details.verification_uri().as_str(), |url| url.secret());
        tell(place, details.user_code().secret());
        let mut request = oauth.exchange_device_access_token(&details);
        for (name, value) in self.extra()? {
            request = request.add_extra_param(name, value);
        }
        tokens(request.request_async(&Wire(self.web), tokio::time::sleep, Some(DEVICE)).await)
    }

    /// Makes a token useless (RFC 7009). `oauth2` does it over https only, not on this machine.
    pub(crate) async fn revoke(&self, token: &str, kind: &str) -> Result<(), String> {
        let endpoint = self.server.endpoint("revocation_endpoint", self.server.revocation_endpoint.as_deref())?;
        let Client { id, secret, method, .. } = self.client;
        let mut form = form_urlencoded::Serializer::new(String::new());
        form.append_pair("token", token).append_pair("token_type_hint", kind);
        let mut request = Request::post(endpoint.as_str()).header(CONTENT_TYPE, "application/x-www-form-urlencoded");
        let secret = secret.as_deref().unwrap_or_default();
        match method {
            Method::ClientSecretBasic => request = request.header(AUTHORIZATION, basic(id, secret)?),
            Method::ClientSecretPost => {
                form.append_pair("client_id", id).append_pair("client_secret", secret);
            }
            Method::None | Method::PrivateKeyJwt => {
                form.append_pair("client_id", id).extend_pairs(self.assertion()?);
            }
        }
        let request = request.body(Full::from(form.finish())).map_err(|error| error.to_string())?;
        let response = self.web.send(request).await?;
        match response.status() {
            status if status.is_success() => Ok(()),
            status => Err(answered(&endpoint, status, response.body())),
        }
    }

    fn oauth(&self) -> Result<Oauth, Refused> {
        let Client { id, secret, method, .. } = self.client;
        let endpoint = TokenUrl::new(self.server.token_endpoint()?.into()).map_err(|error| error.to_string())?;
        let oauth = BasicClient::new(ClientId::new(id.clone())).set_token_uri(endpoint);
        let oauth = match method {
            Method::None | Method::PrivateKeyJwt => return Ok(oauth.set_auth_type(AuthType::RequestBody)),
            Method::ClientSecretBasic => oauth.set_auth_type(AuthType::BasicAuth),
            Method::ClientSecretPost => oauth.set_auth_type(AuthType::RequestBody),
        };
        Ok(oauth.set_client_secret(ClientSecret::new(secret.clone().unwrap_or_default())))
    }

    /// The parameters that `oauth2` does not know: the resource (RFC 8707), and the
    /// client's assertion (RFC 7523).
    fn extra(&self) -> Result<impl Iterator<Item = (&'static str, String)>, Refused> {
        Ok([("resource", self.resource.to_owned())].into_iter().chain(self.assertion()?))
    }

    fn assertion(&self) -> Result<Vec<(&'static str, String)>, String> {
        let (Method::PrivateKeyJwt, Some(signer)) = (self.client.method, self.signer) else { return Ok(Vec::new()) };
        let assertion = signer.assertion(&self.client.id, &self.server.issuer)?;
        Ok(vec![("client_assertion_type", super::assertion::TYPE.to_owned()), ("client_assertion", assertion)])
    }
}

/// RFC 6749, section 2.3.1: both are encoded like a form before they are joined.
fn basic(id: &str, secret: &str) -> Result<HeaderValue, String> {
    let encoded = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
    let pair = BASE64.encode(format!("{}:{}", encoded(id), encoded(secret)));
    let mut value = HeaderValue::from_str(&format!("Basic {pair}")).map_err(|error| error.to_string())?;
    value.set_sensitive(true);
    Ok(value)
}

/// Lets `oauth2` use the runner's client.
struct Wire<'a>(&'a Web);

/// No answer, and why.
#[derive(Debug)]
struct Unreached(String);

impl std::fmt::Display for Unreached {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for Unreached {}

impl<'c> AsyncHttpClient<'c> for Wire<'_> {
    type Error = Unreached;
    type Future = std::pin::Pin<Box<dyn Future<Output = Result<HttpResponse, Unreached>> + Send + 'c>>;

    fn call(&'c self, request: HttpRequest) -> Self::Future {
        Box::pin(async move {
            let request: Request<Full<bytes::Bytes>> = request.map(Full::from);
            let place = request.uri().clone();
            let response: Response<bytes::Bytes> = self.0.send(request).await.map_err(Unreached)?;
            match response.status() {
                status if status.is_success() => {
                    Ok(response.map(|body| corrected(&body).unwrap_or_else(|| body.into())))
                }
                _ if is_refusal(response.body()) => Ok(response.map(Into::into)),
                status => Err(Unreached(answered(&place, status, response.body()))),
            }
        })
    }
}

/// A body whose lifetime is a number of whole seconds, as `oauth2` wants it: some servers
/// give it as text or with a fraction. `None` if there is nothing to correct.
fn corrected(body: &[u8]) -> Option<Vec<u8>> {
    let mut value: serde_json::Value = serde_json::from_slice(body).ok()?;
    let lifetime = value.get_mut("expires_in")?;
    let said = lifetime.as_str().map_or_else(|| lifetime.as_f64(), |text| text.trim().parse().ok());
    let seconds = said.filter(|_| !lifetime.is_u64())?;
    *lifetime = Duration::try_from_secs_f64(seconds).unwrap_or_default().as_secs().into();
    serde_json::to_vec(&value).ok()
}

/// Whether a body is an error in the words of OAuth (RFC 6749, section 5.2).
fn is_refusal(body: &[u8]) -> bool {
    let value: Option<serde_json::Value> = serde_json::from_slice(body).ok();
    value.is_some_and(|value| value.get("error").is_some_and(serde_json::Value::is_string))
}

fn tokens<E>(response: Result<BasicTokenResponse, RequestTokenError<Unreached, E>>) -> Result<Tokens, Refused>
where
    E: oauth2::ErrorResponse + std::fmt::Display,
{
    let response = response.map_err(refused)?;
    if !matches!(response.token_type(), oauth2::basic::BasicTokenType::Bearer) {
        return Err(format!("the token is not a Bearer token but `{}`", response.token_type().as_ref()).into());
    }
    if HeaderValue::from_str(response.access_token().secret()).is_err() {
        return Err("the token has characters that no header can carry".to_owned().into());
    }
    let scope = response.scopes().map(|scopes| scopes.iter().map(|scope| scope.as_str()).collect::<Vec<_>>().join(" "));
    Ok(Tokens {
        access: response.access_token().secret().clone(),
        refresh: response.refresh_token().map(|token| token.secret().clone()),
        lifetime: response.expires_in(),
        scope,
    })
}

fn refused<E: oauth2::ErrorResponse + std::fmt::Display>(error: RequestTokenError<Unreached, E>) -> Refused {
    match error {
        RequestTokenError::ServerResponse(refusal) => {
            let text = cut(&refusal.to_string());
            Refused { lost: lost(&text), text: format!("the authorization server refused: {text}") }
        }
        RequestTokenError::Request(Unreached(text)) => text.into(),
        // The body may hold a token.
        RequestTokenError::Parse(error, _) => something_else(&error.to_string()),
        RequestTokenError::Other(text) => something_else(&cut(&text)),
    }
}

fn something_else(what: &str) -> Refused {
    format!("the token endpoint answered with something else: {what}").into()
}

/// What is no longer known, after a refusal, which begins with its code. Others, like
/// `temporarily_unavailable`, may be over soon.
fn lost(refusal: &str) -> Option<Lost> {
    let codes =
        [("invalid_grant", Lost::Grant), ("invalid_client", Lost::Client), ("unauthorized_client", Lost::Client)];
    codes.into_iter().find_map(|(code, lost)| refusal.starts_with(code).then_some(lost))
}

fn scopes(scope: Option<&str>) -> impl Iterator<Item = Scope> {
    scope.unwrap_or_default().split_ascii_whitespace().map(|scope| Scope::new(scope.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lifetime_is_whole_seconds() {
        let cases = [
            (r#"{"expires_in":60}"#, None),
            (r#"{"expires_in":null}"#, None),
            (r#"{"expires_in":"soon"}"#, None),
            ("{}", None),
            ("<html>", None),
            (r#"{"expires_in":"60"}"#, Some(r#"{"expires_in":60}"#)),
            (r#"{"expires_in":59.9}"#, Some(r#"{"expires_in":59}"#)),
            (r#"{"expires_in":-1}"#, Some(r#"{"expires_in":0}"#)),
        ];
        for (body, expected) in cases {
            assert_eq!(corrected(body.as_bytes()).as_deref(), expected.map(str::as_bytes), "{body}");
        }
    }

    #[test]
    fn a_refusal_says_what_is_lost() {
        let cases = [
            ("invalid_grant: used", Some(Lost::Grant)),
            ("invalid_client", Some(Lost::Client)),
            ("unauthorized_client", Some(Lost::Client)),
            ("temporarily_unavailable", None),
            ("invalid_request: invalid_grant", None),
        ];
        for (refusal, expected) in cases {
            assert_eq!(lost(refusal), expected, "{refusal}");
        }
    }
}
