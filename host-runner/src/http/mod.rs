//! HTTP out of the sandbox: one pooled client for HTTP/1.1 and HTTP/2.
//!
//! `policy` judges a request first, then `credential` adds the user's headers, and `auth`
//! a token if the server wants one. The request then uses a connection of the `pool` that `dial` opened, directly or through a
//! proxy (`hop`, `proxy`) and with TLS (`tls`). `failure` translates errors for the
//! component. Nothing here retries a request that may have reached the server, or looks
//! into a body.

mod body;
mod credential;
mod descriptors;
mod dial;
mod failure;
mod hop;
mod link;
mod offline;
mod policy;
mod pool;
mod proxy;
mod tls;
mod trust;
mod watch;
mod web;

use std::{convert::Infallible, future::ready, sync::Arc, time::Duration};

use ::http::{
    HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode, Uri,
    header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, PROXY_AUTHORIZATION},
};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::client::legacy::{self, Client};
use mcp_proxy_options::{Options, UsageError};
use wasmtime_wasi_http::{Error, RequestOptions, WasiBody, WasiHttpHooks};

use self::{
    body::Repeatable,
    credential::Credentials,
    dial::Dialer,
    policy::{Policy, Verdict},
    pool::{Pool, Usage},
    proxy::Proxies,
};
pub use self::{
    offline::Offline,
    watch::{Exchange, Outcome, Watch},
    web::Web,
};
use crate::{
    auth::{Authorizer, Decision},
    note,
    record::{self, Mask},
};

type Exchanged = Result<(Response<WasiBody>, Box<dyn Future<Output = Sent> + Send>), Error>;
type Sent = Result<(), Error>;

/// Timeouts of a day and more mean "none" and cost no timer.
const ENDLESS: Duration = Duration::from_secs(24 * 60 * 60);

/// How often a request is sent again after a refusal: with a renewed token, after a login,
/// and with more scopes.
const MOST_REPEATS: usize = 3;

/// There is a better token, but the request is gone.
const TOO_LONG: &str = "the token is good again, but this request was too long to be sent again: repeat it";

/// What the component reads for an explanation.
const NO_LOGIN: HeaderName = HeaderName::from_static("mcp-proxy-no-login");

pub struct Http {
    pool: Pool,
    policy: Arc<Policy>,
    credentials: Credentials,
    proxies: Arc<Proxies>,
    mask: Arc<Mask>,
    authorizer: Option<Authorizer>,
}

impl Http {
    /// Prepares everything without connecting.
    pub fn new(options: &Options, env: &dyn Fn(&str) -> Option<String>) -> Result<Self, UsageError> {
        descriptors::raise_limit();
        let policy = Arc::new(Policy::new(&options.url, &options.host.allow_hosts)?);
        let proxies = Arc::new(Proxies::from_variables(env));
        proxies.check(&options.url)?;
        if let Some(text) = proxies.described(&options.url).filter(|_| options.debug) {
            note::http(&text);
        }
        let tls = tls::Tls::new(&options.host)?;
        let dialer = Dialer::new(policy.clone(), proxies.clone(), tls, options.connect_timeout);
        let credentials = Credentials::new(&options.headers)?;
        let mask = Arc::new(Mask::new(credentials.secrets().chain(record::keys(&options.url))));
        let web = Web::new(dialer.clone(), proxies.clone());
        let authorizer = match credentials.authorize() {
            true => None,
            false => Authorizer::new(&options.url, &options.host.auth, web, mask.clone(), env)?,
        };
        Ok(Self { pool: Pool::new(dialer), policy, credentials, proxies, mask, authorizer })
    }

    /// Covers the user's secrets, which must not be disclosed.
    pub fn mask(&self) -> Arc<Mask> {
        self.mask.clone()
    }

    /// The server's challenge to somebody without a token, if it has one.
    pub async fn challenge(&mut self, url: &str) -> Result<Option<HeaderMap>, String> {
        let uri: Uri = url.parse().map_err(|_invalid| format!("`{url}` is not a URL"))?;
        let (client, _) = self.pool.client(&uri);
        let body = Full::from("{}").map_err(|never: Infallible| match never {}).boxed_unsync();
        let request = Request::post(&uri).header(CONTENT_TYPE, "application/json");
        let request = request.header(ACCEPT, "application/json, text/event-stream").body(body);
        let response = client.request(request.map_err(|error| error.to_string())?).await;
        let response = response.map_err(|error| failure::of_exchange_in_words(&uri, None, &error))?;
        Ok((response.status() == StatusCode::UNAUTHORIZED).then(|| response.headers().clone()))
    }

    /// Gets tokens for the server; `None` if the user has credentials of another kind.
    pub fn authorizer(&self) -> Option<&Authorizer> {
        self.authorizer.as_ref()
    }

