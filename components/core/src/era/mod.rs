//! What a revision of the protocol means: methods, versions, sessions. The
//! only rooms that know which era a peer speaks. Sockets and retries must not
//! enter.

pub(crate) mod legacy;

use crate::wire::message::{self, Id};

/// What a method is to us. Everything else is relayed as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Initialize,
    Initialized,
    Cancelled,
    Progress,
    Ping,
    Plain,
}

/// The role of a method.
pub(crate) fn role(method: &str) -> Role {
    match method {
        "initialize" => Role::Initialize,
        "notifications/initialized" => Role::Initialized,
        "notifications/cancelled" => Role::Cancelled,
        "notifications/progress" => Role::Progress,
        "ping" => Role::Ping,
        _ => Role::Plain,
    }
}

/// Sending such a request twice does no harm: it only reads, or opens a
/// session that can be abandoned.
pub(crate) fn repeatable(method: &str) -> bool {
    let reads = ["initialize", "ping", "prompts/get", "resources/read", "completion/complete", "server/discover"];
    method.ends_with("/list") || reads.contains(&method)
}

/// The token under which progress of this request will be reported.
pub(crate) fn progress_token(params: &str) -> Option<Id> {
    memchr::memmem::find(params.as_bytes(), b"progressToken")?;
    Id::parse(message::member(message::member(params, "_meta")?, "progressToken")?)
}

/// The token of a `notifications/progress`.
pub(crate) fn reported_token(params: &str) -> Option<Id> {
    Id::parse(message::member(params, "progressToken")?)
}

/// The request that a `notifications/cancelled` names.
pub(crate) fn cancelled_request(params: &str) -> Option<Id> {
    Id::parse(message::member(params, "requestId")?)
}

/// The notification that tells the server not to go on with a request.
pub(crate) fn cancelled(id: &Id) -> Vec<u8> {
    let params = format!("{{\"requestId\":{},\"reason\":\"timed out\"}}", id.text());
    format!("{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{params}}}").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_reading_methods_are_repeatable() {
        for method in ["tools/list", "resources/templates/list", "resources/read", "initialize", "prompts/get"] {
            assert!(repeatable(method), "{method}");
        }
        for method in ["tools/call", "resources/subscribe", "logging/setLevel", "tasks/result", "x"] {
            assert!(!repeatable(method), "{method}");
        }
    }

    #[test]
    fn tokens_and_ids_are_found_where_the_protocol_has_them() {
        let id = |text| Id::parse(text);
        assert_eq!(progress_token(r#"{"_meta":{"progressToken":0},"a":1}"#), id("0"));
        assert_eq!(progress_token(r#"{"progressToken":0}"#), None);
        assert_eq!(reported_token(r#"{"progressToken":"a","progress":1}"#), id("\"a\""));
        assert_eq!(cancelled_request(r#"{"requestId":7}"#), id("7"));
        assert_eq!(cancelled_request(""), None);
    }
}
