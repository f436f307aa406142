//! A session's place among the counted sessions of its client. The session leases a
//! place, renews the lease while it lives, and releases it when its machine ends. If the
//! release gets lost, the lease expires.

use crate::platform;
use crate::settings::Limits;
use crate::shell::log;
use wasm_bindgen_futures::{JsFuture, spawn_local};
use worker::Env;

/// A place, leased or not.
pub(crate) struct Place {
    env: Env,
    client: String,
    session: String,
    most: f64,
    /// The lease in milliseconds; three times the interval at which the session renews
    /// it.
    lease: f64,
    /// Who counts the session once the server has admitted the client.
    admitted: Option<String>,
}

impl Place {
    /// The place of an object among the sessions that `client` counts.
    pub(crate) fn new(env: &Env, client: &str, session: &str, limits: &Limits) -> Option<Self> {
        if client.is_empty() || limits.sessions == 0 {
            return None;
        }
        let (client, session) = (client.to_owned(), session.to_owned());
        let lease = 3.0 * limits.alarm.as_secs_f64() * 1000.0;
        Some(Self { env: env.clone(), client, session, most: limits.sessions as f64, lease, admitted: None })
    }

    /// The place moves to those of this principal when the server has admitted it. Until
    /// then its credentials may be made up, and it must not count as a client of its own.
    pub(crate) fn until_admitted(mut self, principal: &str) -> Self {
        let counter =
            Some(principal).filter(|name| !name.is_empty()).map(|name| platform::counter(self.env.as_ref(), name));
        self.admitted = counter.filter(|counter| *counter != self.client);
        self
    }

    /// The server has admitted the client. Returns who counts the session now, if that
    /// changes. The client may have as many sessions as it may: this one is open already.
    pub(crate) fn admitted(&mut self) -> Option<&str> {
        let client = self.admitted.take()?;
        self.leave();
        self.client = client;
        self.keep();
        Some(&self.client)
    }

    /// Leases the place. Returns whether one was free. If counting fails, admit the
    /// session.
    pub(crate) async fn take(&self) -> bool {
        let taken = platform::enter(self.env.as_ref(), &self.client, &self.session, self.most, self.lease);
        let taken = JsFuture::from(taken).await;
        if let Err(error) = &taken {
            log("error", "SESSION", &format!("the sessions of a client could not be counted: {error:?}"));
        }
        taken.map_or(true, |taken| taken.is_truthy())
    }

    /// Renews the lease.
    pub(crate) fn keep(&self) {
        let kept = platform::enter(self.env.as_ref(), &self.client, &self.session, f64::INFINITY, self.lease);
        spawn_local(async move { drop(JsFuture::from(kept).await) });
    }

    /// Releases the place.
    pub(crate) fn leave(&self) {
        drop(platform::leave(self.env.as_ref(), &self.client, &self.session));
    }
}
