//! Opens connections: name lookup, TCP (racing both address families), the proxy's
//! handshake, and TLS, all within the connect timeout. Only a new connection costs a
//! timer; a request over a pooled one does not.

use std::{
    fmt, io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use ::http::Uri;
use hyper_rustls::{HttpsConnector, MaybeHttpsStream};
use hyper_util::client::legacy::connect::{
    HttpConnector,
    dns::{GaiAddrs, GaiResolver, Name},
    proxy::{SocksV5, Tunnel},
};
use tower_service::Service;

use super::{
    hop::{Hop, Role, Wire},
    policy::{Policy, Verdict},
    proxy::{Proxies, Way},
    tls::{Peer, Tls},
};

type BoxError = Box<dyn std::error::Error + Send + Sync>;
type Dialing<T> = Pin<Box<dyn Future<Output = Result<T, BoxError>> + Send>>;

/// Detects a dead peer in about a minute, even on a stream that only receives.
const KEEPALIVE: Duration = Duration::from_secs(30);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEPALIVE_RETRIES: u32 = 3;

#[derive(Clone)]
pub(super) struct Dialer {
    hops: Hops,
    policy: Arc<Policy>,
    timeout: Duration,
}

/// Dials up to the server's own TLS, which comes on top.
#[derive(Clone)]
struct Hops {
    tcp: HttpConnector<Resolver>,
    proxies: Arc<Proxies>,
    tls: Tls,
}

impl Dialer {
    pub(super) fn new(policy: Arc<Policy>, proxies: Arc<Proxies>, tls: Tls, timeout: Duration) -> Self {
        let mut tcp = HttpConnector::new_with_resolver(Resolver);
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_keepalive(Some(KEEPALIVE));
        tcp.set_keepalive_interval(Some(KEEPALIVE_INTERVAL));
        tcp.set_keepalive_retries(Some(KEEPALIVE_RETRIES));
        // Spread over a name's addresses, so that a dead one leaves time for the next.
        tcp.set_connect_timeout(Some(timeout));
        let hops = Hops { tcp, proxies, tls };
        Self { hops, policy, timeout }
    }

    /// Which peer a connection to this origin reaches. hyper keeps connections apart by
    /// origin, so no other origin reuses one that has shown the client certificate.
    fn peer(&self, uri: &Uri) -> Peer {
        match self.policy.judge(uri) {
            Verdict::Own => Peer::Own,
            Verdict::Allowed | Verdict::Refused => Peer::Allowed,
        }
    }
}

impl Service<Uri> for Dialer {
    type Response = MaybeHttpsStream<Hop>;
    type Error = BoxError;
    type Future = Dialing<Self::Response>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let mut hops = self.hops.clone();
        let (peer, timeout) = (self.peer(&uri), self.timeout);
        Box::pin(async move {
            let dialing = async {
                if uri.scheme_str() != Some("https") {
                    return hops.call(uri).await.map(MaybeHttpsStream::Http);
                }
                let config = hops.tls.config(peer)?;
                HttpsConnector::from((hops, config)).call(uri).await
            };
            match tokio::time::timeout(timeout, dialing).await {
                Ok(dialed) => dialed,
                Err(_elapsed) => Err(io::Error::from(io::ErrorKind::TimedOut).into()),
            }
        })
    }
}

impl Service<Uri> for Hops {
    type Response = Hop;
    type Error = BoxError;
    type Future = Dialing<Hop>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let hops = self.clone();
        Box::pin(async move {
            match hops.proxies.way(&uri)? {
                None => hops.direct(uri).await,
                Some(way) => hops.through(way, uri).await,
            }
        })
    }
}

impl Hops {
    async fn direct(mut self, uri: Uri) -> Result<Hop, BoxError> {
        let tcp = self.tcp.call(uri).await?;
        Ok(Hop::new(Wire::Http(tcp), Role::Server))
    }

    async fn through(self, way: Way, uri: Uri) -> Result<Hop, BoxError> {
        match way {
            Way::Forward { proxy } => {
                let wire = self.to_proxy(&proxy)?.call(proxy).await?;
                Ok(Hop::new(wire, Role::Forwarder))
            }
            Way::Tunnel { proxy, authorization } => {
                let mut tunnel = Tunnel::new(proxy.clone(), self.to_proxy(&proxy)?);
                if let Some(authorization) = authorization {
                    tunnel = tunnel.with_auth(authorization);
                }
                Ok(Hop::new(tunnel.call(uri).await?, Role::Server))
            }
            Way::Socks { proxy, login } => {
                let mut socks = SocksV5::new(proxy, self.tcp);
                if let Some((user, password)) = login {
                    socks = socks.with_auth(user, password);
                }
                Ok(Hop::new(Wire::Http(socks.call(uri).await?), Role::Server))
            }
        }
    }

