//! What a shell with several machines must know about a modern request before it chooses
//! one. The machine checks the request again.

use super::check::{self, Checked};
use crate::era::mirror;
use crate::era::modern::capabilities::Needed;
use crate::era::modern::envelope::Envelope;
use crate::era::modern::rounds::Retry;
use crate::wire::message::{self, Kind, Parsed};
use http::HeaderMap;
use serde_json::Value;

/// A request of revision 2026-07-28.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModernRequest {
    /// The client's capabilities, in one spelling. Requests with other capabilities need
    /// another session with a legacy server.
    pub capabilities: String,
    /// The place of the machine that has parked this request.
    pub parked: Option<String>,
    /// The server may ask the client something in this request, or tell it something that
    /// does not say to which request it belongs. Over HTTP+SSE, two such requests need two
    /// sessions.
    pub exclusive: bool,
}

impl ModernRequest {
    /// Reads a POST. `None` if it is not a modern request, or a machine would refuse it.
    #[must_use]
    pub fn read(headers: &HeaderMap, body: &[u8]) -> Option<Self> {
        let Ok(Parsed::One(message)) = message::parse(body.to_vec()) else { return None };
        if !check::is_modern(headers, &message) {
            return None;
        }
        let tools = mirror::Table::default();
        let Ok(Checked::Request { capabilities, .. }) = check::check(headers, &message, &tools) else { return None };
        let Kind::Request { method, .. } = &message.kind else { return None };
        let asks = [Needed::FormElicitation, Needed::UrlElicitation, Needed::Sampling, Needed::Roots];
        let asks = asks.into_iter().any(|need| need.is_in(capabilities));
        let logs = Envelope::read(message.params()).ok().flatten().is_some_and(|envelope| envelope.log_level.is_some());
        let state = Retry::read(message.params()).ok().flatten().and_then(|retry| retry.state);
        let place = state.as_deref().and_then(|state| state.split_once('.')).map(|(place, _)| place.to_owned());
        let value: Value = serde_json::from_str(capabilities).ok()?;
        Some(Self {
            capabilities: value.to_string(),
            parked: place.filter(|place| !place.is_empty()),
            exclusive: (asks || logs) && !crate::era::lasts(method),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(method: &str, params: &str, capabilities: &str, meta: &str) -> Option<ModernRequest> {
        let headers = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", method)];
        let headers = headers.map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
        let version = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28""#;
        let meta = format!(r#"{{{version},"io.modelcontextprotocol/clientCapabilities":{capabilities}{meta}}}"#);
        let body = format!(r#"{{"jsonrpc":"2.0","id":7,"method":"{method}","params":{{{params}"_meta":{meta}}}}}"#);
        ModernRequest::read(&headers.into_iter().collect(), body.as_bytes())
    }

    #[test]
    fn requests_are_told_apart_by_what_their_session_must_be() {
        let plain = read("tools/list", "", r#"{"b":{}, "a":{}}"#, "").unwrap();
        assert_eq!(
            plain,
            ModernRequest { capabilities: r#"{"a":{},"b":{}}"#.to_owned(), parked: None, exclusive: false }
        );
        for (method, capabilities, meta) in [
            ("tools/list", r#"{"elicitation":{}}"#, ""),
            ("tools/list", r#"{"sampling":{}}"#, ""),
            ("tools/list", r#"{"roots":{}}"#, ""),
            ("tools/list", "{}", r#","io.modelcontextprotocol/logLevel":"info""#),
        ] {
            assert!(read(method, "", capabilities, meta).unwrap().exclusive, "{method} {capabilities} {meta}");
        }
        assert!(!read("subscriptions/listen", "", r#"{"roots":{}}"#, "").unwrap().exclusive);
        let parked =
            |state: &str| read("tools/list", &format!(r#""requestState":"{state}","#), "{}", "").unwrap().parked;
        assert_eq!(parked("place.1.2.x").as_deref(), Some("place"));
        assert_eq!(parked("again"), None);
        assert_eq!(parked(".1.2.x"), None);
        assert_eq!(read("ping", "", "{}", ""), None);
        assert_eq!(ModernRequest::read(&HeaderMap::new(), b"{}"), None);
    }
}
