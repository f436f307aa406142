//! Messages that scripts use, and the little that is read back from them.

use super::record::MAX_MESSAGE;
use serde_json::Value;

/// Ids are few, so that they collide; both types, and one spelling of two.
pub const IDS: [&str; 6] = ["1", "2", "\"1\"", "\"a\"", "\"\\u0061\"", "9007199254740993"];

/// What a client may write.
#[derive(Debug, Clone)]
pub enum Line {
    Initialize(usize),
    Initialized,
    Request(usize, Method),
    /// A request in the form of 2026-07-28, of a client that can answer every question.
    Modern(usize, Method),
    /// A call of that form, of a client that can answer none.
    Unable(usize),
    /// A `subscriptions/listen` of that form, which has no answer until it ends.
    Watch(usize),
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
    Unsubscribe,
    Ping,
    Discover,
}

/// The text of a message, made unique by `count` so that it is known again at the
/// server.
pub fn text(line: &Line, count: usize) -> String {
    match line {
        Line::Initialize(id) => {
            let able = r#""capabilities":{"roots":{},"elicitation":{}}"#;
            format!(r#"{{"jsonrpc":"2.0","id":{},"method":"initialize","params":{{"n":{count},{able}}}}}"#, IDS[*id])
        }
        Line::Initialized => r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.to_owned(),
        Line::Request(id, method) => request(IDS[*id], *method, count, ""),
        Line::Modern(id, method) => request(IDS[*id], *method, count, &envelope(ABLE, count)),
        Line::Unable(id) => request(IDS[*id], Method::Call, count, &envelope("{}", count)),
        Line::Watch(id) => {
            let resources = format!(r#""resourceSubscriptions":["a:{}"]"#, count % 3);
            let filter = format!(r#"{{"toolsListChanged":true,{resources}}}"#);
            let params = format!(r#"{{"notifications":{filter},"_meta":{{{}}}}}"#, envelope(ABLE, 1));
            format!(r#"{{"jsonrpc":"2.0","id":{},"method":"{WATCH}","params":{params}}}"#, IDS[*id])
        }
        Line::Notification => r#"{"jsonrpc":"2.0","method":"notifications/x"}"#.to_owned(),
        Line::Cancel(id) => {
            format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{}}}}}"#, IDS[*id])
        }
        Line::Answer(id) => answer_to(IDS[*id]),
        Line::Broken(id) => format!(r#"{{"jsonrpc":"2.0","id":{},"method":"tools/call","params":{{]}}"#, IDS[*id]),
        Line::Noise => "{\"nonsense\"".to_owned(),
        Line::Long(id) => {
            format!(
                r#"{{"jsonrpc":"2.0","id":{},"method":"tools/call","params":"{}"}}"#,
                IDS[*id],
                "x".repeat(MAX_MESSAGE)
            )
        }
        Line::Batch(one, two) => {
            format!("[{},{}]", request(IDS[*one], Method::Call, count, ""), request(IDS[*two], Method::List, count, ""))
        }
    }
}

/// The envelope of a modern client with these capabilities. Some want log messages.
fn envelope(capabilities: &str, count: usize) -> String {
    let level = r#","io.modelcontextprotocol/logLevel":"info""#;
    let level = if count.is_multiple_of(4) { level } else { "" };
    let names = ["protocolVersion", "clientCapabilities"].map(|name| format!("io.modelcontextprotocol/{name}"));
    format!(r#""{}":"{MODERN}","{}":{capabilities}{level}"#, names[0], names[1])
}

/// A request that a modern client was not answered but asked for, and what it was told.
#[derive(Debug, Clone)]
pub struct Round {
    pub request: String,
    pub keys: Vec<String>,
    pub state: Option<String>,
}

/// How a modern client repeats a request that was answered by questions.
#[derive(Debug, Clone, Copy)]
pub enum Twist {
    /// With all answers.
    Whole,
    /// With the first of them.
    Partly,
    /// With none.
    Bare,
    /// With another state than the one that it got.
    Altered,
    /// With the state, but another request.
    Other,
}

impl Round {
    /// The request again, under this id. `count` tells the repetitions apart.
    pub fn again(&self, id: &str, twist: Twist, count: usize) -> String {
        let answers = match twist {
            Twist::Whole | Twist::Altered | Twist::Other => self.keys.len(),
            Twist::Partly => 1,
            Twist::Bare => 0,
        };
        let answer = |key: &String| format!(r#"{}:{{"action":"accept"}}"#, Value::from(&**key));
        let answers: Vec<String> = self.keys.iter().take(answers).map(answer).collect();
        let state = self.state.as_ref().map(|state| match twist {
            Twist::Altered => Value::from(format!("{}A", &state[..state.len().saturating_sub(1)])),
            _ => Value::from(&**state),
        });
        let state = state.map_or_else(String::new, |state| format!(r#""requestState":{state},"#));
        let other = if matches!(twist, Twist::Other) { "\"other\":1," } else { "" };
        let (_, asked) = self.request.split_once("\"n\":").unwrap_or_default();
        let (before, meta) = asked.split_once("\"_meta\":{").unwrap_or_default();
        let meta = meta.split_once("\"io.").map_or_else(String::new, |(_, rest)| format!("\"io.{rest}"));
        // The server refused the first request, so it gets this one as another.
        let name = if self.state.as_deref() == Some("again") { "anew" } else { "again" };
        let method = serde_json::from_str::<Value>(&self.request).unwrap_or_default()["method"].to_string();
        let brought = format!(r#""inputResponses":{{{}}},{state}{other}"#, answers.join(","));
        let params = format!(r#"{{{brought}"n":{before}"_meta":{{"{name}":{count},{meta}"#);
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":{method},"params":{params}"#)
    }
}

/// The client's answer to a question of the server.
pub fn answer_to(id: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#)
}

/// The client's refusal of one.
pub fn error_to(id: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-1,"message":"m"}}}}"#)
}

fn request(id: &str, method: Method, count: usize, envelope: &str) -> String {
    let token = format!("\"progressToken\":{}", token(count));
    let (name, member, token) = match method {
        Method::Call => ("tools/call", String::new(), &*token),
        Method::List => ("tools/list", String::new(), ""),
        Method::Subscribe => ("resources/subscribe", format!(r#","uri":"a:{}""#, count % 3), ""),
        Method::Unsubscribe => ("resources/unsubscribe", format!(r#","uri":"a:{}""#, count % 3), ""),
        Method::Ping => ("ping", String::new(), ""),
        Method::Discover => ("server/discover", String::new(), ""),
    };
    let meta: Vec<&str> = [envelope, token].into_iter().filter(|part| !part.is_empty()).collect();
    let params = format!(r#"{{"n":{count}{member},"_meta":{{{}}}}}"#, meta.join(","));
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
    /// A question with a form, for the roots, and one that must be visited.
    Elicit(usize),
    Roots(usize),
    Visit(usize),
    CancelAsk(usize),
    /// An answer that JSON-RPC does not have.
    Odd(usize),
    /// A result that asks for input.
    Input(usize),
    /// A result of another type.
    Task,
    /// The error that says which URLs the user must open first.
    Urls,
    /// The error for wrong headers.
    Mismatch,
    /// The error for an unknown version.
    Unsupported,
    /// The beginning of a subscription.
    Acknowledged,
    /// A change, on a subscription.
    Changed,
    /// A change of a resource.
    Updated(usize),
    Garbage,
    Long,
}

/// The versions that a server may speak: one with batches, and the latest.
pub const VERSIONS: [&str; 2] = ["2025-03-26", "2025-11-25"];

/// The version without sessions, and its envelope.
pub const MODERN: &str = "2026-07-28";
const ABLE: &str = r#"{"elicitation":{"form":{},"url":{}},"sampling":{},"roots":{}}"#;
pub const WATCH: &str = "subscriptions/listen";

/// What results that ask for input ask.
pub const ASKS: [&str; 6] = [
    r#""inputRequests":{"a":{"method":"roots/list"}},"requestState":"s""#,
    r#""inputRequests":{"a":{"method":"roots/list"},"b":{"method":"elicitation/create","params":{"message":"?"}}}"#,
    r#""requestState":"later""#,
    r#""inputRequests":{"a":{"method":"sampling/createMessage"}}"#,
    r#""inputRequests":{"a":{"method":"ping"}}"#,
    r#""inputRequests":7"#,
];

/// What stands in odd answers instead of a result.
pub const ODD: [&str; 11] = [
    r#""error":"invalid_token""#,
    r#""error":{"message":"no code"}"#,
    r#""error":{"code":"E1","message":"m"}"#,
    r#""error":{"code":1.5,"message":"m"}"#,
    r#""error":{"code":1}"#,
    r#""result":{},"error":{"code":1,"message":"m"}"#,
    r#""result":{},"error":null"#,
    r#""result":{},"jsonrpc":"1.0""#,
    r#""result":{},"method":null"#,
    r#""result":{},"params":{}"#,
    r#""neither":1"#,
];

/// The message, in a response to a call with this body, from a server of this
/// version.
pub fn said(said: &Said, body: &[u8], version: &str) -> String {
    match said {
        Said::Answer => answer(body, &outcome(body, version)),
        Said::Anonymous => r#"{"jsonrpc":"2.0","error":{"code":-1,"message":"m"},"id":null}"#.to_owned(),
        Said::Other(id) => format!(r#"{{"jsonrpc":"2.0","id":{},{}}}"#, IDS[*id], result(version)),
        Said::Notification => {
            r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error"}}"#.to_owned()
        }
        Said::NullId => r#"{"jsonrpc":"2.0","id":null,"method":"notifications/message"}"#.to_owned(),
        Said::Progress => progress(body),
        Said::Ask(id) => question(*id, "sampling/createMessage", ""),
        Said::Elicit(id) => question(*id, "elicitation/create", r#","params":{"message":"?"}"#),
        Said::Roots(id) => question(*id, "roots/list", ""),
        Said::Visit(id) => question(*id, "elicitation/create", r#","params":{"mode":"url","url":"a:b","message":"?"}"#),
        Said::CancelAsk(id) => {
            format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{}}}}}"#, IDS[*id])
        }
        Said::Odd(kind) => answer(body, ODD[*kind]),
        Said::Input(kind) => answer(body, &format!(r#""result":{{"resultType":"input_required",{}}}"#, ASKS[*kind])),
        Said::Task => answer(body, r#""result":{"resultType":"task","taskId":"1"}"#),
        Said::Urls => answer(body, URLS),
        Said::Mismatch => answer(body, r#""error":{"code":-32020,"message":"m"}"#),
        Said::Unsupported => {
            answer(body, r#""error":{"code":-32022,"message":"m","data":{"supported":["2026-07-28"],"requested":"x"}}"#)
        }
        Said::Acknowledged => on_subscription(body, "subscriptions/acknowledged"),
        Said::Changed => on_subscription(body, "tools/list_changed"),
        Said::Updated(which) => {
            format!(r#"{{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{{"uri":"a:{which}"}}}}"#)
        }
        Said::Garbage => "{garbage".to_owned(),
        Said::Long => "x".repeat(MAX_MESSAGE + 100),
    }
}

const URLS: &str =
    r#""error":{"code":-32042,"message":"m","data":{"elicitations":[{"mode":"url","url":"a:b","message":"?"}]}}"#;
const CAPABILITIES: &str = r#"{"tools":{"listChanged":true},"resources":{"subscribe":true}}"#;

fn question(id: usize, method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{},"method":"{method}"{params}}}"#, IDS[id])
}

fn result(version: &str) -> String {
    format!(r#""result":{{"protocolVersion":"{version}","capabilities":{CAPABILITIES}}}"#)
}

/// What a good server of this version answers to a request with this body.
fn outcome(body: &[u8], version: &str) -> String {
    let body = serde_json::from_slice::<Value>(body).unwrap_or_default();
    match body["method"].as_str() {
        _ if version != MODERN => result(version),
        Some("server/discover") => {
            format!(
                r#""result":{{"resultType":"complete","supportedVersions":["{MODERN}"],"capabilities":{CAPABILITIES}}}"#
            )
        }
        Some("initialize") => r#""error":{"code":-32601,"message":"m"}"#.to_owned(),
        _ => r#""result":{"resultType":"complete","ttlMs":0}"#.to_owned(),
    }
}

/// A notification on the stream of a `subscriptions/listen` with this body.
pub fn on_subscription(body: &[u8], name: &str) -> String {
    let body = serde_json::from_slice::<Value>(body).unwrap_or_default();
    let (id, filter) = (&body["id"], &body["params"]["notifications"]);
    let meta = format!(r#"{{"io.modelcontextprotocol/subscriptionId":{id}}}"#);
    let params = format!(r#"{{"notifications":{filter},"_meta":{meta}}}"#);
    format!(r#"{{"jsonrpc":"2.0","method":"notifications/{name}","params":{params}}}"#)
}

/// Whether a message with this body opens a subscription.
pub fn watches(body: &[u8]) -> bool {
    serde_json::from_slice::<Value>(body).is_ok_and(|body| body["method"] == WATCH)
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
