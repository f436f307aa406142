//! The parts of a modern request that its HTTP headers repeat (2026-07-28, "Streamable
//! HTTP"): the method, the name, and the arguments that a tool's schema marks with
//! `x-mcp-header`. This module encodes them, and reads the annotations in a `tools/list`. The
//! version header does not belong here.

use super::edit::{self, Change};
use super::results;
use super::schema::{self, Step};
use base64::Engine;
use base64::prelude::BASE64_STANDARD as BASE64;
use http::{HeaderName, HeaderValue};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

pub(crate) const MCP_METHOD: HeaderName = HeaderName::from_static("mcp-method");
pub(crate) const MCP_NAME: HeaderName = HeaderName::from_static("mcp-name");

const ANNOTATION: &str = "x-mcp-header";
const OPENING: &str = "=?base64?";
const CLOSING: &str = "?=";

/// Limits for the headers of a request. Arguments beyond them get no header.
const MOST_HEADERS: usize = 64;
const LONGEST_VALUE: usize = 8 << 10;
const LONGEST_VALUES: usize = 32 << 10;
const LONGEST_NAME: usize = 256;
const LONGEST_PATH: usize = 4 << 10;
const DEEPEST_PATH: usize = 32;

/// Limits for what is remembered of all tools.
const MOST_TOOLS: usize = 1000;
const MOST_BYTES: usize = 1 << 20;

/// The annotations of a `tools/list` result.
#[derive(Debug)]
pub(crate) struct Tools<'a> {
    /// The result without the tools that have an invalid annotation.
    pub(crate) text: Cow<'a, str>,
    /// The names of those tools, and their faults.
    pub(crate) dropped: Vec<(String, Fault)>,
    /// The headers of the other tools, for those that have any.
    pub(crate) headers: BTreeMap<String, ToolHeaders>,
}

/// The headers that repeat arguments of one tool.
pub(crate) type ToolHeaders = Vec<ParamHeader>;

/// A header that repeats an argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ParamHeader {
    pub(crate) name: HeaderName,
    /// The names of the nested arguments that lead to the value, at least one.
    pub(crate) path: Vec<String>,
}

/// The fault of an annotation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It is not a name for a header.
    Name,
    /// Two annotations have the same name, apart from case.
    Twice,
    /// The value is not a string, an integer or a boolean.
    Type,
    /// `properties` alone do not lead to it.
    Place,
}

impl Fault {
    /// Describes the fault.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Name => "x-mcp-header is not a header name",
            Self::Twice => "two properties have the same x-mcp-header",
            Self::Type => "a property with x-mcp-header is not a string, an integer or a boolean",
            Self::Place => "x-mcp-header is not on a plain property",
        }
    }
}

/// The headers that repeat arguments, of all tools whose lists have passed.
#[derive(Debug, Default)]
pub(crate) struct Table {
    headers: BTreeMap<String, ToolHeaders>,
    bytes: usize,
}

impl Table {
    /// Reads a `tools/list` result. A page says nothing about the tools of another one.
    pub(crate) fn learn<'a>(&mut self, result: &'a str) -> Tools<'a> {
        if !self.headers.is_empty() {
            for name in results::tool_names(result) {
                let known = self.headers.remove(&name);
                self.bytes -= known.map_or(0, |headers| size(&name, &headers));
            }
        }
        let mut tools = Tools::read(result);
        for (name, headers) in std::mem::take(&mut tools.headers) {
            let bytes = self.bytes + size(&name, &headers);
            if self.headers.len() < MOST_TOOLS && bytes <= MOST_BYTES {
                self.bytes = bytes;
                self.headers.insert(name, headers);
            }
        }
        tools
    }

    /// The headers of a tool.
    pub(crate) fn of(&self, tool: &str) -> &[ParamHeader] {
        self.headers.get(tool).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.headers.is_empty()
    }
}

/// The bytes that the headers of a tool take.
fn size(name: &str, headers: &[ParamHeader]) -> usize {
    let header = |header: &ParamHeader| {
        let parts: usize = header.path.iter().map(|part| size_of::<String>() + part.len()).sum();
        size_of::<ParamHeader>() + header.name.as_str().len() + parts
    };
    name.len() + headers.iter().map(header).sum::<usize>()
}

