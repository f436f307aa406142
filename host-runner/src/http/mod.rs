//! HTTP out of the sandbox: one pooled client for HTTP/1.1 and HTTP/2.
//!
//! `policy` judges a request first, then `credential` adds the user's headers. The
//! request then uses a connection of the `pool` that `dial` opened, directly or through a
//! proxy (`hop`, `proxy`) and with TLS (`tls`). `failure` translates errors for the
//! component. Nothing here retries a request that may have reached the server, or looks
//! into a body.

mod credential;
mod descriptors;
mod dial;
mod failure;
mod hop;
mod offline;
mod policy;
mod pool;
mod proxy;
mod tls;
mod trust;

use std::{future::ready, sync::Arc, time::Duration};

use ::http::{HeaderMap, Request, Response, Uri, header::PROXY_AUTHORIZATION};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper_util::client::legacy;
use mcp_proxy_options::{Options, UsageError};
use wasmtime_wasi_http::{Error, RequestOptions, WasiBody, WasiHttpHooks};

pub use self::offline::Offline;
use self::{
    credential::Credentials,
    dial::Dialer,
    policy::{Policy, Verdict},
    pool::{Pool, Usage},
    proxy::Proxies,
};
use crate::note;

type Exchanged = Result<(Response<WasiBody>, Box<dyn Future<Output = Sent> + Send>), Error>;
type Sent = Result<(), Error>;

/// Timeouts of a day and more mean "none" and cost no timer.
const ENDLESS: Duration = Duration::from_secs(24 * 60 * 60);

pub struct Http {
    pool: Pool,
    policy: Arc<Policy>,
    credentials: Credentials,
    proxies: Arc<Proxies>,
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
        Ok(Self { pool: Pool::new(dialer), policy, credentials, proxies })
    }

    /// The user's secrets, which must not be disclosed.
    pub fn secrets(&self) -> impl Iterator<Item = &[u8]> {
        self.credentials.secrets()
    }

    /// Refuses the request, or adds the headers to send.
    fn prepare(&self, uri: &Uri, headers: &mut HeaderMap) -> Result<(), Error> {
        match self.policy.judge(uri) {
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
        if let Err(error) = self.prepare(&uri, request.headers_mut()) {
            return Box::new(ready(Err(error)));
        }
        let limit = options.and_then(|options| options.first_byte_timeout).filter(|limit| *limit < ENDLESS);
        let (client, usage) = self.pool.client(&uri);
        let response = client.request(request);
        let call = Call { uri, usage, proxies: self.proxies.clone() };
        Box::new(async move {
            let response = match limit {
                None => response.await,
                Some(limit) => {
                    tokio::time::timeout(limit, response).await.map_err(|_elapsed| Error::ConnectionReadTimeout)?
                }
            };
            call.finish(response)
        })
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
}

impl Call {
    fn finish(&self, response: Result<Response<Incoming>, legacy::Error>) -> Exchanged {
        let response = response.map_err(|error| {
            let via = self.proxies.way(&self.uri).unwrap_or_default();
            failure::of_exchange(&self.uri, via.as_ref(), &error)
        })?;
        self.usage.answered(response.headers());
        let body = |body: Incoming| body.map_err(|error| failure::of_body(&error)).boxed_unsync();
        Ok((response.map(body), Box::new(ready(Ok(())))))
    }
}
