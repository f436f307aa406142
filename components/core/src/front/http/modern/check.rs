//! The checks of a request of revision 2026-07-28: which requests are modern at all, and
//! whether the headers agree with the body (basic/transports, Streamable HTTP). They are
//! pure and run in the order that clients rely on. Whether the client declares what a
//! tool needs is the server's knowledge, and does not belong here.

use crate::era::{self, mirror};
use crate::failure::UNSUPPORTED_VERSION;
use crate::front::http::refusal::{self, Refusal, SESSION_ID, VERSION};
use crate::wire::message::{self, Kind, Message};
use base64::Engine;
use base64::prelude::BASE64_STANDARD as BASE64;
use http::{HeaderMap, StatusCode};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::str::FromStr;

/// MCP: a header is missing, malformed, or differs from the body.
const HEADER_MISMATCH: i64 = -32020;
/// MCP: the client lacks a capability that the request needs.
const MISSING_CAPABILITY: i64 = -32021;
/// JSON-RPC: the method does not exist.
const METHOD_NOT_FOUND: i64 = -32601;
/// JSON-RPC: the parameters are invalid.
const INVALID_PARAMS: i64 = -32602;

/// The modern versions. The answer to `server/discover` must list the same.
const SERVED: [&str; 1] = ["2026-07-28"];

/// Requests of earlier revisions that this one has removed. A server of an earlier
/// revision would still answer them.
const REMOVED: [&str; 7] = [
    "initialize",
    "logging/setLevel",
    "ping",
    "resources/subscribe",
    "resources/unsubscribe",
    "tasks/list",
    "tasks/result",
];

/// A modern message that has passed the checks.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Checked<'a> {
    /// Gets an answer. `capabilities` is the raw object that the client declares.
    Request { version: Cow<'a, str>, capabilities: &'a str },
    /// Gets status 202.
    Notification,
}

/// Whether a POST is modern: it has the envelope, names a version without sessions, or
/// names no version but its method, which only modern clients do. A version that nobody
/// knows counts as modern, so that its client learns which versions there are. A legacy
/// `initialize`, and requests in a session, may have any version in the header.
///
/// A notification without any of these may come from a legacy client that has lost its
/// session. It is not modern: that client must learn from the refusal that its
/// notification reached nobody.
pub(crate) fn is_modern(headers: &HeaderMap, message: &Message) -> bool {
    let opens = matches!(&message.kind, Kind::Request { method, .. } if era::opens_session(method));
    let legacy = |version: &str| era::VERSIONS.contains(&version.trim());
    let named = match headers.contains_key(VERSION) {
        true => !legacy(refusal::text(headers, &VERSION)),
        false => headers.contains_key("mcp-method"),
    };
    has_envelope(message.params()) || (named && !opens && !headers.contains_key(SESSION_ID))
}

fn has_envelope(params: &str) -> bool {
    // The prefix may be written with an escaped slash.
    memchr::memmem::find(params.as_bytes(), b"protocolVersion").is_some()
        && message::member(params, "_meta").is_some_and(|meta| message::member(meta, ENVELOPE_VERSION).is_some())
}

/// Checks a modern message. `tools` knows which arguments the headers repeat. The
/// specification says nothing about the headers of a notification, so they are not checked.
pub(crate) fn check<'a>(
    headers: &HeaderMap,
    message: &'a Message,
    tools: &mirror::Table,
) -> Result<Checked<'a>, Refusal> {
    match &message.kind {
        Kind::Notification { .. } => Ok(Checked::Notification),
        Kind::Response { .. } => Err(Refusal::bad_request("a client has no questions to answer in this version")),
        Kind::Request { id, method } => {
            check_request(headers, method, message.params(), tools).map_err(|refusal| refusal.of(Some(id)))
        }
    }
}