impl<'a> Tools<'a> {
    /// Reads a `tools/list` result.
    pub(crate) fn read(result: &'a str) -> Self {
        let (mut dropped, mut headers) = (Vec::new(), BTreeMap::new());
        if memchr::memmem::find(result.as_bytes(), ANNOTATION.as_bytes()).is_none() {
            return Self { text: Cow::Borrowed(result), dropped, headers };
        }
        let mut check = |tool: &str| {
            let [name, input] = edit::get(tool, ["name", "inputSchema"]);
            let name = name.and_then(edit::string).unwrap_or_default().into_owned();
            match annotations(input.unwrap_or_default()) {
                Ok(found) if found.is_empty() => Change::Keep,
                Ok(found) => {
                    headers.insert(name, found);
                    Change::Keep
                }
                Err(fault) => {
                    dropped.push((name, fault));
                    Change::Drop
                }
            }
        };
        let text = edit::rewrite(result, &[], &mut |member| match member.name() {
            Some("tools") => edit::rewrite(member.value, &[], &mut |tool| check(tool.value)).into(),
            Some(_) | None => Change::Keep,
        });
        Self { text, dropped, headers }
    }
}

/// The headers for the method and the name of a request.
pub(crate) fn standard_headers(method: &str, params: &str) -> Vec<(HeaderName, HeaderValue)> {
    let method_header = Some(method).filter(|method| method.len() <= LONGEST_VALUE);
    let method_header = method_header.and_then(|method| Some((MCP_METHOD, HeaderValue::from_str(method).ok()?)));
    let name = name(method, params).and_then(encode).map(|value| (MCP_NAME, value));
    method_header.into_iter().chain(name).collect()
}

/// The member of the params that `Mcp-Name` repeats, for methods that have one.
pub(crate) fn named_by(method: &str) -> Option<&'static str> {
    match method {
        "tools/call" | "prompts/get" => Some("name"),
        "resources/read" => Some("uri"),
        "tasks/get" | "tasks/update" | "tasks/cancel" => Some("taskId"),
        _ => None,
    }
}

/// The raw value that `Mcp-Name` repeats, for methods that have one.
fn name<'a>(method: &str, params: &'a str) -> Option<&'a str> {
    let [value] = edit::get(params, [named_by(method)?]);
    value
}

/// The headers that repeat arguments. `arguments` is the raw member of a `tools/call`.
pub(crate) fn param_headers(headers: &[ParamHeader], arguments: &str) -> Vec<(HeaderName, HeaderValue)> {
    let values = param_values(headers, arguments).into_iter();
    let coded = values.filter_map(|(header, value)| Some((header.name.clone(), encode(value?)?)));
    let mut room = LONGEST_VALUES;
    let fits = |(_, value): &(HeaderName, HeaderValue)| {
        let left = room.checked_sub(value.len());
        left.is_some_and(|left| {
            room = left;
            true
        })
    };
    coded.filter(fits).collect()
}

/// Each header with the raw argument that it repeats; `None` if there is none, or null.
pub(crate) fn param_values<'h, 'a>(
    headers: &'h [ParamHeader],
    arguments: &'a str,
) -> Vec<(&'h ParamHeader, Option<&'a str>)> {
    let mut values: Vec<_> = headers.iter().map(|header| (header, None)).collect();
    let mut all: Vec<_> = values.iter_mut().map(|(header, value)| (&*header.path, value)).collect();
    find(&mut all, arguments);
    for (_, value) in &mut values {
        *value = value.filter(|value| *value != "null");
    }
    values
}

/// Follows all paths at once. The depth is that of the longest path, which is bounded.
fn find<'a>(wanted: &mut [(&[String], &mut Option<&'a str>)], object: &'a str) {
    if !edit::is_object(object) {
        return;
    }
    let _ = edit::each(object, &mut |member| {
        let mut deeper: Vec<(&[String], &mut Option<&'a str>)> = Vec::new();
        for (path, value) in wanted.iter_mut() {
            match path.split_first() {
                Some((name, rest)) if member.name() == Some(name) => {
                    **value = rest.is_empty().then_some(member.value);
                    deeper.extend((!rest.is_empty()).then_some((rest, &mut **value)));
                }
                Some(_) | None => {}
            }
        }
        if !deeper.is_empty() {
            find(&mut deeper, member.value);
        }
    });
}

