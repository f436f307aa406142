//! JSON-RPC messages: one scan of the envelope, and the bytes stay unchanged. Ids keep
//! their type and spelling. This module also has the few edits that the proxy makes to
//! relayed messages, and writes the proxy's own errors. The meaning of methods does not
//! belong here.

use crate::wire::batch::Batch;
use crate::wire::scan::Scan;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::sync::Arc;

const VERSION: &str = "\"jsonrpc\":\"2.0\"";

/// A JSON-RPC id. `1` and `"1"` differ; `"a"` and `"\u0061"` do not.
#[derive(Debug, Clone)]
pub struct Id {
    text: Arc<str>,
    /// The canonical spelling, if it differs from `text`.
    key: Option<Arc<str>>,
}

impl Id {
    /// Parses a string or a number in JSON.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let key = if text.starts_with('"') { string_key(text)? } else { number_key(text)? };
        Some(Self { key: (*key != *text).then(|| key.into()), text: text.into() })
    }

    /// A string id with this name, which must need no escapes.
    pub(crate) fn named(name: &str) -> Self {
        Self { text: format!("\"{name}\"").into(), key: None }
    }

    /// The id as JSON, in the original spelling.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether both are numbers and equal in double precision, which is all that some
    /// peers support.
    pub(crate) fn same_as_double(&self, other: &Self) -> bool {
        let double = |id: &Self| id.text.parse::<f64>().ok();
        double(self).is_some() && double(self) == double(other)
    }

    fn key(&self) -> &str {
        self.key.as_deref().unwrap_or(&self.text)
    }
}

impl PartialEq for Id {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}
impl Eq for Id {}
impl Hash for Id {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}
impl PartialOrd for Id {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Id {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(other.key())
    }
}

fn string_key(text: &str) -> Option<Cow<'_, str>> {
    if !text.contains('\\') {
        return serde_json::from_str::<&str>(text).is_ok().then_some(Cow::Borrowed(text));
    }
    let plain: String = serde_json::from_str(text).ok()?;
    serde_json::to_string(&plain).ok().map(Cow::Owned)
}

/// The canonical spelling of a number. Integers, and numbers outside the range of a
/// double, keep their own spelling.
fn number_key(text: &str) -> Option<Cow<'_, str>> {
    let numeric = text.starts_with(|first: char| first == '-' || first.is_ascii_digit());
    if !numeric || serde_json::from_str::<IgnoredAny>(text).is_err() {
        return None;
    }
    let float = Some(text).filter(|text| text.contains(['.', 'e', 'E']));
    let double = float.and_then(|text| text.parse().ok()).filter(|double: &f64| double.is_finite());
    Some(double.map_or(Cow::Borrowed(text), |double| Cow::Owned(format!("{double}"))))
}

/// One message and the positions of its parts.
#[derive(Debug, Clone)]
pub struct Message {
    /// The original message: one valid JSON object.
    pub bytes: Vec<u8>,
    pub kind: Kind,
    id_at: Range<usize>,
    params_at: Range<usize>,
    result_at: Range<usize>,
    error_at: Range<usize>,
    version_at: Range<usize>,
    /// It has members that its kind does not have.
    mixed: bool,
}

/// The three kinds of JSON-RPC messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// Needs an answer.
    Request {
        /// The id for the answer.
        id: Id,
        /// The method.
        method: Box<str>,
    },
    /// Needs no answer.
    Notification {
        /// The method.
        method: Box<str>,
    },
    /// Answers a request. Servers omit the id, or send null, if they could not read it.
    Response {
        /// The request it answers.
        id: Option<Id>,
    },
}

/// The result of parsing a piece of JSON.
#[derive(Debug)]
pub enum Parsed {
    /// One message.
    One(Message),
    /// A batch, as in revision 2025-03-26.
    Batch(Batch),
}

/// A text that is not a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Malformed {
    /// The id of the request to answer, if it is readable.
    pub id: Option<Id>,
    /// The fault of the text.
    pub fault: Fault,
}

/// The faults of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Not UTF-8.
    Encoding,
    /// Not JSON.
    Syntax,
    /// JSON, but not a JSON-RPC message.
    Shape,
    /// A batch without messages.
    EmptyBatch,
    /// Over the message limit.
    TooLong,
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow, default, deserialize_with = "present")]
    jsonrpc: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    method: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    params: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    error: Option<&'a RawValue>,
}

