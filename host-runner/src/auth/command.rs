//! `login`, `logout`, `auth status` and `auth token`: the same logins as those of a running
//! proxy, by hand.

use ::http::HeaderMap;
use mcp_proxy_options::TokenStore;
use serde_json::json;

use super::{
    Authorizer, Inner, Origin,
    challenge::Challenge,
    login::{self, Login},
    store::{Entry, Store},
};

/// Logs in, even if there is a token already. `challenge` has the headers of the server's
/// refusal, if it refuses people without a token. Returns what to tell the person.
pub async fn login(authorizer: &Authorizer, challenge: Option<&HeaderMap>) -> Result<String, String> {
    let inner = &authorizer.0;
    let known = inner.store.load(&inner.name, inner.options.client_id.as_deref()).await;
    let used = known.and_then(|login| inner.token(login, Origin::Stored));
    let asks = challenge.is_some();
    let challenge = challenge.and_then(Challenge::of).unwrap_or_default();
    let token = inner.log_in(&challenge, None, used.as_ref()).await;
    let token = token.map_err(|text| match asks {
        true => text,
        false => format!("{} does not ask for a login: {text}", inner.name),
    })?;
    Ok(format!("logged in to {}{}", inner.name, until(token.login.expires)))
}

/// The token for the server, renewed if necessary.
pub async fn token(authorizer: &Authorizer) -> Result<String, String> {
    let name = &authorizer.0.name;
    let token = authorizer.token().await;
    let token = token.ok_or_else(|| format!("there is no login for {name}: run `mcp-proxy login {name}` first"))?;
    if token.login.expires.is_some_and(|expires| expires <= login::now()) {
        return Err(format!("the token has expired: run `mcp-proxy login {name}`"));
    }
    Ok(token.login.access.clone())
}

/// Revokes all logins for a server where its authorization server can do that, and removes
/// them from this machine.
pub async fn logout(authorizer: &Authorizer) -> Result<String, String> {
    let Inner { name, store, .. } = &*authorizer.0;
    let _lock = store.lock(name).await?;
    let mut failures = Vec::new();
    let logins = store.read(name).logins;
    for login in &logins {
        let whole = store.load(name, Some(&login.client.id)).await;
        failures.extend(authorizer.0.revoke(whole.as_ref().unwrap_or(login)).await.err());
        store.remove(name, login).await?;
    }
    Ok(match (logins.len(), failures.first()) {
        (0, _) => format!("there was no login for {name}"),
        (_, None) => format!("logged out of {name}: its tokens are revoked and no longer on this machine"),
        (_, Some(why)) => {
            format!("logged out of {name}: its tokens are no longer on this machine, but not revoked ({why})")
        }
    })
}

impl Inner {
    /// A refresh token takes the access tokens with it (RFC 7009, section 2.1).
    async fn revoke(&self, login: &Login) -> Result<(), String> {
        let asker = self.asker(&login.server, &login.client, &login.resource);
        match &login.refresh {
            Some(refresh) => asker.revoke(refresh, "refresh_token").await,
            None => asker.revoke(&login.access, "access_token").await,
        }
    }
}

/// Shows the logins, without their secrets.
pub fn status(json: bool, env: &dyn Fn(&str) -> Option<String>) -> Result<String, String> {
    let store = Store::new(TokenStore::Auto, env)?;
    let all = store.all();
    if json {
        let logins: Vec<_> = all.iter().flat_map(as_json).collect();
        return serde_json::to_string_pretty(&logins).map_err(|error| error.to_string());
    }
    if all.is_empty() {
        return Ok("no logins".to_owned());
    }
    Ok(all.iter().flat_map(as_text).collect::<Vec<_>>().join("\n"))
}

fn as_json(entry: &Entry) -> impl Iterator<Item = serde_json::Value> {
    entry.logins.iter().map(|login| {
        json!({
            "url": entry.url,
            "issuer": login.server.issuer,
            "client": login.client.id,
            "scope": login.scope(),
            "expires": login.expires,
            "refreshes": login.refresh.is_some() || login.access.is_empty(),
            "secrets": if login.access.is_empty() { "keychain" } else { "file" },
        })
    })
}

fn as_text(entry: &Entry) -> impl Iterator<Item = String> {
    entry.logins.iter().map(|login| {
        let scope = if login.scope().is_empty() { "no scopes by name" } else { login.scope() };
        let place = if login.access.is_empty() { "in the keychain" } else { "in a file" };
        let (issuer, client) = (&login.server.issuer, &login.client.id);
        format!("{}\n  by {issuer} for client {client}\n  {scope}{}\n  tokens {place}", entry.url, until(login.expires))
    })
}

/// When a token expires, seen from now.
fn until(expires: Option<u64>) -> String {
    let Some(expires) = expires else { return String::new() };
    match expires.checked_sub(login::now()) {
        None | Some(0) => ", expired (renewed at the next use if the server allows it)".to_owned(),
        Some(left) if left < 120 => format!(", for {left} more seconds"),
        Some(left) if left < 7200 => format!(", for {} more minutes", left / 60),
        Some(left) => format!(", for {} more hours", left / 3600),
    }
}
