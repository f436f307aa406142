//! JSON-RPC errors in both eras: which codes change, and the errors of the modern revision.
//! The conditions for an error do not belong here. Errors in place of a missing answer
//! belong to `failure`.

use super::edit;
use crate::failure::UNSUPPORTED_VERSION;
use http::StatusCode;
use std::borrow::Cow;

pub(crate) const METHOD_NOT_FOUND: i64 = -32601;
pub(crate) const INVALID_PARAMS: i64 = -32602;
pub(crate) const INTERNAL_ERROR: i64 = -32603;
pub(crate) const HEADER_MISMATCH: i64 = -32020;
pub(crate) const MISSING_CAPABILITY: i64 = -32021;
/// Legacy: no such resource.
const RESOURCE_NOT_FOUND: i64 = -32002;
/// Legacy, 2025-11-25: the client must first open URLs.
const URL_ELICITATION_REQUIRED: i64 = -32042;

/// How many URLs an error may ask a client to open.
const MOST_ELICITATIONS: usize = 32;

/// The refusal of a request: a raw error and its HTTP status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    pub(crate) error: String,
}

impl Refusal {
    /// The request needs client capabilities, a raw object, that it does not declare.
    pub(crate) fn missing_capability(required: &str) -> Self {
        let data = edit::object([("requiredCapabilities", required)]);
        Self::bad_request(MISSING_CAPABILITY, "Missing required client capability", Some(&data))
    }

    /// The request has a version that the proxy does not serve.
    pub(crate) fn unsupported_version(supported: &[&str], requested: &str) -> Self {
        let data = edit::object([("supported", &*list(supported)), ("requested", &*edit::quote(requested))]);
        Self::bad_request(UNSUPPORTED_VERSION, "Unsupported protocol version", Some(&data))
    }

    /// The envelope lacks a required key.
    pub(crate) fn missing_key(key: &str) -> Self {
        Self::bad_request(INVALID_PARAMS, &format!("Missing or invalid _meta key: {key}"), None)
    }

    fn bad_request(code: i64, message: &str, data: Option<&str>) -> Self {
        Self { status: StatusCode::BAD_REQUEST, error: write(code, message, data) }
    }
}

/// A legacy server's error for a modern client; `params` are those of the request. Codes that
/// the modern revision reserves become internal errors, with the original as `data`. Look for
/// [`url_elicitations`] first.
pub(crate) fn to_modern<'a>(method: &str, params: &str, error: &'a str) -> Cow<'a, str> {
    match code(error) {
        Some(RESOURCE_NOT_FOUND) => Cow::Owned(not_found(method, params, error)),
        Some(-32099..=-32020) => {
            Cow::Owned(edit::with(error, &[("code", &*INTERNAL_ERROR.to_string()), ("data", error)]))
        }
        Some(_) | None => Cow::Borrowed(error),
    }
}

/// The params of the elicitations that a legacy server requires before it executes a
/// request. `None` if the error is another one, or does not list them.
pub(crate) fn url_elicitations(error: &str) -> Option<Vec<String>> {
    code(error).filter(|code| *code == URL_ELICITATION_REQUIRED)?;
    let [data] = edit::get(error, ["data"]);
    let [elicitations] = edit::get(data?, ["elicitations"]);
    let mut params = Vec::new();
    edit::each(elicitations?, &mut |item| {
        if edit::is_object(item.value) && params.len() <= MOST_ELICITATIONS {
            params.push(edit::with(&edit::without(item.value, &["elicitationId"]), &[("mode", "\"url\"")]));
        }
    })?;
    Some(params).filter(|params| (1..=MOST_ELICITATIONS).contains(&params.len()))
}

fn not_found(method: &str, params: &str, error: &str) -> String {
    let code = INVALID_PARAMS.to_string();
    let [data] = edit::get(error, ["data"]);
    let [uri] = edit::get(params, ["uri"]);
    let known = edit::get(data.unwrap_or_default(), ["uri"]) != [None];
    let extends = data.is_none_or(|data| edit::is_object(data) || data == "null");
    match uri.filter(|_| method == "resources/read" && extends && !known) {
        Some(uri) => {
            let data = edit::with(data.unwrap_or_default(), &[("uri", uri)]);
            edit::with(error, &[("code", &*code), ("data", &*data)])
        }
        None => edit::with(error, &[("code", &*code)]),
    }
}

fn code(error: &str) -> Option<i64> {
    let [code] = edit::get(error, ["code"]);
    code?.parse().ok()
}

