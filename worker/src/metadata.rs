//! The metadata of an endpoint (RFC 9728). Where the server decides about tokens, the server's
//! own metadata say who issues them. The edge asks at the server's own origin, without any
//! credentials, and remembers the answer for a while. What may be taken from it is decided in
//! `mcp-proxy-edge`.

use crate::answer;
use crate::edge::{Asked, Way, refuse};
use crate::learned;
use crate::platform;
use mcp_proxy_edge::Refusal;
use mcp_proxy_edge::resource::{self, Answer, LONGEST};
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::JsFuture;
use worker::Result;
use worker::js_sys::Uint8Array;

/// Answers a request for metadata.
pub(crate) async fn answer(way: &Way<'_>, asked: &Asked<'_>) -> Result<JsValue> {
    let edge = &way.settings.edge;
    let own = asked.head.resource(way.name);
    let write = |issuers| answer::whole(own.document(issuers, asked.head.origin)).map(answer::raw);
    if let Some(issuers) = edge.issuers() {
        return write(&issuers);
    }
    let server = edge.upstreams.get(way.name).map_or("", |config| config.url());
    let refusal = match described(way, server).await? {
        Answer::Found(described) if described.is_of(server, &own) => return write(&described.issuers),
        Answer::Found(_) | Answer::Absent => Refusal::NoMetadata,
        Answer::Failed => Refusal::MetadataFailed,
    };
    refuse(&refusal, asked).map(answer::raw)
}

/// What the server at this URL says about itself.
async fn described(way: &Way<'_>, server: &str) -> Result<Answer> {
    if let Some(known) = learned::described(way) {
        return Ok(known);
    }
    let mut answer = Answer::Absent;
    for place in resource::places(server) {
        answer = look_up(server, &place).await?;
        if answer != Answer::Absent {
            break;
        }
    }
    learned::describes(way, &answer);
    Ok(answer)
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is a status")]
async fn look_up(server: &str, place: &str) -> Result<Answer> {
    let found = JsFuture::from(platform::look_up(place, LONGEST as f64)).await?;
    Ok(match found.dyn_into::<Uint8Array>() {
        Ok(body) => resource::read(server, 200, &body.to_vec()),
        Err(status) => resource::read(server, status.as_f64().map_or(0, |status| status as u16), &[]),
    })
}
