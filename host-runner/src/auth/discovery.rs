//! Finds out who issues tokens for a server: fetches the metadata of the resource, then
//! that of its authorization server (MCP 2026-07-28, "Authorization Server Discovery"),
//! and refuses metadata that does not belong together. `metadata` knows the places and
//! the rules.

use serde::de::DeserializeOwned;
use url::Url;

use super::metadata::{self, Resource, Server};
use crate::http::Web;

/// What is known of a protected server before anybody logs in.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    pub(crate) server: Server,
    /// Missing at servers of 2025-03-26.
    pub(crate) resource: Option<Resource>,
}

/// Finds the authorization server for the MCP server at `url`. `named` is the place of
/// the resource's metadata, if a challenge names it.
pub(crate) async fn find(web: &Web, url: &Url, named: Option<&str>) -> Result<Found, String> {
    if !metadata::is_private(url) {
        return Err(format!("{url} is not https: a token would be readable on the way"));
    }
    let named = named.map(|text| place(text, url)).transpose()?;
    let Some(resource) = resource(web, url, named.as_ref()).await? else {
        return Ok(Found { server: by_origin(web, url).await?, resource: None });
    };
    if !resource.covers(url) {
        return Err(format!(
            "the server's metadata is about another resource, {}: a token for that one must not come here",
            resource.resource
        ));
    }
    let issuer = resource.authorization_servers.first();
    let issuer = issuer.ok_or("the server's metadata names no authorization server (authorization_servers)")?;
    let server = server(web, issuer).await?;
    let server = server.ok_or_else(|| format!("the authorization server {issuer} publishes no metadata"))?;
    Ok(Found { server, resource: Some(resource) })
}

/// The place that a challenge names. A remote server must not make us ask this machine.
fn place(text: &str, server: &Url) -> Result<Url, String> {
    let place = Url::parse(text).map_err(|_invalid| format!("resource_metadata `{text}` is not a URL"))?;
    let allowed = place.origin() == server.origin()
        || (metadata::is_private(&place) && (metadata::is_loopback(server) || !metadata::is_loopback(&place)));
    match allowed {
        true => Ok(place),
        false => Err(format!("the challenge names metadata at {text}, which is neither https nor at the server")),
    }
}

async fn resource(web: &Web, url: &Url, named: Option<&Url>) -> Result<Option<Resource>, String> {
    for place in metadata::resource_places(url, named) {
        if let Some(resource) = document(web, &place).await? {
            return Ok(Some(resource));
        }
    }
    match named {
        Some(place) => Err(format!("the server's metadata is not at {place}, where its challenge says")),
        None => Ok(None),
    }
}

/// The metadata of this issuer.
async fn server(web: &Web, issuer: &str) -> Result<Option<Server>, String> {
    let url = Url::parse(issuer).map_err(|_invalid| format!("the authorization server `{issuer}` is not a URL"))?;
    if !metadata::is_private(&url) {
        return Err(format!("the authorization server {issuer} is not https: secrets would be readable on the way"));
    }
    for place in metadata::server_places(&url) {
        let Some(server) = document::<Server>(web, &place).await? else { continue };
        if server.issuer != issuer {
            return Err(format!("the metadata at {place} is of another issuer: {} instead of {issuer}", server.issuer));
        }
        return Ok(Some(server));
    }
    Ok(None)
}

/// A server of 2025-03-26 is its own authorization server.
async fn by_origin(web: &Web, url: &Url) -> Result<Server, String> {
    let origin = url.join("/").map_err(|error| error.to_string())?;
    for place in metadata::server_places(&origin) {
        if let Some(server) = document::<Server>(web, &place).await? {
            return Ok(server);
        }
    }
    Ok(Server::by_convention(&origin))
}

/// The document at a place; `None` if there is none.
async fn document<T: DeserializeOwned>(web: &Web, place: &Url) -> Result<Option<T>, String> {
    let (status, body) = web.get(place).await?;
    if status.is_server_error() {
        return Err(format!("{place} answered {status}"));
    }
    if !status.is_success() {
        return Ok(None);
    }
    // Many servers answer every unknown path with their start page.
    let Ok(value) = serde_json::from_slice::<serde_json::Value>(&body) else { return Ok(None) };
    serde_json::from_value(value).map(Some).map_err(|error| format!("the metadata at {place} is not usable: {error}"))
}
