//! Messages that scripts use, and the little that is read back from them.

use serde_json::Value;

/// Ids are few, so that they collide; both types, and one spelling of two.
pub const IDS: [&str; 6] = ["1", "2", "\"1\"", "\"a\"", "\"\\u0061\"", "9007199254740993"];

/// What a client may write.
#[derive(Debug, Clone)]
pub enum Line {
    Initialize(usize),
    Initialized,
    Request(usize, Method),
    Notification,
    Cancel(usize),
    /// An answer to a question of the server, whether or not it is open.
    Answer(usize),
    /// A request that is not JSON, but whose id can be made out.
    Broken(usize),
    /// Nothing that could be answered.
    Noise,
    /// A request over the limit.
    Long(usize),
    Batch(usize, usize),
}

#[derive(Debug, Clone, Copy)]
pub enum Method {
    Call,
    List,
    Subscribe,
}

/// The text of a message, made unique by `count` so that it is known again at the
/// server.
pub fn text(line: &Line, count: usize) -> String {
    match line {
        Line::Initialize(id) => {
            format!(r#"{{"jsonrpc":"2.0","id":{},"method":"initialize","params":{{"n":{count}}}}}"#, IDS[*id])
        }
        Line::Initialized => r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.to_owned(),
        Line::Request(id, method) => request(IDS[*id], *method, count),
        Line::Notification => r#"{"jsonrpc":"2.0","method":"notifications/x"}"#.to_owned(),
        Line::Cancel(id) => {
            format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{}}}}}"#, IDS[*id])
        }
        Line::Answer(id) => answer_to(IDS[*id]),
        Line::Broken(id) => format!(r#"{{"jsonrpc":"2.0","id":{},"method":"tools/call","params":{{]}}"#, IDS[*id]),
        Line::Noise => "{\"nonsense\"".to_owned(),
        Line::Long(id) => {
            format!(r#"{{"jsonrpc":"2.0","id":{},"method":"tools/call","params":"{}"}}"#, IDS[*id], "x".repeat(500))
        }
        Line::Batch(one, two) => {
            format!("[{},{}]", request(IDS[*one], Method::Call, count), request(IDS[*two], Method::List, count))
        }
    }
}

/// The client's answer to a question of the server.
pub fn answer_to(id: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#)
}

fn request(id: &str, method: Method, count: usize) -> String {
    let (name, params) = match method {
        Method::Call => ("tools/call", format!(r#"{{"n":{count},"_meta":{{"progressToken":{}}}}}"#, token(count))),
        Method::List => ("tools/list", format!(r#"{{"n":{count}}}"#)),
        Method::Subscribe => ("resources/subscribe", format!(r#"{{"n":{count},"uri":"a:1"}}"#)),
    };
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{name}","params":{params}}}"#)
}

/// Most progress tokens are used once; some are used again while they are in use.
fn token(count: usize) -> usize {
    if count.is_multiple_of(3) { 0 } else { count }
}

/// The same value has the same key, whatever its spelling.
pub fn key(id: &str) -> String {
    serde_json::from_str::<Value>(id).unwrap().to_string()
}

/// What a server may say.
#[derive(Debug, Clone)]
pub enum Said {
    /// The answer to the call's own request.
    Answer,
    /// The same, as an error without an id.
    Anonymous,
    /// An answer to some id.
    Other(usize),
    Notification,
    /// A notification that carries a null id.
    NullId,
    /// Progress of the call's own request.
    Progress,
    Ask(usize),
    CancelAsk(usize),
    /// An answer that JSON-RPC does not have.
    Odd(usize),
    Garbage,
    Long,
}

/// The versions that a server may speak: one with batches, and the latest.
pub const VERSIONS: [&str; 2] = ["2025-03-26", "2025-11-25"];

/// What stands in odd answers instead of a result.
pub const ODD: [&str; 9] = [
    r#""error":"invalid_token""#,
    r#""error":{"message":"no code"}"#,
    r#""error":{"code":"E1","message":"m"}"#,
    r#""error":{"code":1.5,"message":"m"}"#,
    r#""error":{"code":1}"#,
    r#""result":{},"error":{"code":1,"message":"m"}"#,
    r#""result":{},"error":null"#,
    r#""result":{},"jsonrpc":"1.0""#,
    r#""neither":1"#,
];

/// The message, in a response to a call with this body, from a server of this
/// version.
pub fn said(said: &Said, body: &[u8], version: &str) -> String {
    match said {
        Said::Answer => answer(body, &result(version)),
        Said::Anonymous => r#"{"jsonrpc":"2.0","error":{"code":-1,"message":"m"},"id":null}"#.to_owned(),
        Said::Other(id) => format!(r#"{{"jsonrpc":"2.0","id":{},{}}}"#, IDS[*id], result(version)),
        Said::Notification => r#"{"jsonrpc":"2.0","method":"notifications/message","params":{}}"#.to_owned(),
        Said::NullId => r#"{"jsonrpc":"2.0","id":null,"method":"notifications/message"}"#.to_owned(),
        Said::Progress => progress(body),
        Said::Ask(id) => format!(r#"{{"jsonrpc":"2.0","id":{},"method":"sampling/createMessage"}}"#, IDS[*id]),
        Said::CancelAsk(id) => {
            format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{}}}}}"#, IDS[*id])
        }
        Said::Odd(kind) => answer(body, ODD[*kind]),
        Said::Garbage => "{garbage".to_owned(),
        Said::Long => "x".repeat(500),
    }
}

fn result(version: &str) -> String {
    format!(r#""result":{{"protocolVersion":"{version}"}}"#)
}

/// An answer to a request with this body; nothing to anything else.
fn answer(body: &[u8], outcome: &str) -> String {
    let Ok(body) = serde_json::from_slice::<Value>(body) else { return String::new() };
    let (Some(id), Some(_)) = (body.get("id"), body.get("method")) else { return String::new() };
    format!(r#"{{"jsonrpc":"2.0","id":{id},{outcome}}}"#)
}

fn progress(body: &[u8]) -> String {
    let body = serde_json::from_slice::<Value>(body).unwrap_or_default();
    let token = body["params"]["_meta"]["progressToken"].as_u64().unwrap_or(0);
    format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":1}}}}"#
    )
}
