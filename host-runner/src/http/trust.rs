//! Which certificate a server may show: one issued by a trusted authority, as rustls' own
//! verifier decides, or exactly one that the user gave with `--ca-cert`. `openssl req
//! -x509` makes a self-signed certificate that is a CA, which the ordinary verifier never
//! accepts from a server. curl, Node.js and Python accept it if it is in the CA file,
//! since the user vouches for it.
//!
//! In both cases the host checks the name, the dates and the signature of the handshake.

use std::sync::Arc;

use rustls::{
    CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    client::{
        VerifierBuilderError, WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        verify_server_cert_signed_by_trust_anchor, verify_server_name,
    },
    crypto::CryptoProvider,
    pki_types::{CertificateDer, ServerName, UnixTime},
    server::ParsedCertificate,
};

#[derive(Debug)]
pub(super) struct Trust {
    ordinary: Arc<WebPkiServerVerifier>,
    given: Vec<CertificateDer<'static>>,
}

impl Trust {
    /// `given` are the user's certificates, which `roots` contains too.
    pub(super) fn new(
        roots: Arc<RootCertStore>,
        given: Vec<CertificateDer<'static>>,
        provider: Arc<CryptoProvider>,
    ) -> Result<Self, VerifierBuilderError> {
        let ordinary = WebPkiServerVerifier::builder_with_provider(roots, provider).build()?;
        Ok(Self { ordinary, given })
    }
}

impl ServerCertVerifier for Trust {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if !self.given.iter().any(|given| given == shown) {
            return self.ordinary.verify_server_cert(shown, intermediates, name, ocsp, now);
        }
        let certificate = ParsedCertificate::try_from(shown)?;
        check_dates(&certificate, now)?;
        verify_server_name(&certificate, name)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.ordinary.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.ordinary.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.ordinary.supported_verify_schemes()
    }
}

/// Checks the dates. rustls checks them only while it looks for an issuer, before
/// everything else. Without any issuer it always fails; these two errors show that the
/// dates were right.
fn check_dates(certificate: &ParsedCertificate<'_>, now: UnixTime) -> Result<(), Error> {
    let nobody = RootCertStore::empty();
    match verify_server_cert_signed_by_trust_anchor(certificate, &nobody, &[], now, &[]) {
        Err(error) if is_ca(&error) || error == CertificateError::UnknownIssuer.into() => Ok(()),
        checked => checked,
    }
}

/// The server's certificate is a CA. rustls has no name for this webpki error; if its
/// spelling changes, the host refuses such certificates.
pub(super) fn is_ca(error: &Error) -> bool {
    let Error::InvalidCertificate(CertificateError::Other(cause)) = error else { return false };
    cause.to_string() == "CaUsedAsEndEntity"
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rustls::{
        ClientConfig, ClientConnection, ServerConfig, ServerConnection, SupportedProtocolVersion,
        crypto::ring,
        pki_types::{PrivateKeyDer, pem::PemObject as _},
        sign::{CertifiedKey, SingleCertAndKey},
        version::{TLS12, TLS13},
    };

    use super::*;

    /// Before, during and after the validity of the certificates.
    const EARLY: u64 = 1_700_000_000;
    const NOW: u64 = 1_900_000_000;
    const LATE: u64 = 5_000_000_000;

    fn fixture(name: &str) -> String {
        format!("{}/../tests/fixtures/tls/{name}", env!("CARGO_MANIFEST_DIR"))
    }

    fn certificate(name: &str) -> CertificateDer<'static> {
        CertificateDer::from_pem_file(fixture(&format!("{name}.pem"))).unwrap()
    }

    fn trust(given: &str) -> Trust {
        let mut roots = RootCertStore::empty();
        roots.add(certificate(given)).unwrap();
        Trust::new(roots.into(), vec![certificate(given)], ring::default_provider().into()).unwrap()
    }

    #[test]
    fn a_given_certificate_is_accepted_for_its_names_and_while_it_is_valid() {
        let own = "127.0.0.1";
        let cases = [
            ("self-signed", "self-signed", own, NOW, "accepted"),
            ("self-signed", "self-signed", "localhost", NOW, "not valid for name"),
            ("self-signed", "self-signed", "127.0.0.2", NOW, "not valid for name"),
            ("self-signed", "self-signed", own, EARLY, "not valid yet"),
            ("self-signed", "self-signed", own, LATE, "expired"),
            ("expired", "expired", own, NOW, "expired"),
            ("self-signed", "renewed", own, NOW, "CaUsedAsEndEntity"),
            ("ca", "self-signed", own, NOW, "CaUsedAsEndEntity"),
            // The user may also give a certificate from an unknown authority.
            ("server", "server", "localhost", NOW, "accepted"),
            ("server", "server", "other.example", NOW, "not valid for name"),
            ("server", "server", own, LATE, "expired"),
            ("client", "server", own, NOW, "UnknownIssuer"),
            // The ordinary verifier decides about all others.
            ("ca", "server", own, NOW, "accepted"),
            ("ca", "server", "other.example", NOW, "not valid for name"),
            ("ca", "ca", own, NOW, "not valid for name"),
        ];
        for (given, shown, name, now, expected) in cases {
            let (name, now) = (name.try_into().unwrap(), UnixTime::since_unix_epoch(Duration::from_secs(now)));
            let verdict = trust(given).verify_server_cert(&certificate(shown), &[], &name, &[], now);
            let verdict = verdict.map_or_else(|error| error.to_string(), |_| "accepted".to_owned());
            assert!(verdict.contains(expected), "{given} {shown} {name:?} {now:?}: {verdict}");
        }
    }

    /// The result of a handshake between a client that trusts `self-signed` and a server
    /// with this key.
    fn handshake(key: &str, version: &'static SupportedProtocolVersion) -> Result<(), Error> {
        let provider = Arc::new(ring::default_provider());
        let key = PrivateKeyDer::from_pem_file(fixture(key)).unwrap();
        let key = provider.key_provider.load_private_key(key).unwrap();
        let certified = SingleCertAndKey::from(CertifiedKey::new(vec![certificate("self-signed")], key));
        let server = ServerConfig::builder_with_provider(provider.clone()).with_protocol_versions(&[version]).unwrap();
        let server = server.with_no_client_auth().with_cert_resolver(Arc::new(certified));
        let client = ClientConfig::builder_with_provider(provider).with_protocol_versions(&[version]).unwrap();
        let client = client.dangerous().with_custom_certificate_verifier(Arc::new(trust("self-signed")));
        let client = Arc::new(client.with_no_client_auth());
        let mut client = ClientConnection::new(client, "127.0.0.1".try_into().unwrap()).unwrap();
        let mut server = ServerConnection::new(server.into()).unwrap();
        while client.is_handshaking() {
            let mut bytes = Vec::new();
            client.write_tls(&mut bytes).unwrap();
            server.read_tls(&mut &bytes[..]).unwrap();
            server.process_new_packets()?;
            let mut bytes = Vec::new();
            server.write_tls(&mut bytes).unwrap();
            client.read_tls(&mut &bytes[..]).unwrap();
            client.process_new_packets()?;
        }
        Ok(())
    }

    #[test]
    fn whoever_shows_a_given_certificate_must_have_its_key() {
        for version in [&TLS12, &TLS13] {
            assert_eq!(handshake("self-signed.key", version), Ok(()), "{version:?}");
            let refused = handshake("server.key", version);
            assert_eq!(refused, Err(CertificateError::BadSignature.into()), "{version:?}");
        }
    }
}
