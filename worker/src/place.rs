//! The place of a session among those of its client, which are counted. It is
//! taken for a while, kept as long as the session lives, and given back when the
//! machine ends. If that is not heard, its time runs out.

use crate::platform;
use crate::settings::Limits;
use crate::shell::log;
use wasm_bindgen_futures::{JsFuture, spawn_local};
use worker::Env;

/// A place, taken or not.
pub(crate) struct Place {
    env: Env,
    client: String,
    session: String,
    most: f64,
    /// For how many milliseconds it is taken: a session looks around more often.
    lease: f64,
}

impl Place {
    /// The place of an object among the sessions that `client` counts.
    pub(crate) fn new(env: &Env, client: &str, session: &str, limits: &Limits) -> Option<Self> {
        if client.is_empty() || limits.sessions == 0 {
            return None;
        }
        let (client, session) = (client.to_owned(), session.to_owned());
        let lease = 3.0 * limits.alarm.as_secs_f64() * 1000.0;
        Some(Self { env: env.clone(), client, session, most: limits.sessions as f64, lease })
    }

    /// Takes it; says whether there was one. A count that fails keeps nobody out.
    pub(crate) async fn take(&self) -> bool {
        let taken = platform::enter(self.env.as_ref(), &self.client, &self.session, self.most, self.lease);
        let taken = JsFuture::from(taken).await;
        if let Err(error) = &taken {
            log("error", "SESSION", &format!("the sessions of a client could not be counted: {error:?}"));
        }
        taken.map_or(true, |taken| taken.is_truthy())
    }

    /// Keeps it for another while.
    pub(crate) fn keep(&self) {
        let kept = platform::enter(self.env.as_ref(), &self.client, &self.session, f64::INFINITY, self.lease);
        spawn_local(async move { drop(JsFuture::from(kept).await) });
    }

    /// Gives it back.
    pub(crate) fn leave(&self) {
        drop(platform::leave(self.env.as_ref(), &self.client, &self.session));
    }
}