/// A raw string, number or boolean as a header. `None` for other values, and long ones.
pub(crate) fn encode(value: &str) -> Option<HeaderValue> {
    let text = match value.as_bytes().first()? {
        b'"' => wrap(edit::string(value)?),
        b'{' | b'[' | b'n' => return None,
        _ => Cow::Borrowed(value),
    };
    HeaderValue::from_str(&text).ok().filter(|value| value.len() <= LONGEST_VALUE)
}

/// The text, or its base64 if a header could change or misread it.
fn wrap(text: Cow<'_, str>) -> Cow<'_, str> {
    let visible = text.bytes().all(|byte| matches!(byte, b'\t' | b' '..=b'~'));
    let marked = text.starts_with(OPENING) && text.ends_with(CLOSING);
    if visible && !marked && !text.is_empty() && trim(&text) == text {
        return text;
    }
    Cow::Owned(format!("{OPENING}{}{CLOSING}", BASE64.encode(&*text)))
}

fn trim(text: &str) -> &str {
    text.trim_matches([' ', '\t'])
}

/// The headers that a tool's input schema asks for.
fn annotations(schema: &str) -> Result<ToolHeaders, Fault> {
    let mut annotations = Annotations::default();
    if memchr::memmem::find(schema.as_bytes(), ANNOTATION.as_bytes()).is_some() {
        schema::walk(schema, &mut |step| annotations.step(step));
    }
    annotations.fault.map_or(Ok(annotations.headers), Err)
}

#[derive(Default)]
struct Annotations<'a> {
    /// The annotation and the type of each open schema.
    open: Vec<(Option<&'a str>, Option<&'a str>)>,
    /// In lower case.
    names: BTreeSet<String>,
    headers: ToolHeaders,
    fault: Option<Fault>,
}

impl<'a> Annotations<'a> {
    fn step(&mut self, step: Step<'_, 'a>) {
        match step {
            Step::Enter => self.open.push((None, None)),
            Step::Keyword { name, value, .. } => match (name, self.open.last_mut()) {
                (ANNOTATION, Some((annotation, _))) => *annotation = Some(value),
                ("type", Some((_, kind))) => *kind = Some(value),
                _ => {}
            },
            Step::Leave(path) => {
                if let Some((Some(annotation), kind)) = self.open.pop() {
                    self.fault = self.fault.or(self.add(annotation, kind, path).err());
                }
            }
        }
    }

