//! What a revision of the protocol means: methods, versions, sessions. The
//! only rooms that know which era a peer speaks. Sockets and retries must not
//! enter.

mod held;
pub(crate) mod legacy;
mod step;

pub(crate) use step::{FromClient, FromServer, from_client, from_server};

use crate::wire::message::{self, Id};

/// What a method is to us. Everything else is relayed as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Initialize,
    Initialized,
    Cancelled,
    Progress,
    Ping,
    Plain,
}

/// A request of this method opens a session.
pub(crate) fn opens_session(method: &str) -> bool {
    role(method) == Role::Initialize
}

/// The role of a method.
fn role(method: &str) -> Role {
    match method {
        "initialize" => Role::Initialize,
        "notifications/initialized" => Role::Initialized,
        "notifications/cancelled" => Role::Cancelled,
        "notifications/progress" => Role::Progress,
        "ping" => Role::Ping,
        _ => Role::Plain,
    }
}

/// The versions with sessions, which are all that we serve to HTTP clients.
pub(crate) const VERSIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

/// Whether a POST may carry several messages.
pub(crate) fn batches(version: &str) -> bool {
    version == "2025-03-26"
}

/// Whether a client can read an event without data. Earlier ones take it for a
/// broken message.
pub(crate) fn primes(version: &str) -> bool {
    version >= "2025-11-25"
}

/// What the client is told after its session was replaced: whatever the server
/// says it would announce may have changed.
pub(crate) fn list_changes(initialized: &str) -> Vec<Vec<u8>> {
    let capabilities = message::member(initialized, "capabilities").unwrap_or_default();
    let announces = |list: &&str| {
        let list = message::member(capabilities, list).unwrap_or_default();
        message::member(list, "listChanged") == Some("true")
    };
    let lists = ["tools", "resources", "prompts"].into_iter().filter(announces);
    let notification = |list| format!("{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/{list}/list_changed\"}}");
    lists.map(|list| notification(list).into_bytes()).collect()
}

/// Sending such a request twice does no harm: it only reads, or opens a
/// session that can be abandoned.
fn repeatable(method: &str) -> bool {
    let reads = ["initialize", "ping", "prompts/get", "resources/read", "completion/complete", "server/discover"];
    method.ends_with("/list") || reads.contains(&method)
}

/// The token under which progress of this request will be reported.
pub(crate) fn progress_token(params: &str) -> Option<Id> {
    memchr::memmem::find(params.as_bytes(), b"progressToken")?;
    Id::parse(message::member(message::member(params, "_meta")?, "progressToken")?)
}

/// The token of a `notifications/progress`.
fn reported_token(params: &str) -> Option<Id> {
    Id::parse(message::member(params, "progressToken")?)
}

/// The request that a `notifications/cancelled` names.
fn cancelled_request(params: &str) -> Option<Id> {
    Id::parse(message::member(params, "requestId")?)
}

/// The notification that tells the server not to go on with a request.
fn cancelled(id: &Id) -> Vec<u8> {
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
    fn only_what_the_server_would_announce_is_announced() {
        let result =
            r#"{"capabilities":{"tools":{"listChanged":true},"prompts":{"listChanged":false},"resources":{}}}"#;
        assert_eq!(list_changes(result), [br#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#]);
        assert!(list_changes("{}").is_empty());
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
