//! How the native program logs in at a protected server: the options of the group
//! Authorization and their combinations. No error text contains the client's secret.

use std::{fmt, path::PathBuf};

use http::Uri;

use crate::{
    UsageError,
    header::is_authorization,
    line::Given,
    parse::{Env, wrong},
};

/// How to get, and where to keep, tokens for the server.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct AuthOptions {
    pub grant: Grant,
    pub browser: Browser,
    pub client_id: Option<String>,
    pub client_secret: Option<String>,
    /// The https URL of a client-id metadata document.
    pub client_metadata: Option<String>,
    /// PEM file with the private key for `private_key_jwt`.
    pub key: Option<PathBuf>,
    /// Separated by single blanks; `None`: those that the server names.
    pub scope: Option<String>,
    pub callback_port: Option<u16>,
    pub store: TokenStore,
}

/// How to log in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Grant {
    /// In a browser, once the server asks for it.
    #[default]
    Auto,
    Browser,
    Device,
    ClientCredentials,
    /// Never: the client sees the refusal.
    Off,
}

/// Who shows the login page to the user.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Browser {
    /// The system's browser.
    #[default]
    Open,
    /// The user, who finds the URL on stderr.
    Print,
    /// A program and its arguments, never empty. The URL follows as the last one.
    Command(Vec<String>),
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TokenStore {
    /// The system's keychain if there is one, else a file.
    #[default]
    Auto,
    Keychain,
    File,
}

/// The options that fill [`AuthOptions`].
#[derive(Debug, Clone, Copy)]
pub(crate) enum Auth {
    Grant,
    NoBrowser,
    BrowserCommand,
    ClientId,
    ClientSecretEnv,
    ClientMetadata,
    Key,
    Scope,
    CallbackPort,
    Store,
}

impl AuthOptions {
    pub(crate) fn set(&mut self, key: Auth, given: &Given, env: Env<'_>) -> Result<(), UsageError> {
        let text = given.value.as_str();
        match key {
            Auth::Grant => self.grant = Grant::parse(text).ok_or_else(|| wrong(given, &one_of(&Grant::NAMES)))?,
            Auth::NoBrowser => self.show_in(Browser::Print)?,
            Auth::BrowserCommand => self.show_in(browser_command(given)?)?,
            Auth::ClientId => self.client_id = Some(text.to_owned()),
            Auth::ClientSecretEnv => self.client_secret = Some(secret(text, env)?),
            Auth::ClientMetadata => self.client_metadata = Some(metadata_url(given)?),
            Auth::Key => self.key = Some(text.into()),
            Auth::Scope => self.scope = Some(scope(given)?),
            Auth::CallbackPort => self.callback_port = Some(port(given)?),
            Auth::Store => {
                self.store = TokenStore::parse(text).ok_or_else(|| wrong(given, &one_of(&TokenStore::NAMES)))?
            }
        }
        Ok(())
    }

    /// Refuses combinations that cannot work.
    pub(crate) fn check(&self) -> Result<(), UsageError> {
        let headless = self.grant == Grant::ClientCredentials;
        let refused = [
            (
                self.client_secret.is_some() && self.client_id.is_none(),
                "--oauth-client-secret-env needs --oauth-client-id too: give both",
            ),
            (
                self.key.is_some() && (self.client_id.is_none() || !headless),
                "--oauth-key needs --oauth-client-id and --oauth-grant client-credentials too: give all three",
            ),
            (
                self.key.is_some() && self.client_secret.is_some(),
                "--oauth-key and --oauth-client-secret-env exclude each other: drop one",
            ),
            (
                self.client_id.is_some() && self.client_metadata.is_some(),
                "--oauth-client-id and --oauth-client-metadata exclude each other: drop one",
            ),
            (
                headless && self.client_secret.is_none() && self.key.is_none(),
                "--oauth-grant client-credentials needs --oauth-client-id, and --oauth-client-secret-env or --oauth-key",
            ),
        ];
        let found = refused.into_iter().find(|(refused, _)| *refused);
        found.map_or(Ok(()), |(_, text)| Err(UsageError::new(text)))
    }

