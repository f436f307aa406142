//! TLS: the system's roots plus `--ca-cert` (`trust`), and a client certificate, which
//! only the URL's own origin gets. The host reads the user's files at start, so that a
//! wrong path is a usage error. It loads the system's roots at the first https
//! connection, since that takes milliseconds.
//!
//! Each kind of peer has its own configuration, and with it its own store of TLS
//! sessions: a session opened with the client certificate is never resumed with another
//! peer.

use std::{
    path::Path,
    sync::{Arc, OnceLock},
};

use mcp_proxy_options::{ClientIdentity, HostOptions, UsageError};
use rustls::{
    ClientConfig, ConfigBuilder, RootCertStore,
    client::WantsClientCert,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};

use super::trust::Trust;
use crate::note;

#[derive(Clone)]
pub(super) struct Tls(Arc<Inner>);

struct Inner {
    extra_roots: Vec<CertificateDer<'static>>,
    identity: Option<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>,
    roots: OnceLock<Result<Arc<RootCertStore>, String>>,
    own: Config,
    allowed: Config,
    proxy: Config,
}

/// Built once, so that TLS sessions can be resumed.
type Config = OnceLock<Result<Arc<ClientConfig>, String>>;

/// The peer of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Peer {
    /// The URL's own origin: the only peer that gets the client certificate.
    Own,
    /// A host of `--allow-host`.
    Allowed,
    /// An https proxy: speaks HTTP/1.1.
    Proxy,
}

impl Tls {
    pub(super) fn new(options: &HostOptions) -> Result<Self, UsageError> {
        let mut extra_roots = Vec::new();
        for path in &options.ca_certs {
            extra_roots.extend(certificates("--ca-cert", path)?);
        }
        let identity = options.client_identity.as_ref().map(identity).transpose()?;
        let tls = Self(Arc::new(Inner {
            extra_roots,
            identity,
            roots: OnceLock::new(),
            own: Config::new(),
            allowed: Config::new(),
            proxy: Config::new(),
        }));
        if options.ca_certs.is_empty() && options.client_identity.is_none() {
            return Ok(tls);
        }
        // Check the user's files before anything else.
        match tls.config(Peer::Own) {
            Ok(_) => Ok(tls),
            Err(text) => Err(UsageError::new(text)),
        }
    }

    pub(super) fn config(&self, peer: Peer) -> Result<Arc<ClientConfig>, String> {
        let config = match peer {
            Peer::Own => &self.0.own,
            Peer::Allowed => &self.0.allowed,
            Peer::Proxy => &self.0.proxy,
        };
        config.get_or_init(|| self.0.build(peer).map(Arc::new)).clone()
    }
}

impl Inner {
    fn build(&self, peer: Peer) -> Result<ClientConfig, String> {
        let builder = self.trusting()?;
        let mut config = match (peer, &self.identity) {
            (Peer::Proxy, _) => return Ok(builder.with_no_client_auth()),
            (Peer::Allowed, _) | (Peer::Own, None) => builder.with_no_client_auth(),
            (Peer::Own, Some((chain, key))) => builder
                .with_client_auth_cert(chain.clone(), key.clone_key())
                .map_err(|error| format!("--client-cert and --client-key: {error}"))?,
        };
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(config)
    }

    /// A configuration that defines whom to trust.
    fn trusting(&self) -> Result<ConfigBuilder<ClientConfig, WantsClientCert>, String> {
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?;
        if self.extra_roots.is_empty() {
            return Ok(builder.with_root_certificates(self.roots()?));
        }
        let trust = Trust::new(self.roots()?, self.extra_roots.clone(), provider);
        let trust = trust.map_err(|error| format!("--ca-cert: {error}"))?;
        Ok(builder.dangerous().with_custom_certificate_verifier(Arc::new(trust)))
    }

    fn roots(&self) -> Result<Arc<RootCertStore>, String> {
        self.roots.get_or_init(|| self.load_roots().map(Arc::new)).clone()
    }

    fn load_roots(&self) -> Result<RootCertStore, String> {
        let mut roots = RootCertStore::empty();
        for root in &self.extra_roots {
            let added = roots.add(root.clone());
            added.map_err(|error| format!("--ca-cert: {error}"))?;
        }
        let system = rustls_native_certs::load_native_certs();
        roots.add_parsable_certificates(system.certs);
        if roots.is_empty() {
            note::http("no trusted certificates were found on this system: use --ca-cert");
        }
        Ok(roots)
    }
}

fn identity(files: &ClientIdentity) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), UsageError> {
    let chain = certificates("--client-cert", &files.cert)?;
    let key =
        PrivateKeyDer::from_pem_file(&files.key).map_err(|error| unreadable("--client-key", &files.key, &error))?;
    Ok((chain, key))
}

fn certificates(option: &str, path: &Path) -> Result<Vec<CertificateDer<'static>>, UsageError> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    let found: Vec<_> = read.map_err(|error| unreadable(option, path, &error))?;
    if found.is_empty() {
        return Err(unreadable(option, path, &"no PEM certificate inside"));
    }
    Ok(found)
}

fn unreadable(option: &str, path: &Path, cause: &dyn std::fmt::Display) -> UsageError {
    UsageError::new(format!("{option} {}: {cause}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unreadable_files_are_usage_errors_that_name_them() {
        let missing = HostOptions { ca_certs: vec!["/no/such/file".into()], ..HostOptions::default() };
        let error = Tls::new(&missing).err().unwrap().to_string();
        assert!(error.contains("--ca-cert /no/such/file"), "{error}");
        let not_pem = HostOptions {
            ca_certs: vec![concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml").into()],
            ..HostOptions::default()
        };
        let error = Tls::new(&not_pem).err().unwrap().to_string();
        assert!(error.contains("no PEM certificate"), "{error}");
    }

    #[test]
    fn the_client_certificate_is_for_the_own_origin_only() {
        let file = |name: &str| format!("{}/../tests/fixtures/tls/{name}", env!("CARGO_MANIFEST_DIR")).into();
        let identity = ClientIdentity { cert: file("client.pem"), key: file("client.key") };
        let tls = Tls::new(&HostOptions { client_identity: Some(identity), ..HostOptions::default() }).unwrap();
        for (peer, expected) in [(Peer::Own, true), (Peer::Allowed, false), (Peer::Proxy, false)] {
            let config = tls.config(peer).unwrap();
            assert_eq!(config.client_auth_cert_resolver.has_certs(), expected, "{peer:?}");
        }
    }

    #[test]
    fn a_server_is_offered_http_2_and_a_proxy_is_not() {
        let tls = Tls::new(&HostOptions::default()).unwrap();
        for server in [Peer::Own, Peer::Allowed] {
            let config = tls.config(server).unwrap();
            assert_eq!(config.alpn_protocols, [b"h2".to_vec(), b"http/1.1".to_vec()], "{server:?}");
        }
        assert!(tls.config(Peer::Proxy).unwrap().alpn_protocols.is_empty());
    }
}
