//! The stored part of a session that outlives its object: enough to reopen the session.
//! It is in the object's storage and is deleted with the session.

use crate::shell::{Asker, Owner};
use bytes::Bytes;
use mcp_proxy_core::Snapshot;
use mcp_proxy_edge::session_id;
use serde::{Deserialize, Serialize};
use worker::{Result, State};

const KEY: &str = "session";
/// Since when the session has had no machine, in milliseconds.
const LEFT: &str = "left";

/// A session that can be reopened.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Kept {
    /// The public session id.
    pub(crate) session: String,
    /// The owner.
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

    /// Returns `None` for data from another version that is not readable.
    pub(crate) async fn load(state: &State) -> Result<Option<Self>> {
        let text: Option<String> = state.storage().get(KEY).await?;
        Ok(text.and_then(|text| serde_json::from_str(&text).ok()))
    }

    pub(crate) async fn save(&self, state: &State) -> Result<()> {
        state.storage().put(KEY, serde_json::to_string(self)?).await
    }
}

/// Since when the session has been without a machine; starts the count if there is none.
pub(crate) async fn left(state: &State, now: u64) -> Result<u64> {
    if let Some(since) = state.storage().get(LEFT).await? {
        return Ok(since);
    }
    state.storage().put(LEFT, now).await?;
    Ok(now)
}

/// The session has a machine again.
pub(crate) async fn returned(state: &State) -> Result<()> {
    state.storage().delete(LEFT).await.map(drop)
}

/// Deletes the session.
pub(crate) async fn forget(state: &State) -> Result<()> {
    state.storage().delete_alarm().await?;
    state.storage().delete_all().await
}