    fn to_proxy(&self, proxy: &Uri) -> Result<ProxyConnector, BoxError> {
        let tcp = self.tcp.clone();
        if proxy.scheme_str() != Some("https") {
            return Ok(ProxyConnector::Plain(tcp));
        }
        let config = self.tls.config(Peer::Proxy)?;
        Ok(ProxyConnector::Secure(HttpsConnector::from((tcp, config))))
    }
}

/// Connects to an http or https proxy.
enum ProxyConnector {
    Plain(HttpConnector<Resolver>),
    Secure(HttpsConnector<HttpConnector<Resolver>>),
}

impl Service<Uri> for ProxyConnector {
    type Response = Wire;
    type Error = BoxError;
    type Future = Dialing<Wire>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        match self {
            Self::Plain(tcp) => {
                let dialing = tcp.call(uri);
                Box::pin(async move { Ok(Wire::Http(dialing.await?)) })
            }
            Self::Secure(connector) => connector.call(uri),
        }
    }
}

/// The system's resolver, with a distinct error type.
#[derive(Clone)]
pub(super) struct Resolver;

#[derive(Debug)]
pub(super) struct NameNotFound(io::Error);

impl fmt::Display for NameNotFound {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

impl std::error::Error for NameNotFound {}

#[cfg(test)]
impl NameNotFound {
    pub(super) fn new(cause: &str) -> Self {
        Self(io::Error::other(cause.to_owned()))
    }
}

impl Service<Name> for Resolver {
    type Response = GaiAddrs;
    type Error = NameNotFound;
    type Future = Pin<Box<dyn Future<Output = Result<GaiAddrs, NameNotFound>> + Send>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), NameNotFound>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let found = GaiResolver::new().call(name);
        Box::pin(async move { found.await.map_err(NameNotFound) })
    }
}

#[cfg(test)]
mod tests {
    use std::{net::TcpListener, thread::JoinHandle};

    use mcp_proxy_options::{AllowedHost, ClientIdentity, HostOptions};
    use rustls::{
        RootCertStore, ServerConfig, ServerConnection,
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
        server::WebPkiClientVerifier,
    };

    use super::*;

    fn fixture(name: &str) -> String {
        format!("{}/../tests/fixtures/tls/{name}", env!("CARGO_MANIFEST_DIR"))
    }

    /// Requests a certificate from each client but does not require one.
    fn server_config() -> Arc<ServerConfig> {
        let provider = Arc::new(ring::default_provider());
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(fixture("ca.pem")).unwrap()).unwrap();
        let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider.clone());
        let chain = vec![CertificateDer::from_pem_file(fixture("server.pem")).unwrap()];
        let key = PrivateKeyDer::from_pem_file(fixture("server.key")).unwrap();
        let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let builder = builder.with_client_cert_verifier(verifier.allow_unauthenticated().build().unwrap());
        Arc::new(builder.with_single_cert(chain, key).unwrap())
    }

    /// A server's port, and how many certificates each of its clients shows.
    fn server(clients: usize) -> (u16, JoinHandle<Vec<usize>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let config = server_config();
        let shown = move || {
            let shake = |mut socket| {
                let mut tls = ServerConnection::new(config.clone()).unwrap();
                tls.complete_io(&mut socket).unwrap();
                tls.peer_certificates().map_or(0, <[_]>::len)
            };
            listener.incoming().take(clients).map(|socket| shake(socket.unwrap())).collect()
        };
        (port, std::thread::spawn(shown))
    }

    #[tokio::test]
    async fn only_the_url_s_own_origin_is_shown_the_client_certificate() {
        let ((own, shown_to_own), (allowed, shown_to_allowed)) = (server(2), server(2));
        let url = |port: u16| format!("https://127.0.0.1:{port}/");
        let hosts = [AllowedHost { host: "127.0.0.1".to_owned(), port: Some(allowed) }];
        let (cert, key) = (fixture("client.pem").into(), fixture("client.key").into());
        let options = HostOptions {
            ca_certs: vec![fixture("ca.pem").into()],
            client_identity: Some(ClientIdentity { cert, key }),
            ..HostOptions::default()
        };
        let policy = Arc::new(Policy::new(&url(own), &hosts).unwrap());
        let proxies = Arc::new(Proxies::from_variables(&|_| None));
        let mut dialer = Dialer::new(policy, proxies, Tls::new(&options).unwrap(), Duration::from_secs(30));
        let mut open = Vec::new();
        // Both have the same name: a TLS session with one must not be resumed with the
        // other.
        for port in [own, allowed, own, allowed] {
            open.push(dialer.call(url(port).parse().unwrap()).await.unwrap());
        }
        assert_eq!(shown_to_own.join().unwrap(), [1, 1]);
        assert_eq!(shown_to_allowed.join().unwrap(), [0, 0]);
    }
}