/// Counts a member as present even if it is null.
fn present<'a, D: Deserializer<'a>>(value: D) -> Result<Option<&'a RawValue>, D::Error> {
    <&RawValue>::deserialize(value).map(Some)
}

/// Parses one line, event or body.
///
/// # Errors
/// If it is not JSON-RPC; the error carries the id if it is readable.
pub fn parse(bytes: Vec<u8>) -> Result<Parsed, Malformed> {
    let Ok(text) = std::str::from_utf8(&bytes) else { return Err(malformed(&bytes, Fault::Encoding)) };
    if text.trim_start().starts_with('[') {
        return Batch::new(bytes).map(Parsed::Batch);
    }
    parse_one(bytes).map(Parsed::One)
}

pub(super) fn parse_one(bytes: Vec<u8>) -> Result<Message, Malformed> {
    let text = std::str::from_utf8(&bytes).unwrap_or_default();
    let envelope: Envelope<'_> = match serde_json::from_str(text) {
        Ok(envelope) => envelope,
        Err(error) if error.is_data() => return Err(malformed(&bytes, Fault::Shape)),
        Err(_) => return Err(malformed(&bytes, Fault::Syntax)),
    };
    let id = envelope.id.map(|raw| Id::parse(raw.get()));
    let Ok(method) = envelope.method.map(|raw| text_or_null(raw.get())).transpose() else {
        return Err(malformed(&bytes, Fault::Shape));
    };
    let kind = match (method.flatten(), id) {
        (Some(method), Some(Some(id))) => Kind::Request { id, method },
        (Some(method), None) => Kind::Notification { method },
        (None, id) if envelope.result.is_some() || envelope.error.is_some_and(|error| error.get() != "null") => {
            Kind::Response { id: id.flatten() }
        }
        _ => return Err(malformed(&bytes, Fault::Shape)),
    };
    let at = |raw: Option<&RawValue>| raw.map_or(0..0, |raw| span(text, raw.get()));
    let (id_at, params_at) = (at(envelope.id), at(envelope.params));
    let (result_at, error_at) = (at(envelope.result), at(envelope.error));
    let version_at = at(envelope.jsonrpc);
    let structured = |raw: &RawValue| raw.get().starts_with(['{', '[']);
    let mixed = match kind {
        Kind::Response { .. } => envelope.method.is_some() || envelope.params.is_some(),
        Kind::Request { .. } | Kind::Notification { .. } => {
            envelope.result.is_some() || envelope.error.is_some() || envelope.params.is_some_and(|raw| !structured(raw))
        }
    };
    Ok(Message { kind, id_at, params_at, result_at, error_at, version_at, mixed, bytes })
}

fn malformed(bytes: &[u8], fault: Fault) -> Malformed {
    Malformed { id: Scan::of(bytes).request_id(), fault }
}

/// The text of a raw JSON string; `None` for null.
fn text_or_null(raw: &str) -> Result<Option<Box<str>>, serde_json::Error> {
    let plain = raw.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    match plain.filter(|text| memchr::memchr(b'\\', text.as_bytes()).is_none()) {
        Some(text) => Ok(Some(text.into())),
        None => serde_json::from_str::<Option<Cow<'_, str>>>(raw).map(|text| text.map(Into::into)),
    }
}

/// The position of `part`, a piece of `text`.
pub(crate) fn span(text: &str, part: &str) -> Range<usize> {
    let start = (part.as_ptr() as usize).saturating_sub(text.as_ptr() as usize);
    start..start + part.len()
}

impl Message {
    /// A request with raw params. The method must need no escapes.
    pub(crate) fn request(id: &Id, method: &str, params: &str) -> Self {
        let before = format!("{{{VERSION},\"id\":");
        let middle = format!(",\"method\":\"{method}\",\"params\":");
        let id_at = before.len()..before.len() + id.text().len();
        let params_at = id_at.end + middle.len()..id_at.end + middle.len() + params.len();
        let version_at = VERSION.len() - 4..VERSION.len() + 1;
        Self {
            bytes: format!("{before}{}{middle}{params}}}", id.text()).into_bytes(),
            kind: Kind::Request { id: id.clone(), method: method.into() },
            id_at,
            params_at,
            result_at: 0..0,
            error_at: 0..0,
            version_at,
            mixed: false,
        }
    }