/// The first check that fails decides.
fn check_request<'a>(
    headers: &HeaderMap,
    method: &str,
    params: &'a str,
    tools: &mirror::Table,
) -> Result<Checked<'a>, Refusal> {
    let version = only(headers, VERSION.as_str())?.ok_or_else(|| mismatch(VERSION.as_str(), "is missing"))?;
    let params = Params::parse(params)?;
    let (body_version, capabilities) = params.envelope()?;
    agrees(VERSION.as_str(), version == body_version)?;
    is_served(&body_version)?;
    agrees("mcp-method", only(headers, "mcp-method")? == Some(method))?;
    if let Some(value) = params.name(method) {
        mirrors(headers, "mcp-name", value.filter(|value| value.starts_with('"')))?;
    }
    exists(method)?;
    if method == "tools/call" && !tools.is_empty() {
        let tool = params.name.and_then(|name| text(name.get())).unwrap_or_default();
        for (header, value) in mirror::param_values(tools.of(&tool), params.arguments()) {
            let value = value.filter(|value| is_scalar(value));
            // A value may be too long for a header.
            let fits = value.is_none_or(|value| mirror::encode(value).is_some());
            if fits || headers.contains_key(&header.name) {
                mirrors(headers, header.name.as_str(), value)?;
            }
        }
    }
    Ok(Checked::Request { version: body_version, capabilities })
}

const ENVELOPE_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const ENVELOPE_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";

/// The members of `params` that the headers repeat. A member that comes twice is an
/// error: the header may agree with one, and the server read the other.
#[derive(Deserialize, Default)]
struct Params<'a> {
    #[serde(borrow, rename = "_meta")]
    meta: Option<Meta<'a>>,
    #[serde(borrow)]
    name: Option<&'a RawValue>,
    #[serde(borrow)]
    uri: Option<&'a RawValue>,
    #[serde(borrow, rename = "taskId")]
    task: Option<&'a RawValue>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Meta<'a> {
    #[serde(borrow, rename = "io.modelcontextprotocol/protocolVersion")]
    version: Option<&'a RawValue>,
    #[serde(borrow, rename = "io.modelcontextprotocol/clientCapabilities")]
    capabilities: Option<&'a RawValue>,
}

impl<'a> Params<'a> {
    fn parse(params: &'a str) -> Result<Self, Refusal> {
        if params.is_empty() {
            return Ok(Self::default());
        }
        serde_json::from_str(params)
            .map_err(|_| invalid("the params, or their _meta, are not an object of distinct members"))
    }

    /// The version and the raw capabilities, both of which every request must have.
    fn envelope(&self) -> Result<(Cow<'a, str>, &'a str), Refusal> {
        let lacks = |name: &str, kind: &str| invalid(format!("params._meta[{name:?}] must be {kind}"));
        let version = self.meta.as_ref().and_then(|meta| text(meta.version?.get()));
        let version = version.ok_or_else(|| lacks(ENVELOPE_VERSION, "a string"))?;
        let capabilities = self.meta.as_ref().and_then(|meta| Some(meta.capabilities?.get()));
        let capabilities = capabilities.filter(|raw| raw.starts_with('{'));
        Ok((version, capabilities.ok_or_else(|| lacks(ENVELOPE_CAPABILITIES, "an object"))?))
    }

    /// The raw value that `Mcp-Name` repeats; `None` if this method has no such header.
    fn name(&self, method: &str) -> Option<Option<&'a str>> {
        let value = match mirror::named_by(method)? {
            "name" => self.name,
            "uri" => self.uri,
            _ => self.task,
        };
        Some(value.map(RawValue::get))
    }

    fn arguments(&self) -> &'a str {
        self.arguments.map_or("{}", RawValue::get)
    }
}

fn is_served(version: &str) -> Result<(), Refusal> {
    if SERVED.contains(&version) {
        return Ok(());
    }
    let message = format!("the protocol version {version:?} is not supported");
    let data = Some(json!({ "supported": SERVED, "requested": version }));
    Err(Refusal { code: UNSUPPORTED_VERSION, data, ..Refusal::bad_request(message) })
}

/// Methods that no revision has are for the server to refuse.
fn exists(method: &str) -> Result<(), Refusal> {
    if !REMOVED.contains(&method) {
        return Ok(());
    }
    let message = format!("protocol version {} has no {method}", SERVED.join(" and "));
    Err(Refusal { code: METHOD_NOT_FOUND, ..Refusal::new(StatusCode::NOT_FOUND, message) })
}

/// The header must repeat the raw value, and must be missing without one.
fn mirrors(headers: &HeaderMap, name: &str, value: Option<&str>) -> Result<(), Refusal> {
    match (only(headers, name)?, value) {
        (None, None) => Ok(()),
        (None, Some(_)) => Err(mismatch(name, "is missing")),
        (Some(_), None) => agrees(name, false),
        (Some(header), Some(value)) => {
            let header = decode_name(header).map_err(|()| mismatch(name, "is not valid base64 of UTF-8"))?;
            agrees(name, is_equal(&header, value))
        }
    }
}

