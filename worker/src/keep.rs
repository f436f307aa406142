//! What of a session outlives the object that serves it: enough to open it
//! again. It lies in the object's storage, and goes with the session.

use bytes::Bytes;
use mcp_proxy_core::Keepsake;
use serde::{Deserialize, Serialize};
use worker::{Result, State};

const KEY: &str = "session";
const IDLE_SINCE: &str = "idle-since";

/// A session that can be opened again.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Kept {
    /// Its public name.
    pub(crate) session: String,
    pub(crate) upstream: String,
    /// Whose it is.
    pub(crate) principal: String,
    initialize: String,
    version: String,
    settings: Vec<String>,
}

impl Kept {
    pub(crate) fn new(session: &str, upstream: &str, principal: &str, known: &Keepsake) -> Self {
        let text = |bytes: &Bytes| String::from_utf8_lossy(bytes).into_owned();
        Self {
            session: session.to_owned(),
            upstream: upstream.to_owned(),
            principal: principal.to_owned(),
            initialize: text(&known.initialize),
            version: known.version.clone(),
            settings: known.settings.iter().map(text).collect(),
        }
    }

    pub(crate) fn keepsake(&self) -> Keepsake {
        Keepsake {
            initialize: self.initialize.clone().into(),
            version: self.version.clone(),
            settings: self.settings.iter().map(|setting| setting.clone().into()).collect(),
        }
    }

    pub(crate) async fn load(state: &State) -> Result<Option<Self>> {
        state.storage().get(KEY).await
    }

    pub(crate) async fn save(&self, state: &State) -> Result<()> {
        state.storage().put(KEY, self).await
    }
}

/// Since when nobody has needed the object; from now on, if that was not known.
pub(crate) async fn idle_since(state: &State, now: u64) -> Result<u64> {
    if let Some(since) = state.storage().get(IDLE_SINCE).await? {
        return Ok(since);
    }
    state.storage().put(IDLE_SINCE, now).await?;
    Ok(now)
}

/// The object is needed again.
pub(crate) async fn used(state: &State) -> Result<()> {
    state.storage().delete(IDLE_SINCE).await.map(drop)
}

/// Forgets the session.
pub(crate) async fn forget(state: &State) -> Result<()> {
    state.storage().delete_alarm().await?;
    state.storage().delete_all().await
}