    /// Whether it is a request with this method.
    pub(crate) fn is_request(&self, wanted: &str) -> bool {
        matches!(&self.kind, Kind::Request { method, .. } if &**method == wanted)
    }

    /// The raw `params`, or an empty string.
    #[must_use]
    pub fn params(&self) -> &str {
        self.part(&self.params_at)
    }

    /// The raw `result`, or an empty string.
    #[must_use]
    pub fn result(&self) -> &str {
        self.part(&self.result_at)
    }

    /// The raw `error`, or an empty string.
    #[must_use]
    pub fn error(&self) -> &str {
        Some(self.part(&self.error_at)).filter(|error| *error != "null").unwrap_or_default()
    }

    /// Repairs the message to conform to JSON-RPC 2.0 if possible: with its version,
    /// without members of another kind of message, and an answer with either a result or
    /// an error that has a code and a message. A valid message keeps every byte.
    ///
    /// # Errors
    /// Returns an answer unchanged if its error is not a JSON-RPC error.
    pub fn valid(self) -> Result<Self, Box<Self>> {
        if let Kind::Response { id } = &self.kind {
            let (name, part) = self.outcome();
            if name == "error" && !is_error(part) {
                return Err(Box::new(self));
            }
            if self.mixed || (!self.result_at.is_empty() && !self.error_at.is_empty()) {
                let id = id.as_ref().map_or("null", Id::text);
                let text = format!("{{{VERSION},\"id\":{id},\"{name}\":{part}}}");
                return parse_one(text.into_bytes()).map_err(|_| Box::new(self));
            }
        }
        if let Kind::Request { method, .. } | Kind::Notification { method } = &self.kind
            && self.mixed
        {
            let id = if let Kind::Request { id, .. } = &self.kind {
                format!(",\"id\":{}", id.text())
            } else {
                String::new()
            };
            let params = Some(self.params()).filter(|params| params.starts_with(['{', '[']));
            let params = params.map_or_else(String::new, |params| format!(",\"params\":{params}"));
            let text = format!("{{{VERSION}{id},\"method\":{}{params}}}", serde_json::Value::from(&**method));
            return parse_one(text.into_bytes()).map_err(|_| Box::new(self));
        }
        if self.part(&self.version_at) == "\"2.0\"" {
            return Ok(self);
        }
        let mut bytes = self.bytes.clone();
        if self.version_at.is_empty() {
            let start = memchr::memchr(b'{', &bytes).map_or(0, |brace| brace + 1);
            replace(&mut bytes, start..start, &format!("{VERSION},"));
        } else {
            replace(&mut bytes, self.version_at.clone(), "\"2.0\"");
        }
        parse_one(bytes).map_err(|_| Box::new(self))
    }

    /// The outcome of an answer: the member's name and its raw value.
    fn outcome(&self) -> (&'static str, &str) {
        if self.error().is_empty() { ("result", self.result()) } else { ("error", self.error()) }
    }

    fn part(&self, at: &Range<usize>) -> &str {
        self.bytes.get(at.clone()).and_then(|part| std::str::from_utf8(part).ok()).unwrap_or_default()
    }

    /// Replaces the raw `params`, or adds them.
    pub(crate) fn set_params(&mut self, params: &str) {
        if self.params_at.is_empty() {
            let Some(end) = self.bytes.iter().rposition(|byte| *byte == b'}') else { return };
            let member = format!(",\"params\":{params}");
            self.params_at = end + member.len() - params.len()..end + member.len();
            replace(&mut self.bytes, end..end, &member);
        } else {
            self.replace(self.params_at.clone(), params);
        }
    }

    /// Replaces the raw `result` of a response that has one.
    pub(crate) fn set_result(&mut self, result: &str) {
        if !self.result_at.is_empty() {
            self.replace(self.result_at.clone(), result);
        }
    }

    /// Gives a request another id.
    pub(crate) fn rename(&mut self, id: &Id) {
        if let Kind::Request { id: old, .. } = &mut self.kind {
            *old = id.clone();
            self.replace(self.id_at.clone(), id.text());
        }
    }