fn agrees(name: &str, equal: bool) -> Result<(), Refusal> {
    if equal { Ok(()) } else { Err(mismatch(name, "differs from the body")) }
}

/// Whether a decoded header is the text of a raw JSON value.
fn is_equal(header: &str, value: &str) -> bool {
    if value.starts_with('"') {
        return text(value).is_some_and(|value| value == header);
    }
    // Doubles cannot distinguish large integers.
    let same = || same_number::<i128>(header, value).or_else(|| same_number::<f64>(header, value));
    header == value || same() == Some(true)
}

fn same_number<T: FromStr + PartialEq>(one: &str, other: &str) -> Option<bool> {
    Some(one.parse::<T>().ok()? == other.parse::<T>().ok()?)
}

fn is_scalar(value: &str) -> bool {
    !value.starts_with(['{', '['])
}

fn text(raw: &str) -> Option<Cow<'_, str>> {
    #[derive(Deserialize)]
    struct Text<'a>(#[serde(borrow)] Cow<'a, str>);
    serde_json::from_str(raw).ok().map(|Text(text)| text)
}

/// The text of a header that must not come twice, without the white space around it.
fn only<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a str>, Refusal> {
    let mut values = headers.get_all(name).iter();
    let (first, second) = (values.next(), values.next());
    let value = first.map(|value| value.to_str().map_err(|_| mismatch(name, "has characters that no header may have")));
    if second.is_some() {
        return Err(mismatch(name, "comes twice"));
    }
    Ok(value.transpose()?.map(|value| value.trim_matches([' ', '\t'])))
}

/// Decodes the value of `Mcp-Name` or `Mcp-Param-*`: base64 between exact markers, or
/// else the text itself.
pub(crate) fn decode_name(value: &str) -> Result<Cow<'_, str>, ()> {
    let marked = value.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?="));
    let Some(encoded) = marked else { return Ok(Cow::Borrowed(value)) };
    let bytes = BASE64.decode(encoded).map_err(drop)?;
    String::from_utf8(bytes).map(Cow::Owned).map_err(drop)
}

/// The status of a response that is one answer, with this raw error or none.
pub(crate) fn status_of(error: &str) -> StatusCode {
    let code = message::member(error, "code").and_then(|code| code.parse::<i64>().ok());
    match code {
        Some(METHOD_NOT_FOUND) => StatusCode::NOT_FOUND,
        Some(HEADER_MISMATCH | MISSING_CAPABILITY | UNSUPPORTED_VERSION) => StatusCode::BAD_REQUEST,
        _ => StatusCode::OK,
    }
}

fn mismatch(name: &str, problem: &str) -> Refusal {
    Refusal { code: HEADER_MISMATCH, ..Refusal::bad_request(format!("the {name} header {problem}")) }
}

