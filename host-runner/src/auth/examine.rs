//! Looks at the authorization of a server without logging in, for `doctor`.

use ::http::{HeaderMap, StatusCode};
use mcp_proxy_options::Grant;

use super::{Authorizer, Inner, challenge::Challenge, discovery, metadata::Server, registration::Client, scope};

/// How somebody would log in.
pub struct Examined {
    pub issuer: String,
    pub scope: Option<String>,
    /// Which client mcp-proxy would be there.
    pub client: &'static str,
}

impl Authorizer {
    /// Follows a refusal to the authorization server. The error says what is wrong there.
    pub async fn examine(&self, refusal: &HeaderMap) -> Result<Examined, String> {
        let inner = &*self.0;
        let challenge = Challenge::of(refusal).unwrap_or_default();
        let found = discovery::find(&inner.web, &inner.url, challenge.resource_metadata.as_deref()).await?;
        let server = &found.server;
        if found.resource.is_none() {
            inner.is_there(server).await?;
        }
        if inner.options.grant == Grant::Auto || inner.options.grant == Grant::Browser {
            server.browser_endpoint()?;
        }
        server.endpoint("token_endpoint", server.token_endpoint.as_deref())?;
        let client = self.client(server)?;
        let given = inner.options.scope.as_deref();
        let scope = scope::first(given, challenge.scope.as_deref(), found.resource.as_ref(), server);
        Ok(Examined { issuer: server.issuer.clone(), scope, client })
    }

    /// Who issued the token in use.
    pub async fn issuer(&self) -> Option<String> {
        self.token().await.map(|token| token.login.server.issuer.clone())
    }

    fn client(&self, server: &Server) -> Result<&'static str, String> {
        let options = &self.0.options;
        match Client::given(options, server)? {
            Some(_) if options.client_id.is_some() => Ok("with the client id that you give"),
            Some(_) => Ok("with your client-id metadata document"),
            None if server.registration_endpoint.is_some() => Ok("registering itself as a client"),
            None => {
                let issuer = &server.issuer;
                Err(format!("{issuer} registers no clients: get a client id there, and use --oauth-client-id"))
            }
        }
    }
}

impl Inner {
    /// Without any metadata, the endpoints of an authorization server are only assumed.
    async fn is_there(&self, server: &Server) -> Result<(), String> {
        let origin = self.url.join("/").map_err(|error| error.to_string())?;
        if *server != Server::by_convention(&origin) {
            return Ok(());
        }
        let endpoint = server.browser_endpoint()?;
        match self.web.get(&endpoint).await?.0 {
            StatusCode::NOT_FOUND => Err(format!("no metadata says who issues tokens, and there is no {endpoint}")),
            _ => Ok(()),
        }
    }
}