    /// Replaces a part, and moves the parts behind it.
    fn replace(&mut self, at: Range<usize>, text: &str) {
        replace(&mut self.bytes, at.clone(), text);
        let Self { id_at, params_at, result_at, error_at, version_at, .. } = self;
        for part in [id_at, params_at, result_at, error_at, version_at] {
            if *part == at {
                part.end = at.start + text.len();
            } else if part.start >= at.end {
                *part = part.start - at.len() + text.len()..part.end - at.len() + text.len();
            }
        }
    }

    /// The message with this id in this spelling. If it had no id (servers omit it, or
    /// send null, in the bodies of HTTP errors), this writes a new response around the
    /// raw error or result.
    #[must_use]
    pub fn with_id(self, id: &Id) -> Vec<u8> {
        if self.id_at.is_empty() || matches!(self.kind, Kind::Response { id: None }) {
            let (name, part) = self.outcome();
            return write_response(id, name, part);
        }
        let Self { mut bytes, id_at, .. } = self;
        if bytes.get(id_at.clone()) != Some(id.text().as_bytes()) {
            replace(&mut bytes, id_at, id.text());
        }
        bytes
    }
}

/// Replaces a part in whole pieces: `Vec::splice` would go byte by byte.
fn replace(bytes: &mut Vec<u8>, at: Range<usize>, text: &str) {
    let rest = bytes.split_off(at.end);
    bytes.truncate(at.start);
    bytes.reserve(text.len() + rest.len());
    bytes.extend_from_slice(text.as_bytes());
    bytes.extend_from_slice(&rest);
}

/// Whether the value is a JSON-RPC error: an object with an integer code and a text.
fn is_error(error: &str) -> bool {
    #[derive(Deserialize)]
    struct Error<'a> {
        #[serde(rename = "code")]
        _code: i64,
        #[serde(borrow, rename = "message")]
        _message: Cow<'a, str>,
    }
    error.starts_with('{') && serde_json::from_str::<Error<'_>>(error).is_ok()
}

/// The raw member `name` of a raw object. Only that member is kept in memory.
#[must_use]
pub fn member<'a>(object: &'a str, name: &str) -> Option<&'a str> {
    let mut json = serde_json::Deserializer::from_str(object);
    let found = json.deserialize_map(Member(name)).ok()?;
    json.end().ok()?;
    found.map(RawValue::get)
}

/// Reads the member with this name; of several, the last.
struct Member<'n>(&'n str);

impl<'de> Visitor<'de> for Member<'_> {
    type Value = Option<&'de RawValue>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        while let Some(Name(name)) = members.next_key()? {
            if name == self.0 {
                found = Some(members.next_value()?);
            } else {
                members.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }
}

/// The name of a member, borrowed if it has no escapes.
#[derive(Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

/// The string member `name` of a raw object.
#[must_use]
pub fn text_member(object: &str, name: &str) -> Option<String> {
    serde_json::from_str(member(object, name)?).ok()
}

/// Formats a message as a line for stdio, with the line end. Raw CR and LF can occur only
/// between tokens, so this removes them. U+2028 and U+2029 can occur only in strings;
/// with `separators`, this escapes them, since some readers treat them as line ends.
#[must_use]
pub fn to_line(mut bytes: Vec<u8>, separators: bool) -> Vec<u8> {
    if memchr::memchr2(b'\n', b'\r', &bytes).is_some() {
        bytes.retain(|byte| !matches!(byte, b'\n' | b'\r'));
    }
    if separators && memchr::memmem::find(&bytes, b"\xE2\x80").is_some() {
        bytes = escape_separators(&bytes);
    }
    bytes.push(b'\n');
    bytes
}

/// Whether the JSON spans several lines.
#[must_use]
pub(crate) fn is_pretty(bytes: &[u8]) -> bool {
    memchr::memchr(b'\n', bytes).is_some()
}

