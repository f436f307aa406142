//! Logins: a person in a browser or at another device, or the client itself.

use std::time::Duration;

use oauth2::{AuthUrl, ClientId, CsrfToken, PkceCodeChallenge, RedirectUrl, Scope, basic::BasicClient};

use super::{
    Inner, browser,
    callback::{Answer, Callback},
    discovery::Found,
    grant::{Refused, Tokens},
    login::Login,
    metadata::Server,
    registration::{self, Asked, Client, DEVICE_CODE, Method, cut},
    scope::{OFFLINE, covers, without_offline},
};
use crate::note;

/// How long a person may take.
const PATIENCE: Duration = Duration::from_secs(600);

/// A request to the authorization server, and how to recognise its answer.
struct Request {
    url: String,
    state: String,
    verifier: String,
}

impl Inner {
    /// A person logs in with a browser on this machine.
    pub(super) async fn browser_login(
        &self,
        found: &Found,
        resource: String,
        scope: Option<String>,
    ) -> Result<Login, String> {
        let server = &found.server;
        // A login that cannot end well must not begin.
        server.browser_endpoint()?;
        server.token_endpoint()?;
        let (callback, client) = self.client_with_callback(server, scope.as_deref()).await?;
        let request = request(server, &client, &callback.url(), &resource, scope.as_deref())?;
        browser::open(&self.options.browser, &request.url, &self.name, &self.mask);
        let why = format!("waiting for you to log in at {}", server.issuer);
        let answer = tokio::time::timeout(PATIENCE, self.wait_for(&why, callback.answer(&request.state)));
        let Answer { code, issuer, error, page } =
            answer.await.map_err(|_elapsed| format!("nobody logged in within {} minutes", PATIENCE.as_secs() / 60))?;
        let tokens = match check(server, code, issuer.as_deref(), error) {
            Ok(code) => {
                let asker = self.asker(server, &client, &resource);
                asker.exchange(code, request.verifier, callback.url()).await.map_err(|refused| refused.text)
            }
            Err(text) => Err(text),
        };
        // A browser that has left needs no page.
        drop(page.send(tokens.as_ref().map(|_| self.name.clone()).map_err(Clone::clone)));
        tokens.map(|tokens| Login::new(server.clone(), resource, client, scope, tokens))
    }

    /// A person enters a code at another device.
    pub(super) async fn device_login(
        &self,
        found: &Found,
        resource: String,
        scope: Option<String>,
    ) -> Result<Login, String> {
        let server = &found.server;
        let client = match Client::given(&self.options, server)? {
            Some(client) => client,
            None => {
                let asked = Asked { grant: Some(DEVICE_CODE), scope: scope.as_deref(), port: 0 };
                registration::register(&self.web, server, asked).await?
            }
        };
        let tell = |place: &str, code: &str| {
            note::line(&format!("mcp-proxy: {} wants you to log in: open {place} and enter {code}", self.name));
        };
        let why = format!("waiting for you to log in at {}", server.issuer);
        let asker = self.asker(server, &client, &resource);
        let tokens = self.wait_for(&why, asker.device(scope.as_deref(), tell)).await;
        tokens.map(|tokens| Login::new(server.clone(), resource.clone(), client.clone(), scope, tokens)).map_err(text)
    }

    /// The client logs in as itself.
    pub(super) async fn own_login(
        &self,
        found: &Found,
        resource: String,
        scope: Option<String>,
    ) -> Result<Login, String> {
        let server = &found.server;
        let client = Client::given(&self.options, server)?;
        let client = client.ok_or("--oauth-grant client-credentials needs --oauth-client-id")?;
        if client.method == Method::None {
            return Err("--oauth-grant client-credentials needs --oauth-client-secret-env or --oauth-key".to_owned());
        }
        let scope = scope.map(|scope| without_offline(&scope)).filter(|scope| !scope.is_empty());
        let tokens: Tokens = self.asker(server, &client, &resource).own(scope.as_deref()).await.map_err(text)?;
        Ok(Login::new(server.clone(), resource, client, scope, tokens))
    }

    /// Who we are to this server, and where its answer comes: the client that registered
    /// earlier, if its port is still free.
    async fn client_with_callback(&self, server: &Server, scope: Option<&str>) -> Result<(Callback, Client), String> {
        let given = Client::given(&self.options, server)?;
        let known = self.registered(server, scope).filter(|_| given.is_none());
        let known_port = known.as_ref().and_then(|client| client.registered_for);
        let callback = self.open_callback(known_port).await?;
        let port = callback.port();
        let client = match given.or(known.filter(|_| known_port == Some(port))) {
            Some(client) => client,
            None => registration::register(&self.web, server, Asked { grant: None, scope, port }).await?,
        };
        Ok((callback, client))
    }

    async fn open_callback(&self, known: Option<u16>) -> Result<Callback, String> {
        let explain = |error: std::io::Error| format!("no port for the answer of the login: {error}");
        if let Some(port) = self.options.callback_port {
            let opened = Callback::open(Some(port)).await;
            return opened.map_err(|error| format!("--oauth-callback-port {port}: {error}"));
        }
        match Callback::open(known).await {
            Ok(callback) => Ok(callback),
            Err(_taken) => Callback::open(None).await.map_err(explain),
        }
    }