    /// Refuses the request, or adds the headers to send.
    fn prepare(&self, uri: &Uri, verdict: Verdict, headers: &mut HeaderMap) -> Result<(), Error> {
        match verdict {
            Verdict::Own => self.credentials.add_to(headers),
            Verdict::Allowed => {}
            Verdict::Refused => {
                note::http(&policy::refusal(uri));
                return Err(Error::HttpRequestDenied);
            }
        }
        if let Some(authorization) = self.proxies.authorization(uri) {
            headers.insert(PROXY_AUTHORIZATION, authorization);
        }
        Ok(())
    }
}

impl WasiHttpHooks for Http {
    fn send_request(
        &mut self,
        mut request: Request<WasiBody>,
        options: Option<RequestOptions>,
        _sent: Box<dyn Future<Output = Sent> + Send>,
    ) -> Box<dyn Future<Output = Exchanged> + Send> {
        let uri = request.uri().clone();
        let verdict = self.policy.judge(&uri);
        if let Err(error) = self.prepare(&uri, verdict, request.headers_mut()) {
            return Box::new(ready(Err(error)));
        }
        let limit = options.and_then(|options| options.first_byte_timeout).filter(|limit| *limit < ENDLESS);
        let (client, usage) = self.pool.client(&uri);
        let call = Call { uri, usage, proxies: self.proxies.clone(), limit };
        match self.authorizer.clone().filter(|_| verdict == Verdict::Own) {
            Some(authorizer) => {
                let client = client.clone();
                Box::new(async move { call.authorized(&client, request, &authorizer).await })
            }
            None => {
                let response = client.request(request);
                Box::new(async move { Ok(finished(call.response(response).await?)) })
            }
        }
    }

    /// hyper adds the header where HTTP/1.1 needs it; HTTP/2 has `:authority`.
    fn set_host_header(&mut self) -> bool {
        false
    }
}

/// A request under way. Dropping its future cancels the exchange: hyper then closes the
/// HTTP/1.1 connection or resets the HTTP/2 stream.
struct Call {
    uri: Uri,
    usage: Arc<Usage>,
    proxies: Arc<Proxies>,
    limit: Option<Duration>,
}

impl Call {
    async fn response(&self, response: legacy::ResponseFuture) -> Result<Response<Incoming>, Error> {
        let response = match self.limit {
            None => response.await,
            Some(limit) => {
                tokio::time::timeout(limit, response).await.map_err(|_elapsed| Error::ConnectionReadTimeout)?
            }
        };
        let response = response.map_err(|error| {
            let via = self.proxies.way(&self.uri).unwrap_or_default();
            failure::of_exchange(&self.uri, via.as_ref(), &error)
        })?;
        self.usage.answered(response.headers());
        Ok(response)
    }

    /// Sends the request with a token, and again with a better one if the server refuses.
    /// A refused request was not carried out.
    async fn authorized(
        &self,
        client: &Client<Dialer, WasiBody>,
        request: Request<WasiBody>,
        authorizer: &Authorizer,
    ) -> Exchanged {
        let (head, body) = request.into_parts();
        let mut body = Repeatable::new(body);
        let mut token = authorizer.token().await;
        let mut repeats = 0..MOST_REPEATS;
        loop {
            let next = body.again();
            let mut request = Request::from_parts(head.clone(), body.boxed_unsync());
            if let Some(token) = &token {
                request.headers_mut().insert(AUTHORIZATION, token.header.clone());
            }
            let mut response = self.response(client.request(request)).await?;
            let status = response.status();
            if status != StatusCode::UNAUTHORIZED {
                token.iter().for_each(Authorizer::accepted);
            }
            let refused = status == StatusCode::UNAUTHORIZED || status == StatusCode::FORBIDDEN;
            if !refused || repeats.next().is_none() {
                next.iter().for_each(Repeatable::settle);
                return Ok(finished(response));
            }
            let decision = authorizer.refused(status, response.headers(), token.take()).await;
            let cause = match (decision, next.filter(Repeatable::is_kept)) {
                (Decision::Again(better), Some(next)) => {
                    (token, body) = (Some(better), next);
                    continue;
                }
                (Decision::Again(_), None) => Some(TOO_LONG.to_owned()),
                (Decision::Leave(cause), _) => cause,
            };
            cause.iter().for_each(|cause| explain(response.headers_mut(), cause));
            return Ok(finished(response));
        }
    }
}

fn finished(response: Response<Incoming>) -> (Response<WasiBody>, Box<dyn Future<Output = Sent> + Send>) {
    let body = |body: Incoming| body.map_err(|error| failure::of_body(&error)).boxed_unsync();
    (response.map(body), Box::new(ready(Ok(()))))
}

/// Tells the component why there is no token.
fn explain(headers: &mut HeaderMap, cause: &str) {
    let cause: String = cause.chars().filter(|letter| letter.is_ascii_graphic() || *letter == ' ').collect();
    if let Ok(cause) = HeaderValue::from_str(&cause) {
        headers.insert(NO_LOGIN, cause);
    }
}
