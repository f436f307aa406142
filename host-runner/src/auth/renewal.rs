//! Renews a token without anybody's help: takes what another process has stored, or uses
//! the refresh token. A refresh token may be good only once, so all processes take turns,
//! and use the newest one.

use std::{sync::Arc, time::Instant};

use super::{
    Inner, Origin, Token, Turn,
    grant::{Lost, Refused},
    login::{self, Login},
    store,
};
use crate::note;

impl Inner {
    /// Renews a token that is about to expire; the old one may do for a moment if that
    /// fails.
    pub(super) async fn renew_early(&self, stale: Token) -> Token {
        let since = Instant::now();
        let mut turn = self.turn.lock().await;
        if let Some(newer) = self.newer(Some(&stale)) {
            return newer;
        }
        if turn.missed_since(since).is_some() {
            return stale;
        }
        match self.renew_once(&mut turn, &stale).await {
            Ok(Some(token)) => token,
            Ok(None) => stale,
            Err(text) => {
                note::http(&format!("the token could not be renewed: {text}"));
                stale
            }
        }
    }

    /// Renews a token, for all who wait for that.
    pub(super) async fn renew_once(&self, turn: &mut Turn, used: &Token) -> Result<Option<Token>, String> {
        let renewed = self.renew(used).await;
        turn.missed = renewed.as_ref().err().map(|text| (Instant::now(), text.clone()));
        renewed
    }

    /// A token in place of `used`, without anybody's help: one that another process has
    /// got, or by its refresh token. `None` if there is no other way than to log in.
    async fn renew(&self, used: &Token) -> Result<Option<Token>, String> {
        let _lock = self.lock_store().await?;
        // Only the stored login has the newest refresh token, even if its token has expired too.
        let (login, may_refresh) = match self.stored(Some(used)).await {
            Some(login) if !login.is_stale(login::now()) => return self.adopt(login, Origin::Stored).map(Some),
            Some(login) => (Arc::new(login), true),
            None => (used.login.clone(), used.may_refresh()),
        };
        let Some(refresh) = login.refresh.as_ref().filter(|_| may_refresh) else { return Ok(None) };
        login.secrets().for_each(|secret| self.mask.add(secret.as_bytes()));
        match self.asker(&login.server, &login.client, &login.resource).refresh(refresh).await {
            Ok(tokens) => self.keep(login.renewed(tokens), Origin::Refreshed).await.map(Some),
            Err(refused) => self.give_up(&login, refused).await.map(|()| None),
        }
    }

    /// Remembers that a refresh token is no longer good. The client may still be.
    async fn give_up(&self, login: &Login, refused: Refused) -> Result<(), String> {
        match refused.lost {
            None => return Err(refused.text),
            Some(Lost::Client) => self.store.remove(&self.name, login).await?,
            Some(Lost::Grant) => self.store.replace(&self.name, login, login.without_refresh()).await?,
        }
        self.adopt(login.without_refresh(), Origin::Stored)?;
        note::http(&format!("the refresh token is no longer good: {}", refused.text));
        Ok(())
    }

    /// The login that another process has put into the store, which may have expired.
    async fn stored(&self, used: Option<&Token>) -> Option<Login> {
        let login = self.store.load(&self.name, self.options.client_id.as_deref()).await?;
        let is_new = used.is_none_or(|used| used.login.access != login.access);
        Some(login).filter(|login| is_new && login.header().is_some())
    }

    /// The same, if it has not expired.
    pub(super) async fn fresh(&self, used: Option<&Token>) -> Option<Login> {
        self.stored(used).await.filter(|login| !login.is_stale(login::now()))
    }

    pub(super) async fn keep(&self, login: Login, origin: Origin) -> Result<Token, String> {
        self.store.save(&self.name, &login).await?;
        self.adopt(login, origin)
    }

    /// Waits for the store, perhaps while another process lets the person log in.
    pub(super) async fn lock_store(&self) -> Result<store::Lock, String> {
        self.wait_for("waiting for another mcp-proxy, which logs in or renews the token", self.store.lock(&self.name))
            .await
    }
}