fn write(code: i64, message: &str, data: Option<&str>) -> String {
    let (code, message) = (code.to_string(), edit::quote(message));
    let data = data.map(|data| ("data", data));
    edit::object([("code", &*code), ("message", &*message)].into_iter().chain(data))
}

fn list(texts: &[&str]) -> String {
    let texts: Vec<String> = texts.iter().map(|text| edit::quote(text)).collect();
    format!("[{}]", texts.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn legacy_codes_become_modern_ones() {
        let read = r#"{"uri":"file:\/\/\/a"}"#;
        let cases = [
            (
                "resources/read",
                r#"{"code":-32002,"message":"m"}"#,
                r#"{"message":"m","code":-32602,"data":{"uri":"file:\/\/\/a"}}"#,
            ),
            (
                "resources/read",
                r#"{"code":-32002,"message":"m","data":{"n":1.0}}"#,
                r#"{"message":"m","code":-32602,"data":{"n":1.0,"uri":"file:\/\/\/a"}}"#,
            ),
            (
                "resources/read",
                r#"{"code":-32002,"message":"m","data":{"uri":"x"}}"#,
                r#"{"message":"m","data":{"uri":"x"},"code":-32602}"#,
            ),
            ("resources/read", r#"{"code":-32002,"data":"text"}"#, r#"{"data":"text","code":-32602}"#),
            ("prompts/get", r#"{"code":-32002,"message":"m"}"#, r#"{"message":"m","code":-32602}"#),
            (
                "tools/call",
                r#"{"code":-32050,"message":"m","data":1.0}"#,
                r#"{"message":"m","code":-32603,"data":{"code":-32050,"message":"m","data":1.0}}"#,
            ),
            ("x", r#"{"code":-32022}"#, r#"{"code":-32603,"data":{"code":-32022}}"#),
            ("x", r#"{"code":-32019,"message":"m"}"#, r#"{"code":-32019,"message":"m"}"#),
            ("x", r#"{"code":-32100}"#, r#"{"code":-32100}"#),
            ("x", r#"{"code":-32601,"message":"m"}"#, r#"{"code":-32601,"message":"m"}"#),
            ("x", r#"{"code":"x"}"#, r#"{"code":"x"}"#),
            ("x", "", ""),
        ];
        for (method, error, want) in cases {
            assert_eq!(to_modern(method, read, error), want, "{method} {error}");
        }
        assert_eq!(to_modern("resources/read", "", r#"{"code":-32002}"#), r#"{"code":-32602}"#);
    }

    #[test]
    fn required_urls_become_elicitations() {
        let error =
            |elicitations: &str| format!(r#"{{"code":-32042,"message":"m","data":{{"elicitations":{elicitations}}}}}"#);
        let one = r#"{"mode":"url","elicitationId":"e","url":"https://h/","message":"?"}"#;
        let want = vec![r#"{"url":"https://h/","message":"?","mode":"url"}"#.to_owned()];
        let cases = [
            (error(&format!("[{one}]")), Some(want)),
            (error(&format!("[{}]", vec!["{}"; 32].join(","))), Some(vec![r#"{"mode":"url"}"#.to_owned(); 32])),
            (error(&format!("[{}]", vec!["{}"; 33].join(","))), None),
            (error("[]"), None),
            (error("7"), None),
            (error("[7]"), None),
            (r#"{"code":-32042,"message":"m"}"#.to_owned(), None),
            (error(&format!("[{one}]")).replace("-32042", "-32000"), None),
        ];
        for (error, want) in cases {
            assert_eq!(url_elicitations(&error), want, "{error}");
        }
    }

    #[test]
    fn modern_errors_are_written() {
        let cases = [
            (
                Refusal::missing_capability(r#"{"sampling":{}}"#),
                400,
                r#"{"code":-32021,"message":"Missing required client capability","data":{"requiredCapabilities":{"sampling":{}}}}"#,
            ),
            (
                Refusal::unsupported_version(&["2026-07-28"], "v999"),
                400,
                r#"{"code":-32022,"message":"Unsupported protocol version","data":{"supported":["2026-07-28"],"requested":"v999"}}"#,
            ),
            (Refusal::missing_key("k"), 400, r#"{"code":-32602,"message":"Missing or invalid _meta key: k"}"#),
        ];
        for (refusal, status, error) in cases {
            assert_eq!((refusal.status.as_u16(), &*refusal.error), (status, error));
        }
    }
}