fn escape_separators(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len() + 8);
    let mut rest = bytes;
    while let Some(at) = memchr::memmem::find(rest, b"\xE2\x80") {
        let (head, tail) = rest.split_at(at);
        out.extend_from_slice(head);
        let (escaped, skip): (&[u8], usize) = match tail.get(2) {
            Some(0xA8) => (b"\\u2028", 3),
            Some(0xA9) => (b"\\u2029", 3),
            _ => (b"\xE2\x80", 2),
        };
        out.extend_from_slice(escaped);
        rest = tail.get(skip..).unwrap_or_default();
    }
    out.extend_from_slice(rest);
    out
}

/// Writes an error response.
#[must_use]
pub fn write_error<D: Serialize>(id: &Id, code: i64, message: &str, data: Option<&D>) -> Vec<u8> {
    write_response(id, "error", &error_body(code, message, data))
}

/// A raw error.
pub(crate) fn error_body<D: Serialize>(code: i64, message: &str, data: Option<&D>) -> String {
    #[derive(Serialize)]
    struct Body<'a, D> {
        code: i64,
        message: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        data: Option<&'a D>,
    }
    serde_json::to_string(&Body { code, message, data }).unwrap_or_default()
}

/// Writes an error response, without an id if none was readable.
#[must_use]
pub(crate) fn write_refusal<D: Serialize>(id: Option<&Id>, code: i64, message: &str, data: Option<&D>) -> Vec<u8> {
    match id {
        Some(id) => write_error(id, code, message, data),
        None => format!("{{\"jsonrpc\":\"2.0\",\"error\":{}}}", error_body(code, message, data)).into_bytes(),
    }
}

/// Writes a response with a raw `result`.
pub(crate) fn write_result(id: &Id, result: &str) -> Vec<u8> {
    write_response(id, "result", result)
}

/// Writes a response with a raw `error`.
pub(crate) fn write_raw_error(id: &Id, error: &str) -> Vec<u8> {
    write_response(id, "error", error)
}

/// Writes a progress notification that reports no progress yet, only why.
pub(crate) fn write_waiting(token: &Id, why: &str) -> Vec<u8> {
    let why = serde_json::Value::from(why);
    let params = format!("{{\"progressToken\":{},\"progress\":0,\"message\":{why}}}", token.text());
    format!("{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{params}}}").into_bytes()
}