    fn add(&mut self, annotation: &str, kind: Option<&str>, path: Option<&[Cow<'a, str>]>) -> Result<(), Fault> {
        let path = path.ok_or(Fault::Place)?;
        let name = edit::string(annotation).filter(|name| is_token(name)).ok_or(Fault::Name)?;
        if !matches!(kind, Some("\"string\"" | "\"integer\"" | "\"boolean\"")) {
            return Err(Fault::Type);
        }
        if !self.names.insert(name.to_ascii_lowercase()) {
            return Err(Fault::Twice);
        }
        let path_len: usize = path.iter().map(|part| part.len()).sum();
        let short = name.len() <= LONGEST_NAME && path_len <= LONGEST_PATH && path.len() <= DEEPEST_PATH;
        let header = HeaderName::try_from(format!("mcp-param-{name}")).ok().filter(|_| short);
        if let Some(name) = header.filter(|_| self.headers.len() < MOST_HEADERS) {
            let path = path.iter().map(|part| part.clone().into_owned()).collect();
            self.headers.push(ParamHeader { name, path });
        }
        Ok(())
    }
}

/// RFC 9110, section 5.6.2.
fn is_token(name: &str) -> bool {
    let is_token_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !name.is_empty() && name.bytes().all(is_token_byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_coded() {
        let cases = [
            (r#""us-west1""#, Some("us-west1")),
            (r#""Hello, 世界""#, Some("=?base64?SGVsbG8sIOS4lueVjA==?=")),
            (r#"" padded ""#, Some("=?base64?IHBhZGRlZCA=?=")),
            (r#""line1\nline2""#, Some("=?base64?bGluZTEKbGluZTI=?=")),
            (r#""=?base64?literal?=""#, Some("=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?=")),
            (r#""a b\tc""#, Some("a b\tc")),
            (r#""=?base64?""#, Some("=?base64?")),
            (r#""""#, Some("=?base64??=")),
            (r#""\t""#, Some("=?base64?CQ==?=")),
            (r#""\u007f""#, Some("=?base64?fw==?=")),
            ("9007199254740993", Some("9007199254740993")),
            ("-1", Some("-1")),
            ("true", Some("true")),
            ("null", None),
            ("{}", None),
            ("[1]", None),
            (r#""\ud800""#, None),
            ("", None),
        ];
        for (value, want) in cases {
            let coded = encode(value);
            assert_eq!(coded.as_ref().map(|value| value.to_str().unwrap()), want, "{value}");
        }
        let long = edit::quote(&"a".repeat(LONGEST_VALUE));
        assert!(encode(&long).is_some() && encode(&long.replacen('a', "aa", 1)).is_none());
    }

    #[test]
    fn headers_of_arguments_are_bounded_together() {
        let name = |n: usize| format!("mcp-param-{n}");
        let headers: Vec<ParamHeader> =
            (0..8).map(|n| ParamHeader { name: name(n).parse().unwrap(), path: vec![n.to_string()] }).collect();
        let long = edit::quote(&"a".repeat(LONGEST_VALUE - 1));
        let arguments: Vec<String> = (0..8).map(|n| format!("\"{n}\":{}", if n == 7 { "1" } else { &long })).collect();
        let sent = param_headers(&headers, &format!("{{{}}}", arguments.join(",")));
        let names: Vec<&str> = sent.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["mcp-param-0", "mcp-param-1", "mcp-param-2", "mcp-param-3", "mcp-param-7"]);
    }

    #[test]
    fn requests_name_their_method_and_object() {
        let cases = [
            ("tools/call", r#"{"name":"add"}"#, "tools/call add"),
            ("prompts/get", r#"{"name":"食"}"#, "prompts/get =?base64?6aOf?="),
            ("resources/read", r#"{"uri":"file:///a b"}"#, "resources/read file:///a b"),
            ("tasks/cancel", r#"{"taskId":"t"}"#, "tasks/cancel t"),
            ("tools/list", r#"{"name":"add"}"#, "tools/list"),
            ("tools/call", "{}", "tools/call"),
            ("a\nb", "", ""),
        ];
        for (method, params, want) in cases {
            let headers = standard_headers(method, params);
            let values: Vec<_> = headers.iter().map(|(_, value)| value.to_str().unwrap()).collect();
            assert_eq!(values.join(" "), want, "{method}");
        }
    }

    fn list(schemas: &[&str]) -> String {
        let tools: Vec<String> = schemas
            .iter()
            .enumerate()
            .map(|(at, schema)| format!(r#"{{"name":"t{at}","inputSchema":{schema}}}"#))
            .collect();
        format!(r#"{{"tools":[{}],"n":1.0}}"#, tools.join(" , "))
    }

    #[test]
    fn annotations_are_read_or_refused() {
        let at = |property: &str| format!(r#"{{"type":"object","properties":{{"a":{property}}}}}"#);
        let cases = [
            (at(r#"{"type":"string","x-mcp-header":"Region"}"#), Ok("mcp-param-region=a")),
            (at(r#"{"x-mcp-header":"X","type":"integer"}"#), Ok("mcp-param-x=a")),
            (at(r#"{"properties":{"b":{"type":"boolean","x-mcp-header":"B"}}}"#), Ok("mcp-param-b=a/b")),
            (at(r#"{"type":"string"}"#), Ok("")),
            (at(r#"{"default":{"x-mcp-header":"a"}}"#), Ok("")),
            (r#"{"properties":{"x-mcp-header":{"type":"string"}}}"#.to_owned(), Ok("")),
            ("7".to_owned(), Ok("")),
            (at(r#"{"type":"number","x-mcp-header":"A"}"#), Err(Fault::Type)),
            (at(r#"{"type":["string"],"x-mcp-header":"A"}"#), Err(Fault::Type)),
            (at(r#"{"x-mcp-header":"A"}"#), Err(Fault::Type)),
            (at(r#"{"type":"string","x-mcp-header":""}"#), Err(Fault::Name)),
            (at(r#"{"type":"string","x-mcp-header":"a b"}"#), Err(Fault::Name)),
            (at(r#"{"type":"string","x-mcp-header":"é"}"#), Err(Fault::Name)),
            (at(r#"{"type":"string","x-mcp-header":"a:b"}"#), Err(Fault::Name)),
            (at(r#"{"type":"string","x-mcp-header":{}}"#), Err(Fault::Name)),
            (at(r#"{"items":{"type":"string","x-mcp-header":"A"}}"#), Err(Fault::Place)),
            (at(r#"{"anyOf":[{"type":"string","x-mcp-header":"A"}]}"#), Err(Fault::Place)),
            (r#"{"$defs":{"a":{"type":"string","x-mcp-header":"A"}}}"#.to_owned(), Err(Fault::Place)),
            (at(r#"{"type":"string","x-mcp-header":"A"},"b":{"type":"string","x-mcp-header":"a"}"#), Err(Fault::Twice)),
            (r#"{"type":"object","x-mcp-header":"A"}"#.to_owned(), Err(Fault::Type)),
        ];
        for (schema, want) in cases {
            let found = annotations(&schema).map(|headers| {
                let show = |header: &ParamHeader| format!("{}={}", header.name, header.path.join("/"));
                headers.iter().map(show).collect::<Vec<_>>().join(" ")
            });
            assert_eq!(found, want.map(str::to_owned), "{schema}");
        }
    }

    #[test]
    fn tools_with_invalid_annotations_are_left_out() {
        let good = r#"{"properties":{"region":{"type":"string","x-mcp-header":"Region"}}}"#;
        let bad = r#"{"properties":{"n":{"type":"number","x-mcp-header":"N"}}}"#;
        let text = list(&["{}", bad, good]);
        let tools = Tools::read(&text);
        assert_eq!(tools.text, text.replace(&format!(r#" , {{"name":"t1","inputSchema":{bad}}}"#), ""));
        assert_eq!(tools.dropped, [("t1".to_owned(), Fault::Type)]);
        assert_eq!(tools.headers.keys().collect::<Vec<_>>(), ["t2"]);
        assert_eq!(Tools::read(&list(&[bad])).text, list(&[]));
        let plain = list(&[good]);
        assert!(matches!(Tools::read(&plain).text, Cow::Borrowed(_)));
        for result in ["", "7", r#"{"tools":{"x-mcp-header":1}}"#, r#"{"tools":["x-mcp-header"]}"#] {
            assert_eq!(Tools::read(result).text, result);
        }
        assert!(Fault::Type.words().contains("x-mcp-header"));
    }

    #[test]
    fn arguments_become_headers() {
        let schema = r#"{"properties":{"region":{"type":"string","x-mcp-header":"Region"},"verbose":{"type":"boolean","x-mcp-header":"Verbose"},"o":{"properties":{"n":{"type":"integer","x-mcp-header":"N"}}}}}"#;
        let headers = annotations(schema).unwrap();
        let cases = [
            (r#"{"region":" us","verbose":null}"#, "region: =?base64?IHVz?="),
            (r#"{"verbose":true,"o":{"n":7}}"#, "verbose: true, n: 7"),
            (r#"{"o":{"n":7},"o":{"m":8}}"#, ""),
            (r#"{"o":{"n":1},"o":{"n":2}}"#, "n: 2"),
            (r#"{"o":[{"n":7}],"region":{"x":1}}"#, ""),
            (r#"[{"region":"x"}]"#, ""),
            ("", ""),
        ];
        for (arguments, want) in cases {
            let found = param_headers(&headers, arguments);
            let show = |(name, value): &(HeaderName, HeaderValue)| {
                format!("{}: {}", name.as_str().trim_start_matches("mcp-param-"), value.to_str().unwrap())
            };
            assert_eq!(found.iter().map(show).collect::<Vec<_>>().join(", "), want, "{arguments}");
        }
    }

    #[test]
    fn headers_are_bounded() {
        let property = |at: usize| format!(r#""p{at}":{{"type":"string","x-mcp-header":"H{at}"}}"#);
        let many: Vec<String> = (0..100).map(property).collect();
        let headers = annotations(&format!(r#"{{"properties":{{{}}}}}"#, many.join(","))).unwrap();
        assert_eq!(headers.len(), MOST_HEADERS);
        let deep =
            r#"{"properties":{"a":"#.repeat(1000) + r#"{"type":"string","x-mcp-header":"H"}"# + &"}}".repeat(1000);
        assert_eq!(annotations(&deep), Ok(Vec::new()));
        let long = "H".repeat(1000);
        let schema = format!(r#"{{"properties":{{"a":{{"type":"string","x-mcp-header":"{long}"}}}}}}"#);
        assert_eq!(annotations(&schema), Ok(Vec::new()));
    }
}
