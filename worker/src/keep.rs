//! What of a session outlives the object that serves it: enough to open it
//! again. It lies in the object's storage, and goes with the session.

use crate::shell::{Asker, Owner};
use bytes::Bytes;
use mcp_proxy_core::Snapshot;
use mcp_proxy_edge::session_id;
use serde::{Deserialize, Serialize};
use worker::{Result, State};

const KEY: &str = "session";
/// Since when the session has no machine, in milliseconds.
const LEFT: &str = "left";

/// A session that can be opened again.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Kept {
    /// Its public name.
    pub(crate) session: String,
    /// Whose it is.
    pub(crate) asker: Asker,
    /// Who counts the sessions of the client.
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

    /// Whether this is its public name.
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

    /// What another version has kept may not be readable; then there is nothing.
    pub(crate) async fn load(state: &State) -> Result<Option<Self>> {
        let text: Option<String> = state.storage().get(KEY).await?;
        Ok(text.and_then(|text| serde_json::from_str(&text).ok()))
    }

    pub(crate) async fn save(&self, state: &State) -> Result<()> {
        state.storage().put(KEY, serde_json::to_string(self)?).await
    }
}

/// Since when nobody has come back to the session: since now, if this was not asked before.
pub(crate) async fn left(state: &State, now: u64) -> Result<u64> {
    if let Some(since) = state.storage().get(LEFT).await? {
        return Ok(since);
    }
    state.storage().put(LEFT, now).await?;
    Ok(now)
}

/// Somebody has come back.
pub(crate) async fn returned(state: &State) -> Result<()> {
    state.storage().delete(LEFT).await.map(drop)
}

/// Forgets the session.
pub(crate) async fn forget(state: &State) -> Result<()> {
    state.storage().delete_alarm().await?;
    state.storage().delete_all().await
}