    /// A user's own header says that the user does not want to log in.
    pub(crate) fn check_headers(&self, headers: &[(String, String)]) -> Result<(), UsageError> {
        let own = headers.iter().any(|(name, _)| is_authorization(name));
        match self.grant {
            Grant::Browser | Grant::Device | Grant::ClientCredentials if own => Err(UsageError::new(format!(
                "--oauth-grant {} and your own Authorization header exclude each other: drop one",
                self.grant.name()
            ))),
            Grant::Auto | Grant::Off | Grant::Browser | Grant::Device | Grant::ClientCredentials => Ok(()),
        }
    }

    fn show_in(&mut self, browser: Browser) -> Result<(), UsageError> {
        match (&self.browser, &browser) {
            (Browser::Print, Browser::Command(_)) | (Browser::Command(_), Browser::Print) => {
                Err(UsageError::new("--no-browser and --browser-command exclude each other: drop one"))
            }
            _ => {
                self.browser = browser;
                Ok(())
            }
        }
    }
}

/// Shows that there is a secret, not which.
impl fmt::Debug for AuthOptions {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("AuthOptions")
            .field("grant", &self.grant)
            .field("browser", &self.browser)
            .field("client_id", &self.client_id)
            .field("client_secret", &self.client_secret.as_ref().map(|_| "***"))
            .field("client_metadata", &self.client_metadata)
            .field("key", &self.key)
            .field("scope", &self.scope)
            .field("callback_port", &self.callback_port)
            .field("store", &self.store)
            .finish()
    }
}

impl Grant {
    const ALL: [Self; 5] = [Self::Auto, Self::Browser, Self::Device, Self::ClientCredentials, Self::Off];
    pub(crate) const NAMES: [&str; 5] = ["auto", "browser", "device", "client-credentials", "off"];

    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Browser => "browser",
            Self::Device => "device",
            Self::ClientCredentials => "client-credentials",
            Self::Off => "off",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|grant| grant.name() == text)
    }
}

impl TokenStore {
    const ALL: [Self; 3] = [Self::Auto, Self::Keychain, Self::File];
    pub(crate) const NAMES: [&str; 3] = ["auto", "keychain", "file"];

    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Keychain => "keychain",
            Self::File => "file",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|store| store.name() == text)
    }
}

fn browser_command(given: &Given) -> Result<Browser, UsageError> {
    let words: Vec<String> = given.value.split_whitespace().map(str::to_owned).collect();
    match words.is_empty() {
        true => Err(wrong(given, "a program and its arguments, separated by blanks")),
        false => Ok(Browser::Command(words)),
    }
}

fn secret(variable: &str, env: Env<'_>) -> Result<String, UsageError> {
    let secret = env(variable).filter(|secret| !secret.trim().is_empty());
    secret.map(|secret| secret.trim().to_owned()).ok_or_else(|| {
        UsageError::new(format!(
            "--oauth-client-secret-env: the variable {variable} is not set or empty: set it to the secret"
        ))
    })
}

/// The URL is the client's id, so it stays as it is (draft-ietf-oauth-client-id-metadata-document).
fn metadata_url(given: &Given) -> Result<String, UsageError> {
    let text = given.value.as_str();
    let uri: Option<Uri> = text.parse().ok();
    let fits = |uri: &Uri| {
        let host = uri.authority().is_some_and(|authority| !authority.as_str().contains('@'));
        uri.scheme_str() == Some("https") && host && uri.path() != "/" && !text.contains('#')
    };
    let fits = uri.as_ref().is_some_and(fits);
    let place = || UsageError::new("--oauth-client-metadata: expected a URL like https://host/client.json");
    fits.then(|| text.to_owned()).ok_or_else(place)
}

/// One or more scopes of RFC 6749 §3.3.
fn scope(given: &Given) -> Result<String, UsageError> {
    let words: Vec<&str> = given.value.split_whitespace().collect();
    let allowed = |byte: u8| byte.is_ascii_graphic() && byte != b'"' && byte != b'\\';
    let fits = !words.is_empty() && words.iter().all(|word| word.bytes().all(allowed));
    fits.then(|| words.join(" ")).ok_or_else(|| wrong(given, "scopes separated by blanks, like `read write`"))
}

fn port(given: &Given) -> Result<u16, UsageError> {
    let port = given.value.parse().ok().filter(|port| *port > 0);
    port.ok_or_else(|| wrong(given, "a number between 1 and 65535"))
}

fn one_of(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [others @ .., last] => format!("{} or {last}", others.join(", ")),
    }
}
