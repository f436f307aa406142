//! The object's storage: what the next machine needs after a restart. It has the session,
//! so that the machine can open it again; the secret that signs the states of clients
//! without sessions; and the headers of the server's session, so that the machine can end
//! it. The storage is empty again when the session is over.

use crate::lines;
use crate::shell::{Asker, Owner};
use bytes::Bytes;
use http::{HeaderName, HeaderValue};
use mcp_proxy_core::Snapshot;
use mcp_proxy_edge::session_id;
use serde::{Deserialize, Serialize};
use worker::{Result, State};

const KEY: &str = "session";
const SIGNER: &str = "signer";
/// The headers of the session that is open at the server, as lines.
const OPEN: &str = "open";
/// The time since which the session has no machine, in milliseconds.
const LEFT: &str = "left";

/// The headers that name a session at the server.
pub(crate) type Headers = Vec<(HeaderName, HeaderValue)>;

/// A session that can be opened again.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Kept {
    /// Its public id.
    pub(crate) session: String,
    /// Its owner.
    pub(crate) asker: Asker,
    /// The object that counts the client's sessions.
    #[serde(default)]
    pub(crate) client: String,
    initialize: String,
    version: String,
    settings: Vec<String>,
}

impl Kept {
    pub(crate) fn new(owner: &Owner, known: &Snapshot) -> Self {
        let text = |bytes: &Bytes| String::from_utf8_lossy(bytes).into_owned();
        Self {
            session: owner.session.clone(),
            asker: owner.asker.clone(),
            client: owner.client.clone(),
            initialize: text(&known.initialize),
            version: known.version.clone(),
            settings: known.settings.iter().map(text).collect(),
        }
    }

    /// Whether this is its public id.
    pub(crate) fn is_called(&self, name: &str) -> bool {
        session_id::same(&self.session, name)
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        Snapshot {
            initialize: self.initialize.clone().into(),
            version: self.version.clone(),
            settings: self.settings.iter().map(|setting| setting.clone().into()).collect(),
        }
    }

    /// Returns nothing if another version has stored something unreadable.
    pub(crate) async fn load(state: &State) -> Result<Option<Self>> {
        let text: Option<String> = state.storage().get(KEY).await?;
        Ok(text.and_then(|text| serde_json::from_str(&text).ok()))
    }

    pub(crate) async fn save(&self, state: &State) -> Result<()> {
        state.storage().put(KEY, serde_json::to_string(self)?).await
    }
}

/// What an object for clients without sessions keeps: whose requests it serves, and the
/// secret that signs their states.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Signer {
    pub(crate) asker: Asker,
    pub(crate) states: String,
}

impl Signer {
    pub(crate) async fn load(state: &State) -> Result<Option<Self>> {
        let text: Option<String> = state.storage().get(SIGNER).await?;
        Ok(text.and_then(|text| serde_json::from_str(&text).ok()))
    }

    pub(crate) async fn save(&self, state: &State) -> Result<()> {
        state.storage().put(SIGNER, serde_json::to_string(self)?).await
    }
}

/// The headers of the session that a lost machine has left open at the server.
pub(crate) async fn open(state: &State) -> Result<Headers> {
    let lines: Option<String> = state.storage().get(OPEN).await?;
    let headers = lines::read(&lines.unwrap_or_default());
    Ok(headers.into_iter().filter_map(|(name, value)| Some((name?, value))).collect())
}

/// Stores these headers; none once the session is over.
pub(crate) async fn save_open(state: &State, open: Headers) -> Result<()> {
    if open.is_empty() {
        return state.storage().delete(OPEN).await.map(drop);
    }
    state.storage().put(OPEN, lines::write(&open.into_iter().collect())).await
}

/// Returns the time at which the client left; now, if nobody has asked before.
pub(crate) async fn left(state: &State, now: u64) -> Result<u64> {
    if let Some(since) = state.storage().get(LEFT).await? {
        return Ok(since);
    }
    state.storage().put(LEFT, now).await?;
    Ok(now)
}

/// A client has come back.
pub(crate) async fn returned(state: &State) -> Result<()> {
    state.storage().delete(LEFT).await.map(drop)
}

/// Forgets the session.
pub(crate) async fn forget(state: &State) -> Result<()> {
    state.storage().delete_alarm().await?;
    state.storage().delete_all().await
}
