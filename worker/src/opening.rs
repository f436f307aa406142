//! Handles a request that names no session. A throwaway machine decides: either the
//! request opens a session, or this module refuses it with the same response as a session
//! would, without creating a Durable Object.

use crate::answer;
use crate::machine::tell_of;
use crate::shell::now;
use http::response::Parts;
use http::{HeaderMap, HeaderValue, Method};
use mcp_proxy_core::{ClientTransport, Config, ExchangeId, HttpTransport, Input, Output, Proxy, Time};
use mcp_proxy_edge::cors;
use worker::{Response, Result};

/// A refusal: its head and body.
#[derive(Debug)]
pub(crate) struct Refusal {
    parts: Parts,
    body: Vec<u8>,
}

impl Refusal {
    /// Why to refuse the POST of a client without a session, if so.
    pub(crate) fn of(config: &Config, headers: HeaderMap, body: Vec<u8>, verbose: bool) -> Option<Self> {
        let (mut said, mut begun, mut notes) = (Vec::new(), None, Vec::new());
        let mut proxy = asked(config, headers, body);
        while let Some(output) = proxy.poll() {
            match output {
                Output::Respond(_, parts) => begun = Some(parts),
                Output::Send(_, bytes) => said.extend_from_slice(&bytes),
                Output::Note(note) => notes.push(note),
                Output::Write(..)
                | Output::Call(..)
                | Output::Cancel(_)
                | Output::Finish(_)
                | Output::Abort(_)
                | Output::Snapshot(_)
                | Output::Exit(_) => {}
            }
        }
        let parts = begun?;
        notes.iter().for_each(|note| tell_of(note, verbose, 0));
        Some(Self { parts, body: said })
    }

    pub(crate) fn response(self, origin: Option<&str>) -> Result<Response> {
        let mut parts = self.parts;
        cors::share(&mut parts.headers, origin);
        answer::whole(http::Response::from_parts(parts, self.body))
    }
}

/// A throwaway machine that has handled this request.
fn asked(config: &Config, headers: HeaderMap, body: Vec<u8>) -> Proxy {
    let mut config = config.clone();
    config.client = ClientTransport::Http(HttpTransport::new(HeaderValue::from_static("none")));
    let now = Time(now());
    let mut proxy = Proxy::new(&config, 0, now);
    let mut parts = http::Request::new(()).into_parts().0;
    (parts.method, parts.headers) = (Method::POST, headers);
    proxy.handle(now, Input::Request(ExchangeId(0), parts, body.into()));
    proxy
}
