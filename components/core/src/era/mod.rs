//! The meaning of a protocol revision: methods, versions, sessions. Only these modules
//! know which era a peer speaks. Sockets and retries do not belong here.

mod held;
pub(crate) mod legacy;
mod step;

pub(crate) use step::{FromClient, FromServer, from_client, from_server};

use crate::wire::message::{self, Id};

/// The methods that the proxy handles itself. It relays all others unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Initialize,
    Initialized,
    Cancelled,
    Progress,
    Ping,
    Plain,
}

/// Whether a request with this method opens a session.
pub(crate) fn opens_session(method: &str) -> bool {
    role(method) == Role::Initialize
}

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

/// The versions with sessions. HTTP clients can use only these.
pub(crate) const VERSIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

/// Whether a POST may carry a batch.
pub(crate) fn batches(version: &str) -> bool {
    version == "2025-03-26"
}

/// Whether a client can read an event without data. Clients of earlier versions treat it
/// as a broken message.
pub(crate) fn primes(version: &str) -> bool {
    version >= "2025-11-25"
}

/// The notifications for the client after its session was replaced: every list whose
/// changes the server announces may have changed.
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

/// Whether it is safe to send such a request twice: it only reads, or it opens a session
/// that the proxy can abandon.
fn repeatable(method: &str) -> bool {
    let reads = ["initialize", "ping", "prompts/get", "resources/read", "completion/complete", "server/discover"];
    method.ends_with("/list") || reads.contains(&method)
}

/// The token under which the server will report progress of this request.
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

/// The notification that tells the server to stop working on a request.
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