    /// The client that registered at this server for an earlier login, if it may ask for
    /// these scopes.
    fn registered(&self, server: &Server, scope: Option<&str>) -> Option<Client> {
        let logins = self.store.read(&self.name).logins;
        let mut known = logins.into_iter().filter(|login| login.server.issuer == server.issuer);
        // A secret in the keychain is not worth a question.
        let may_ask =
            |client: &Client| client.scope.as_deref().is_none_or(|own| covers(own, scope.unwrap_or_default()));
        let usable =
            |client: &Client| client.registered_for.is_some() && client.method == Method::None && may_ask(client);
        known.find_map(|login| Some(login.client).filter(usable))
    }
}

fn request(
    server: &Server,
    client: &Client,
    redirect: &str,
    resource: &str,
    scope: Option<&str>,
) -> Result<Request, String> {
    let endpoint = AuthUrl::new(server.browser_endpoint()?.into()).map_err(|error| error.to_string())?;
    let redirect = RedirectUrl::new(redirect.to_owned()).map_err(|error| error.to_string())?;
    let (challenge, verifier) = PkceCodeChallenge::new_random_sha256();
    let oauth = BasicClient::new(ClientId::new(client.id.clone())).set_auth_uri(endpoint).set_redirect_uri(redirect);
    let scopes = scope.unwrap_or_default().split_ascii_whitespace();
    let mut request = oauth.authorize_url(CsrfToken::new_random).set_pkce_challenge(challenge);
    request = request.add_scopes(scopes.clone().map(|scope| Scope::new(scope.to_owned())));
    request = request.add_extra_param("resource", resource.to_owned());
    if scopes.clone().any(|scope| scope == OFFLINE) {
        // OpenID Connect Core, section 11: a refresh token needs consent.
        request = request.add_extra_param("prompt", "consent");
    }
    let (url, state) = request.url();
    Ok(Request { url: url.into(), state: state.into_secret(), verifier: verifier.into_secret() })
}

/// The code of an answer, if the right server has given it (RFC 9207).
fn check(server: &Server, code: Option<String>, issuer: Option<&str>, error: Option<String>) -> Result<String, String> {
    let expected = &server.issuer;
    match issuer {
        Some(issuer) if issuer != expected => {
            return Err(format!("the answer is from another issuer: {} instead of {expected}", cut(issuer)));
        }
        None if server.authorization_response_iss_parameter_supported => {
            return Err(format!("the answer does not name its issuer, as {expected} promises (iss)"));
        }
        Some(_) | None => {}
    }
    match (error, code) {
        (Some(error), _) => Err(format!("{expected} says: {}", cut(&error))),
        (None, Some(code)) => Ok(code),
        (None, None) => Err(format!("the answer of {expected} has neither a code nor an error")),
    }
}

fn text(refused: Refused) -> String {
    refused.text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(names_itself: bool) -> Server {
        let convention = Server::by_convention(&"https://as.example".parse().unwrap());
        Server { authorization_response_iss_parameter_supported: names_itself, ..convention }
    }

    #[test]
    fn an_answer_of_another_issuer_is_refused() {
        let ours = Some("https://as.example");
        let cases = [
            (false, None, true),
            (false, ours, true),
            (false, Some("https://as.example/"), false),
            (false, Some("https://evil.example"), false),
            (true, None, false),
            (true, ours, true),
            (true, Some("HTTPS://as.example"), false),
        ];
        for (names_itself, issuer, good) in cases {
            let code = check(&server(names_itself), Some("c".into()), issuer, None);
            assert_eq!(code.is_ok(), good, "{names_itself} {issuer:?}");
        }
        let mixed_up = check(&server(false), None, Some("https://evil.example"), Some("see evil.example".into()));
        assert!(!mixed_up.unwrap_err().contains("see evil"));
    }

    #[test]
    fn a_request_has_pkce_and_names_the_resource() {
        let client = Client { id: "me".into(), secret: None, method: Method::None, registered_for: None, scope: None };
        let made =
            |scope| request(&server(false), &client, "http://127.0.0.1:7/callback", "https://a.example/mcp", scope);
        let url = made(Some("a offline_access")).unwrap().url;
        for part in [
            "https://as.example/authorize?",
            "response_type=code",
            "client_id=me",
            "code_challenge_method=S256",
            "redirect_uri=http%3A%2F%2F127.0.0.1%3A7%2Fcallback",
            "resource=https%3A%2F%2Fa.example%2Fmcp",
            "scope=a+offline_access",
            "prompt=consent",
        ] {
            assert!(url.contains(part), "{part} in {url}");
        }
        let plain = made(None).unwrap().url;
        assert!(!plain.contains("scope=") && !plain.contains("prompt="), "{plain}");
        let mut weak = server(false);
        weak.code_challenge_methods_supported = vec!["plain".into()];
        assert!(request(&weak, &client, "http://127.0.0.1:7/callback", "https://a.example", None).is_err());
    }
}