/// Writes a response around a raw `result` or `error`.
fn write_response(id: &Id, name: &str, part: &str) -> Vec<u8> {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"{name}\":{part}}}", id.text()).into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Result<Message, Malformed> {
        match parse(text.as_bytes().to_vec())? {
            Parsed::One(message) => Ok(message),
            Parsed::Batch(_) => panic!("a batch: {text}"),
        }
    }

    fn id(text: &str) -> Id {
        Id::parse(text).unwrap()
    }

    #[test]
    fn ids_compare_by_type_and_value_and_keep_their_spelling() {
        assert_ne!(id("1"), id("\"1\""));
        assert_eq!(id("\"a\""), id("\"\\u0061\""));
        assert_eq!(id("1"), id("1.0"));
        assert_ne!(id("9007199254740993"), id("9007199254740992"));
        assert_eq!(id("9007199254740993").text(), "9007199254740993");
        assert_eq!(id("\"\\u0061\"").text(), "\"\\u0061\"");
        assert_eq!(id("1e400").text(), "1e400");
        assert_ne!(id("1e400"), id("1e401"));
        for bad in ["", "null", "true", "{}", "[1]", "\"a", "1x", "-", "1e"] {
            assert!(Id::parse(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn big_integers_are_known_again_as_doubles() {
        assert!(id("9007199254740992").same_as_double(&id("9007199254740993")));
        assert!(!id("9007199254740992").same_as_double(&id("9007199254740995")));
        assert!(!id("\"1\"").same_as_double(&id("\"1\"")));
    }

    #[test]
    fn messages_are_told_apart() {
        let cases: &[(&str, &str)] = &[
            (r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#, "request 1 ping"),
            (r#"{"method":"a/b","params":{},"id":"x"}"#, "request \"x\" a/b"),
            (r#"{"jsonrpc":"2.0","method":"n"}"#, "notification n"),
            (r#"{"jsonrpc":"2.0","method":"n","id":null}"#, "Shape -"),
            (r#"{"result":{},"jsonrpc":"2.0","id":0}"#, "response 0"),
            (r#"{"result":null,"id":5}"#, "response 5"),
            (r#"{"error":{"code":1,"message":""},"id":null}"#, "response -"),
            (r#"{"error":{"code":1,"message":""}}"#, "response -"),
            (r#"{"id":4}"#, "Shape -"),
            ("{}", "Shape -"),
            ("7", "Shape -"),
            (r#"{"id":{},"method":"x"}"#, "Shape -"),
            (r#"{"id":5,"method":7}"#, "Shape 5"),
            (r#"{"id":5,"method":"x","params":{]"#, "Syntax 5"),
            ("nonsense", "Syntax -"),
            ("", "Syntax -"),
        ];
        for (text, want) in cases {
            assert_eq!(show(one(text)), *want, "{text}");
        }
    }

    fn show(parsed: Result<Message, Malformed>) -> String {
        let text = |id: Option<Id>| id.map_or("-".to_owned(), |id| id.text().to_owned());
        match parsed.map(|message| message.kind) {
            Ok(Kind::Request { id, method }) => format!("request {} {method}", id.text()),
            Ok(Kind::Notification { method }) => format!("notification {method}"),
            Ok(Kind::Response { id }) => format!("response {}", text(id)),
            Err(bad) => format!("{:?} {}", bad.fault, text(bad.id)),
        }
    }

    #[test]
    fn batches_are_told_from_messages() {
        assert!(matches!(parse(br#" [{"id":1,"method":"a"},7]"#.to_vec()), Ok(Parsed::Batch(_))));
        assert_eq!(parse(b"[]".to_vec()).unwrap_err().fault, Fault::EmptyBatch);
        assert_eq!(parse(b"[{}".to_vec()).unwrap_err().fault, Fault::Syntax);
        assert_eq!(parse(b"{\"a\":\"\xFF\"}".to_vec()).unwrap_err().fault, Fault::Encoding);
    }

    #[test]
    fn only_the_id_changes_when_it_is_put_back() {
        let text = r#"{ "result":{"n":9007199254740993,"z":1.0,"a":0}, "jsonrpc":"2.0","id":1.0,"x":[] }"#;
        let bytes = one(text).unwrap().with_id(&id("1"));
        assert_eq!(String::from_utf8(bytes).unwrap(), text.replace("1.0,\"x\"", "1,\"x\""));
        let same = one(text).unwrap().with_id(&id("1.0"));
        assert_eq!(same, text.as_bytes());
    }

    #[test]
    fn params_and_results_are_replaced_in_place() {
        let mut message = one(r#"{"method":"m","params":{"a":1},"id":7,"x":[]}"#).unwrap();
        message.set_params(r#"{"longer":true}"#);
        assert_eq!(message.params(), r#"{"longer":true}"#);
        let want = r#"{"method":"m","params":{"longer":true},"id":"y","x":[]}"#;
        assert_eq!(String::from_utf8(message.with_id(&id("\"y\""))).unwrap(), want);
        let mut message = one(r#"{"method":"m","id":7 } "#).unwrap();
        message.set_params("{}");
        assert_eq!((message.params(), &*message.bytes), ("{}", &br#"{"method":"m","id":7 ,"params":{}} "#[..]));
        let mut message = one(r#"{"id":1,"result":{"b":2},"jsonrpc":"2.0"}"#).unwrap();
        message.set_result("{}");
        assert_eq!((message.result(), &*message.bytes), ("{}", &br#"{"id":1,"result":{},"jsonrpc":"2.0"}"#[..]));
    }

    #[test]
    fn a_missing_or_null_id_is_filled_in() {
        for text in [
            r#"{"jsonrpc":"2.0","error":{"code":-1,"message":"m"},"id":null}"#,
            r#"{"error":{"code":-1,"message":"m"}}"#,
        ] {
            let line = String::from_utf8(one(text).unwrap().with_id(&id("7"))).unwrap();
            let value: serde_json::Value = serde_json::from_str(&line).unwrap();
            assert_eq!((value["id"].as_u64(), value["error"]["code"].as_i64()), (Some(7), Some(-1)), "{line}");
            assert_eq!(line.matches("\"id\"").count(), 1);
        }
    }

    #[test]
    fn what_a_server_sends_is_made_valid_or_refused() {
        let right = r#"{"x":1, "result":{},"jsonrpc":"2.0","id":1}"#;
        let cases = [
            (right, Some(right)),
            (r#"{"id":1,"result":{}}"#, Some(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#)),
            (r#" {"id":1,"result":{},"jsonrpc":"1.0"}"#, Some(r#" {"id":1,"result":{},"jsonrpc":"2.0"}"#)),
            (r#"{"jsonrpc":2,"method":"n"}"#, Some(r#"{"jsonrpc":"2.0","method":"n"}"#)),
            (r#"{"method":"q","id":"x"}"#, Some(r#"{"jsonrpc":"2.0","method":"q","id":"x"}"#)),
            (r#"{"jsonrpc":"2.0","id":1,"result":{},"error":null}"#, Some(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#)),
            (
                r#"{"jsonrpc":"2.0","id":1,"result":null,"error":{"code":-1,"message":"m"}}"#,
                Some(r#"{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"m"}}"#),
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"ping","result":{}}"#,
                Some(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#),
            ),
            (
                r#"{"jsonrpc":"2.0","method":"n\"","params":{"a":1.0},"error":null}"#,
                Some(r#"{"jsonrpc":"2.0","method":"n\"","params":{"a":1.0}}"#),
            ),
            (r#"{"jsonrpc":"2.0","method":"n","params":null}"#, Some(r#"{"jsonrpc":"2.0","method":"n"}"#)),
            (r#"{"jsonrpc":"2.0","method":"n","params":[1]}"#, Some(r#"{"jsonrpc":"2.0","method":"n","params":[1]}"#)),
            (r#"{"jsonrpc":"2.0","id":1,"result":{},"method":null}"#, Some(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#)),
            (r#"{"jsonrpc":"2.0","id":1,"result":{},"params":{}}"#, Some(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#)),
            (r#"{"jsonrpc":"2.0","id":1,"error":"invalid_token"}"#, None),
            (r#"{"jsonrpc":"2.0","id":1,"error":{"message":"m"}}"#, None),
            (r#"{"jsonrpc":"2.0","id":1,"error":{"code":"x","message":"m"}}"#, None),
            (r#"{"jsonrpc":"2.0","id":1,"error":{"code":1.5,"message":"m"}}"#, None),
            (r#"{"jsonrpc":"2.0","id":1,"error":{"code":1}}"#, None),
            (r#"{"error":"invalid_token","error_description":"no"}"#, None),
        ];
        for (text, want) in cases {
            let bytes = one(text).unwrap().valid().ok().map(|message| message.bytes);
            assert_eq!(bytes.as_deref(), want.map(str::as_bytes), "{text}");
        }
    }

    #[test]
    fn parts_are_lent_raw() {
        let message = one(r#"{"id":1,"method":"m","params":{"requestId": "x", "n": 1.50}}"#).unwrap();
        assert_eq!(message.params(), r#"{"requestId": "x", "n": 1.50}"#);
        assert_eq!(member(message.params(), "n"), Some("1.50"));
        assert_eq!(text_member(message.params(), "requestId").as_deref(), Some("x"));
        assert_eq!((message.result(), member("[]", "n")), ("", None));
        assert_eq!(member(r#"{"a":1,"\u0061":2,"b":{"a":3}}"#, "a"), Some("2"));
        assert_eq!(member(r#"{"a":1} x"#, "a"), None);
    }

    #[test]
    fn a_line_has_no_line_ends_and_no_separators_inside() {
        let cases = [
            ("{\n  \"a\": 1\r\n}", "{  \"a\": 1}\n"),
            ("{\"a\":\"x\u{2028}y\u{2029}\u{2027}é\"}", "{\"a\":\"x\\u2028y\\u2029\u{2027}é\"}\n"),
            ("{}", "{}\n"),
        ];
        for (text, want) in cases {
            assert_eq!(String::from_utf8(to_line(text.into(), true)).unwrap(), want);
        }
    }

    #[test]
    fn errors_are_written_with_the_id_as_it_was_spelt() {
        let line = write_error::<()>(&id("\"\\u0061\""), -32000, "a \"b\"", None);
        assert_eq!(
            String::from_utf8(line).unwrap(),
            r#"{"jsonrpc":"2.0","id":"\u0061","error":{"code":-32000,"message":"a \"b\""}}"#
        );
    }
}
