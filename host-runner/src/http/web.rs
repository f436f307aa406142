//! Requests to authorization servers, which are often other origins than the server's.
//! They use the same settings for connections (proxies, TLS roots) but none of the user's
//! headers, follow no redirect with a body, and read short answers only.

use std::{sync::Arc, time::Duration};

use ::http::{
    HeaderValue, Method, Request, Response, StatusCode, Uri,
    header::{ACCEPT, CONTENT_TYPE, LOCATION, PROXY_AUTHORIZATION, USER_AGENT},
};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use url::Url;

use super::{dial::Dialer, failure, proxy::Proxies};

/// How long one request may take.
const LIMIT: Duration = Duration::from_secs(30);
/// How large an answer may be.
const LONGEST: usize = 1 << 20;
/// How many redirects a document may take, all on one origin.
const REDIRECTS: usize = 3;

const AGENT: HeaderValue = HeaderValue::from_static(concat!("mcp-proxy/", env!("CARGO_PKG_VERSION")));
const JSON: HeaderValue = HeaderValue::from_static("application/json");

type Answer = (StatusCode, Bytes);

/// A client for authorization servers; clones share its connections.
#[derive(Clone)]
pub struct Web {
    client: Client<Dialer, Full<Bytes>>,
    proxies: Arc<Proxies>,
}

impl Web {
    pub(super) fn new(dialer: Dialer, proxies: Arc<Proxies>) -> Self {
        Self { client: Client::builder(TokioExecutor::new()).pool_idle_timeout(LIMIT).build(dialer), proxies }
    }

    /// A document, from the same origin even if the server redirects.
    pub(crate) async fn get(&self, url: &Url) -> Result<Answer, String> {
        let mut place = url.clone();
        for _ in 0..=REDIRECTS {
            let request = Request::get(place.as_str()).header(ACCEPT, JSON);
            let response = self.send(request.body(Full::default()).map_err(|error| error.to_string())?).await?;
            let target = redirect(&place, &response);
            match target.filter(|target| target.origin() == url.origin()) {
                Some(target) => place = target,
                None => return Ok((response.status(), response.into_body())),
            }
        }
        Err(format!("{url} redirects in a circle"))
    }

    pub(crate) async fn post_json(&self, url: &Url, body: &serde_json::Value) -> Result<Answer, String> {
        let request = Request::post(url.as_str()).header(CONTENT_TYPE, JSON).header(ACCEPT, JSON);
        let request = request.body(Full::from(body.to_string())).map_err(|error| error.to_string())?;
        let response = self.send(request).await?;
        Ok((response.status(), response.into_body()))
    }

    /// Sends one request. A redirect of a request with a body is an error: its secrets are
    /// for this place only.
    pub(crate) async fn send(&self, mut request: Request<Full<Bytes>>) -> Result<Response<Bytes>, String> {
        let (uri, method) = (request.uri().clone(), request.method().clone());
        request.headers_mut().insert(USER_AGENT, AGENT);
        if let Some(authorization) = self.proxies.authorization(&uri) {
            request.headers_mut().insert(PROXY_AUTHORIZATION, authorization);
        }
        let exchange = async {
            let via = self.proxies.way(&uri).unwrap_or_default();
            let response = self.client.request(request).await;
            let response = response.map_err(|error| failure::of_exchange_in_words(&uri, via.as_ref(), &error))?;
            let (head, body) = response.into_parts();
            let body = Limited::new(body, LONGEST).collect().await;
            let body = body.map_err(|error| format!("{}: {error}", shown(&uri)))?.to_bytes();
            Ok::<_, String>(Response::from_parts(head, body))
        };
        let response = match tokio::time::timeout(LIMIT, exchange).await {
            Ok(response) => response?,
            Err(_elapsed) => return Err(format!("{} did not answer within {} s", shown(&uri), LIMIT.as_secs())),
        };
        match response.headers().get(LOCATION).filter(|_| method != Method::GET && response.status().is_redirection()) {
            Some(target) => Err(format!(
                "{} redirects to {}: secrets are not sent there",
                shown(&uri),
                String::from_utf8_lossy(target.as_bytes()).escape_debug()
            )),
            None => Ok(response),
        }
    }
}

fn redirect(from: &Url, response: &Response<Bytes>) -> Option<Url> {
    let target = response.headers().get(LOCATION).filter(|_| response.status().is_redirection())?;
    from.join(target.to_str().ok()?).ok()
}

/// A URL without its query, which may hold secrets.
fn shown(uri: &Uri) -> String {
    let scheme = uri.scheme_str().unwrap_or("https");
    let authority = uri.authority().map_or("?", |authority| authority.as_str());
    format!("{scheme}://{authority}{}", uri.path())
}
