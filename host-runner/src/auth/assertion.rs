//! Proves a client by its private key (`private_key_jwt`: RFC 7523, section 2.2; `OpenID`
//! Connect Core, section 9).

use std::{fs, path::Path, time::SystemTime};

use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use mcp_proxy_options::UsageError;
use serde::Serialize;

/// The type of such an assertion.
pub(crate) const TYPE: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

/// How long an assertion is good, in seconds.
const LIFETIME: u64 = 120;

/// A private key and its algorithm.
pub(crate) struct Signer {
    key: EncodingKey,
    algorithm: Algorithm,
}

#[derive(Serialize)]
struct Claims<'a> {
    iss: &'a str,
    sub: &'a str,
    aud: &'a str,
    iat: u64,
    exp: u64,
    jti: String,
}

impl Signer {
    /// Reads a PEM file with a key of RSA, of the curve P-256 or P-384, or of Ed25519.
    pub(crate) fn read(path: &Path) -> Result<Self, UsageError> {
        let shown = path.display();
        let pem = fs::read(path).map_err(|error| UsageError::new(format!("--oauth-key {shown}: {error}")))?;
        Self::from_pem(&pem).ok_or_else(|| {
            UsageError::new(format!(
                "--oauth-key {shown}: no private key of RSA, P-256, P-384 or Ed25519 in PKCS#8 PEM"
            ))
        })
    }

    fn from_pem(pem: &[u8]) -> Option<Self> {
        type Read = fn(&[u8]) -> jsonwebtoken::errors::Result<EncodingKey>;
        let kinds: [(Read, Algorithm); 4] = [
            (EncodingKey::from_rsa_pem, Algorithm::RS256),
            (EncodingKey::from_ec_pem, Algorithm::ES256),
            (EncodingKey::from_ec_pem, Algorithm::ES384),
            (EncodingKey::from_ed_pem, Algorithm::EdDSA),
        ];
        let signers = kinds.into_iter().filter_map(|(read, algorithm)| Some(Self { key: read(pem).ok()?, algorithm }));
        // A key of another curve can be read, but does not sign.
        signers.into_iter().find(|signer| signer.assertion("", "").is_ok())
    }

    /// An assertion that this client may use once at this server.
    pub(crate) fn assertion(&self, client: &str, audience: &str) -> Result<String, String> {
        let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().as_secs();
        let jti = oauth2::CsrfToken::new_random().into_secret();
        let claims = Claims { iss: client, sub: client, aud: audience, iat: now, exp: now + LIFETIME, jti };
        encode(&Header::new(self.algorithm), &claims, &self.key)
            .map_err(|error| format!("the key does not sign: {error}"))
    }
}