fn invalid(message: impl Into<String>) -> Refusal {
    Refusal { code: INVALID_PARAMS, ..Refusal::bad_request(message) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::message::Parsed;
    use bytes::Bytes;
    use http::HeaderName;

    const LIST: &str = "MCP-Protocol-Version: 2026-07-28|Mcp-Method: tools/list";
    const CALL: &str = "MCP-Protocol-Version: 2026-07-28|Mcp-Method: tools/call|Mcp-Name: add";

    /// The headers of a POST, separated by bars.
    fn headers_of(text: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in text.split('|').filter_map(|header| header.split_once(':')) {
            headers.append(HeaderName::from_bytes(name.as_bytes()).unwrap(), value.parse().unwrap());
        }
        headers
    }

    fn parse(body: &str) -> Message {
        let Ok(Parsed::One(message)) = message::parse(body.as_bytes().to_vec()) else { panic!("{body}") };
        message
    }

    /// A request with these members of `params` in front of the envelope.
    fn request(version: &str, method: &str, members: &str) -> String {
        let envelope = format!(r#"{{"{ENVELOPE_VERSION}":"{version}","{ENVELOPE_CAPABILITIES}":{{}}}}"#);
        format!(r#"{{"jsonrpc":"2.0","id":7,"method":"{method}","params":{{{members}"_meta":{envelope}}}}}"#)
    }

    fn modern(method: &str, members: &str) -> String {
        request("2026-07-28", method, members)
    }

    /// A request with this `params._meta`.
    fn with_meta(meta: &str) -> String {
        format!(r#"{{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{{"_meta":{meta}}}}}"#)
    }

    /// The status, and the code of the error.
    fn answer_to(headers: &str, body: &str, tools: &mirror::Table) -> (u16, i64) {
        match check(&headers_of(headers), &parse(body), tools) {
            Ok(Checked::Request { .. }) => (200, 0),
            Ok(Checked::Notification) => (202, 0),
            Err(refusal) => {
                assert_eq!(
                    refusal.id.as_ref().map(|id| id.text()),
                    body.contains(r#""id":7"#).then_some("7"),
                    "{body}"
                );
                (refusal.status.as_u16(), refusal.code)
            }
        }
    }

    #[test]
    fn versions_and_envelopes_are_checked_in_order() {
        let meta_of =
            |capabilities: &str| with_meta(&format!(r#"{{"{ENVELOPE_VERSION}":"2026-07-28"{capabilities}}}"#));
        let bare = r#"{"jsonrpc":"2.0","id":7,"method":"tools/list"}"#.to_owned();
        for (headers, body, expected) in [
            (LIST, modern("tools/list", ""), (200, 0)),
            ("MCP-Protocol-Version: 2025-11-25|Mcp-Method: tools/list", modern("tools/list", ""), (400, -32020)),
            ("MCP-Protocol-Version: v999|Mcp-Method: tools/list", request("v999", "tools/list", ""), (400, -32022)),
            ("MCP-Protocol-Version: 2025-11-25", request("2025-11-25", "tools/list", ""), (400, -32022)),
            (LIST, request("v999", "tools/list", ""), (400, -32020)),
            (LIST, modern("ping", ""), (400, -32020)),
            (LIST, bare.clone(), (400, -32602)),
            (LIST, with_meta("{}"), (400, -32602)),
            (LIST, with_meta("5"), (400, -32602)),
            (LIST, meta_of(""), (400, -32602)),
            (LIST, meta_of(r#","io.modelcontextprotocol/clientCapabilities":[]"#), (400, -32602)),
            (LIST, meta_of(r#","io.modelcontextprotocol/protocolVersion":"v999""#), (400, -32602)),
            ("Mcp-Method: tools/list", modern("tools/list", ""), (400, -32020)),
            ("Mcp-Method: tools/list", bare, (400, -32020)),
            ("MCP-Protocol-Version: 2026-07-28|MCP-Protocol-Version: 2026-07-28", modern("ping", ""), (400, -32020)),
            ("MCP-Protocol-Version: 2026-07-28é", modern("ping", ""), (400, -32020)),
        ] {
            assert_eq!(answer_to(headers, &body, &mirror::Table::default()), expected, "{headers} {body}");
        }
        let unserved = check(
            &headers_of("MCP-Protocol-Version: v999"),
            &parse(&request("v999", "x", "")),
            &mirror::Table::default(),
        )
        .unwrap_err();
        assert_eq!(unserved.data, Some(json!({ "supported": ["2026-07-28"], "requested": "v999" })));
    }

    #[test]
    fn the_method_and_the_name_are_the_same_in_the_headers() {
        let tool = |name: &str| modern("tools/call", &format!(r#""name":"{name}","#));
        let named = |name: &str| format!("MCP-Protocol-Version: 2026-07-28|Mcp-Method: tools/call|Mcp-Name:{name}");
        let read = "MCP-Protocol-Version: 2026-07-28|Mcp-Method: resources/read|Mcp-Name: file:///a b";
        for (headers, body, expected) in [
            ("MCP-Protocol-Version: 2026-07-28|Mcp-Method: TOOLS/LIST", modern("tools/list", ""), (400, -32020)),
            ("MCP-Protocol-Version: 2026-07-28", modern("tools/list", ""), (400, -32020)),
            ("MCP-Protocol-Version:  2026-07-28 |mcp-METHOD:   tools/list  ", modern("tools/list", ""), (200, 0)),
            (CALL, tool("add"), (200, 0)),
            (CALL, tool("sub"), (400, -32020)),
            (CALL, modern("tools/call", ""), (400, -32020)),
            (CALL, modern("tools/call", r#""name":5,"#), (400, -32020)),
            (CALL, modern("tools/call", r#""name":"add","name":"sub","#), (400, -32602)),
            ("MCP-Protocol-Version: 2026-07-28|Mcp-Method: tools/call", tool("add"), (400, -32020)),
            (&named(" =?base64?6aOf?="), tool("食"), (200, 0)),
            (&named(" =?base64?6aOf?="), tool("\\u98df"), (200, 0)),
            (&named(" =?base64?6aO?="), tool("食"), (400, -32020)),
            (&named(" =?BASE64?6aOf?="), tool("食"), (400, -32020)),
            (&named(" =?BASE64?6aOf?="), tool("=?BASE64?6aOf?="), (200, 0)),
            (&named(" =?base64??="), tool(""), (200, 0)),
            (&named(""), tool(""), (200, 0)),
            (read, modern("resources/read", r#""uri":"file:///a b","#), (200, 0)),
            (read, modern("resources/read", r#""uri":"file:///c","#), (400, -32020)),
        ] {
            assert_eq!(answer_to(headers, &body, &mirror::Table::default()), expected, "{headers} {body}");
        }
    }

    #[test]
    fn removed_methods_do_not_exist_and_sessions_are_ignored() {
        for method in REMOVED {
            let headers = format!("MCP-Protocol-Version: 2026-07-28|Mcp-Method: {method}");
            assert_eq!(answer_to(&headers, &modern(method, ""), &mirror::Table::default()), (404, -32601), "{method}");
        }
        let foreign = "MCP-Protocol-Version: 2026-07-28|Mcp-Method: acme/thing";
        assert_eq!(answer_to(foreign, &modern("acme/thing", ""), &mirror::Table::default()), (200, 0));
        let session = format!("{LIST}|Mcp-Session-Id: x|Last-Event-ID: 1");
        assert_eq!(answer_to(&session, &modern("tools/list", ""), &mirror::Table::default()), (200, 0));
    }

    #[test]
    fn messages_without_an_answer_need_no_headers() {
        let cancelled = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;
        assert_eq!(answer_to("", cancelled, &mirror::Table::default()), (202, 0));
        assert_eq!(answer_to("Mcp-Method: other", cancelled, &mirror::Table::default()), (202, 0));
        assert_eq!(answer_to("", r#"{"jsonrpc":"2.0","id":3,"result":{}}"#, &mirror::Table::default()), (400, -32600));
        let json = headers_of("Content-Type: application/json");
        let broken = refusal::read(&json, Bytes::from_static(b"{\"jsonrpc\":"), 100).unwrap_err();
        assert_eq!((broken.status.as_u16(), broken.code), (400, -32700));
    }

    #[test]
    fn mirrored_arguments_are_the_same_in_the_headers() {
        let long = &*format!(r#"{{"where":{{"region":"{}"}}}}"#, "a".repeat(10_000));
        let mut tools = mirror::Table::default();
        tools.learn(
            r#"{"tools":[{"name":"add","inputSchema":{"properties":{
                "where":{"properties":{"region":{"type":"string","x-mcp-header":"Region"}}},
                "count":{"type":"integer","x-mcp-header":"Count"},
                "dry":{"type":"boolean","x-mcp-header":"Dry"}}}}]}"#,
        );
        for (headers, arguments, expected) in [
            ("", "{}", (200, 0)),
            ("", r#"{"where":{"region":null},"count":[1]}"#, (200, 0)),
            ("|Mcp-Param-Other: x", "{}", (200, 0)),
            ("|Mcp-Param-Region: eu west", r#"{"where":{"region":"eu west"}}"#, (200, 0)),
            ("|Mcp-Param-Region: =?base64?IHVz?=", r#"{"where":{"region":" us"}}"#, (200, 0)),
            ("|Mcp-Param-Region: eu", r#"{"where":{"region":"us"}}"#, (400, -32020)),
            ("|Mcp-Param-Region: eu", r#"{"where":"eu"}"#, (400, -32020)),
            ("", r#"{"where":{"region":"us"}}"#, (400, -32020)),
            ("|Mcp-Param-Count: 42", r#"{"count":42.0}"#, (200, 0)),
            ("|Mcp-Param-Count: 43", r#"{"count":42}"#, (400, -32020)),
            ("|Mcp-Param-Count: 9007199254740993", r#"{"count":9007199254740992}"#, (400, -32020)),
            ("|Mcp-Param-Count: many", r#"{"count":42}"#, (400, -32020)),
            ("", long, (200, 0)),
            ("|Mcp-Param-Region: eu", long, (400, -32020)),
            ("|Mcp-Param-Dry: true", r#"{"dry":true}"#, (200, 0)),
            ("|Mcp-Param-Dry: True", r#"{"dry":true}"#, (400, -32020)),
        ] {
            let body = modern("tools/call", &format!(r#""name":"add","arguments":{arguments},"#));
            assert_eq!(answer_to(&format!("{CALL}{headers}"), &body, &tools), expected, "{headers} {arguments}");
        }
    }

    #[test]
    fn the_envelope_or_an_unknown_version_is_modern() {
        let plain = |method: &str| format!(r#"{{"jsonrpc":"2.0","id":7,"method":"{method}","params":{{}}}}"#);
        let escaped = with_meta(r#"{"io.modelcontextprotocol\/protocolVersion":"2026-07-28"}"#);
        let cancelled = r#"{"jsonrpc":"2.0","method":"notifications/cancelled"}"#.to_owned();
        let old = r#"{"jsonrpc":"2.0","id":7,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}"#;
        for (headers, body, expected) in [
            ("", modern("tools/list", ""), true),
            ("", modern("initialize", ""), true),
            ("", escaped, true),
            ("MCP-Protocol-Version: 2025-11-25|Mcp-Session-Id: x", modern("tools/list", ""), true),
            ("MCP-Protocol-Version: v999", plain("tools/list"), true),
            ("MCP-Protocol-Version: 2026-07-28", cancelled.clone(), true),
            ("Mcp-Method: notifications/cancelled", cancelled.clone(), true),
            ("Mcp-Method: notifications/cancelled|Mcp-Session-Id: x", cancelled.clone(), false),
            ("Mcp-Method: tools/list", plain("tools/list"), true),
            ("Mcp-Method: initialize", old.to_owned(), false),
            ("", cancelled, false),
            ("", plain("tools/list"), false),
            ("MCP-Protocol-Version: 2025-11-25", plain("tools/list"), false),
            ("MCP-Protocol-Version:  2025-11-25 ", plain("tools/list"), false),
            ("MCP-Protocol-Version: 2031-01-01|Mcp-Session-Id: x", plain("tools/list"), false),
            ("MCP-Protocol-Version: 2025-11-25|Mcp-Method: initialize", old.to_owned(), false),
            ("MCP-Protocol-Version: 2026-07-28|Mcp-Method: initialize", old.to_owned(), false),
        ] {
            assert_eq!(is_modern(&headers_of(headers), &parse(&body)), expected, "{headers} {body}");
        }
    }

    #[test]
    fn a_checked_request_has_its_envelope() {
        let message = parse(&modern("tools/list", ""));
        let checked = check(&headers_of(LIST), &message, &mirror::Table::default()).unwrap();
        assert_eq!(checked, Checked::Request { version: "2026-07-28".into(), capabilities: "{}" });
    }

    #[test]
    fn names_are_decoded_between_exact_markers() {
        for (value, expected) in [
            ("us-west1", Ok("us-west1")),
            ("=?base64?SGVsbG8sIOS4lueVjA==?=", Ok("Hello, 世界")),
            ("=?base64?IHBhZGRlZCA=?=", Ok(" padded ")),
            ("=?base64?bGluZTEKbGluZTI=?=", Ok("line1\nline2")),
            ("=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?=", Ok("=?base64?literal?=")),
            ("=?base64??=", Ok("")),
            ("=?base64?=", Ok("=?base64?=")),
            ("=?base64?SGk=", Ok("=?base64?SGk=")),
            ("=?BASE64?SGk=?=", Ok("=?BASE64?SGk=?=")),
            ("=?base64?SGk?=", Err(())),
            ("=?base64?S_-k?=", Err(())),
            ("=?base64?/w==?=", Err(())),
        ] {
            assert_eq!(decode_name(value).as_deref(), expected.as_ref().copied(), "{value}");
        }
    }
}
