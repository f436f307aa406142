//! Results in both eras: what a modern client needs in addition, and what a legacy client
//! cannot read. Errors do not belong here, nor do the questions in a result that asks for
//! input.

use super::edit::{self, Change, Item};
use super::schema;
use super::subscriptions::SUBSCRIPTION_ID;
use std::borrow::Cow;

/// The key of `_meta` with a modern server's name and version.
pub(crate) const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";

const RESULT_TYPE: &str = "resultType";
const STRUCTURED: &str = "structuredContent";

/// The members that only modern results have.
const MODERN: [&str; 3] = [RESULT_TYPE, "ttlMs", "cacheScope"];

/// The kinds of results.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ResultType {
    Complete,
    /// The client has to answer questions, and send the request again.
    InputRequired,
    /// A type of an extension, or a value that is not a type.
    Other(String),
}

/// Whether `strip` wrapped the output schema of the tool that was called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OutputSchema {
    Plain,
    Wrapped,
}

/// The type of a modern result. A result without a type is complete.
pub(crate) fn result_type(result: &str) -> ResultType {
    let [value] = edit::get(result, [RESULT_TYPE]);
    match value.map(|value| edit::string(value).unwrap_or(Cow::Borrowed(value))).as_deref() {
        None | Some("complete") => ResultType::Complete,
        Some("input_required") => ResultType::InputRequired,
        Some(other) => ResultType::Other(other.to_owned()),
    }
}

/// A legacy server's result for a modern client. `server_info` is a raw object. A result
/// that is not an object becomes one.
pub(crate) fn stamp(method: &str, result: &str, server_info: Option<&str>) -> String {
    let result = if edit::is_object(result) { result } else { "{}" };
    let result = if method == "tools/list" { each_tool(result, &mut without_execution) } else { result.into() };
    let mut members = vec![(RESULT_TYPE, "\"complete\"")];
    if is_cacheable(method) {
        let [ttl, scope] = edit::get(&result, ["ttlMs", "cacheScope"]);
        members.extend(ttl.is_none().then_some(("ttlMs", "0")));
        members.extend(scope.is_none().then_some(("cacheScope", "\"private\"")));
    }
    let meta: Vec<_> = server_info.map(|info| (SERVER_INFO, info)).into_iter().collect();
    edit::with_meta(&result, &members, &meta)
}

/// A modern server's complete result for a legacy client. The output of a tool also needs
/// [`wrap_output`].
pub(crate) fn strip<'a>(method: &str, result: &'a str) -> Cow<'a, str> {
    let text = edit::without_meta(result, &MODERN, &[SERVER_INFO, SUBSCRIPTION_ID]);
    match text {
        text if method != "tools/list" => text,
        Cow::Borrowed(text) => each_tool(text, &mut with_object_output),
        Cow::Owned(text) => Cow::Owned(each_tool(&text, &mut with_object_output).into_owned()),
    }
}

/// The names of the tools whose output schema `strip` wraps.
pub(crate) fn wrapped_tools(result: &str) -> Vec<String> {
    names_where(result, |output| output.is_some_and(schema::needs_wrapper))
}

/// The names of all tools.
pub(crate) fn tool_names(result: &str) -> Vec<String> {
    names_where(result, |_| true)
}

/// The names of the tools with such an output schema.
fn names_where(result: &str, fits: impl Fn(Option<&str>) -> bool) -> Vec<String> {
    let mut names = Vec::new();
    let [tools] = edit::get(result, ["tools"]);
    let _ = edit::each(tools.unwrap_or_default(), &mut |tool| {
        let [name, output] = edit::get(tool.value, ["name", "outputSchema"]);
        names.extend(name.filter(|_| fits(output)).and_then(edit::string).map(Cow::into_owned));
    });
    names
}

/// The result of a `tools/call` with the output that the tool's wrapped schema describes.
/// Legacy clients accept only objects, so other output is wrapped without a schema too. A
/// result that had no text gets the output as text.
pub(crate) fn wrap_output(result: &str, output_schema: OutputSchema) -> Cow<'_, str> {
    let [Some(_)] = edit::get(result, [STRUCTURED]) else { return Cow::Borrowed(result) };
    let [output, content] = edit::get(result, [STRUCTURED, "content"]);
    let wraps = |output: &&str| output_schema == OutputSchema::Wrapped || !edit::is_object(output);
    let Some(output) = output.filter(wraps) else { return Cow::Borrowed(result) };
    let wrapped = format!("{{\"result\":{output}}}");
    let content = content.unwrap_or_default();
    if has_text(content) {
        return Cow::Owned(edit::with(result, &[(STRUCTURED, &wrapped)]));
    }
    let text = format!("{{\"type\":\"text\",\"text\":{}}}", edit::quote(output));
    Cow::Owned(edit::with(result, &[("content", &edit::push(content, &text)), (STRUCTURED, &wrapped)]))
}

/// Whether a complete modern result needs hints for caches (2026-07-28, "caching").
fn is_cacheable(method: &str) -> bool {
    let lists = ["tools/list", "prompts/list", "resources/list", "resources/templates/list"];
    lists.contains(&method) || matches!(method, "server/discover" | "resources/read")
}

fn each_tool<'a>(result: &'a str, change: &mut dyn FnMut(&Item<'_>) -> Change) -> Cow<'a, str> {
    edit::rewrite(result, &[], &mut |member| match member.name() {
        Some("tools") => edit::rewrite(member.value, &[], &mut |tool| change(tool)).into(),
        Some(_) | None => Change::Keep,
    })
}

/// Only tasks of 2025-11-25 need `execution`.
fn without_execution(tool: &Item<'_>) -> Change {
    edit::without(tool.value, &["execution"]).into()
}

fn with_object_output(tool: &Item<'_>) -> Change {
    let wrap = &mut |member: &Item<'_>| match member.name() {
        Some("outputSchema") if schema::needs_wrapper(member.value) => Change::Set(schema::wrapped(member.value)),
        Some(_) | None => Change::Keep,
    };
    edit::rewrite(tool.value, &[], wrap).into()
}

fn has_text(content: &str) -> bool {
    let mut found = false;
    let _ = edit::each(content, &mut |block| found |= edit::get(block.value, ["type"]) == [Some("\"text\"")]);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const INFO: &str = r#"{"name":"s","version":"1"}"#;

    #[test]
    fn a_legacy_result_gets_what_modern_clients_require() {
        let cases = [
            ("tools/call", r#"{"content":[1.0]}"#, r#"{"content":[1.0],"resultType":"complete"}"#),
            (
                "tools/list",
                r#"{"tools":[]}"#,
                r#"{"tools":[],"resultType":"complete","ttlMs":0,"cacheScope":"private"}"#,
            ),
            (
                "tools/list",
                r#"{"tools":[{"name":"a","execution":{"taskSupport":"optional"}},{"x":1}],"ttlMs":5}"#,
                r#"{"tools":[{"name":"a"},{"x":1}],"ttlMs":5,"resultType":"complete","cacheScope":"private"}"#,
            ),
            (
                "resources/read",
                r#"{"contents":[{"execution":1}]}"#,
                r#"{"contents":[{"execution":1}],"resultType":"complete","ttlMs":0,"cacheScope":"private"}"#,
            ),
            ("prompts/get", r#"{"resultType":"mine"}"#, r#"{"resultType":"complete"}"#),
            ("prompts/get", "null", r#"{"resultType":"complete"}"#),
        ];
        for (method, result, want) in cases {
            assert_eq!(stamp(method, result, None), want, "{method} {result}");
        }
        let want = format!(r#"{{"_meta":{{"t":1,"{SERVER_INFO}":{INFO}}},"resultType":"complete"}}"#);
        assert_eq!(stamp("tools/call", r#"{"_meta":{"t":1}}"#, Some(INFO)), want);
    }

    #[test]
    fn a_modern_result_loses_what_legacy_clients_do_not_know() {
        let cases = [
            (
                "tools/call",
                r#"{"resultType":"complete","content":[{"type":"text","text":"3"}],"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s","version":"1"}}}"#,
                r#"{"content":[{"type":"text","text":"3"}]}"#,
            ),
            (
                "tools/list",
                r#"{"tools":[{"name":"a","outputSchema":{"type":"object"}}, {"name":"b","outputSchema":{"type":"array","items":{"$ref":"\#/$defs/n"}}}],"ttlMs":0,"cacheScope":"private"}"#,
                r#"{"tools":[{"name":"a","outputSchema":{"type":"object"}}, {"name":"b","outputSchema":{"type":"object","properties":{"result":{"type":"array","items":{"$ref":"\#/properties/result/$defs/n"}}},"required":["result"]}}]}"#,
            ),
            (
                "tools/list",
                r#"{"tools":[{"outputSchema":true}]}"#,
                r#"{"tools":[{"outputSchema":{"type":"object","properties":{"result":true},"required":["result"]}}]}"#,
            ),
            (
                "prompts/get",
                r#"{"_meta":{"io.modelcontextprotocol/subscriptionId":1,"t":0},"tools":[{"outputSchema":true}]}"#,
                r#"{"_meta":{"t":0},"tools":[{"outputSchema":true}]}"#,
            ),
        ];
        for (method, result, want) in
            cases.map(|(method, result, want)| (method, result.replace("\\#", "#"), want.replace("\\#", "#")))
        {
            assert_eq!(strip(method, &result), want, "{method} {result}");
        }
        for (method, result) in [("tools/list", r#"{ "tools":[ {"name":"a"} ],"n":1e2 }"#), ("x", "7"), ("x", "")] {
            assert!(matches!(strip(method, result), Cow::Borrowed(text) if text == result));
        }
    }

    #[test]
    fn tools_with_a_wrapped_schema_are_named() {
        let tools = r#"{"tools":[{"name":"a","outputSchema":{"type":"object"}},{"name":"b","outputSchema":{}},{"name":"c"},{"outputSchema":{}}]}"#;
        assert_eq!(wrapped_tools(tools), ["b"]);
        assert!(wrapped_tools("{}").is_empty());
    }

    #[test]
    fn output_is_wrapped_like_its_schema() {
        use OutputSchema::{Plain, Wrapped};
        let text = r#""content":[{"type":"text","text":"x"}]"#;
        let cases = [
            (Plain, format!("{{{text}}}"), format!("{{{text}}}")),
            (Wrapped, format!("{{{text}}}"), format!("{{{text}}}")),
            (Plain, r#"{"structuredContent":{"a":1}}"#.into(), r#"{"structuredContent":{"a":1}}"#.into()),
            (Wrapped, format!(r#"{{"structuredContent":{{"a":1.0}},{text}}}"#), format!(r#"{{{text},"structuredContent":{{"result":{{"a":1.0}}}}}}"#)),
            (Plain, format!(r#"{{"structuredContent":[1],{text}}}"#), format!(r#"{{{text},"structuredContent":{{"result":[1]}}}}"#)),
            (
                Wrapped,
                r#"{"content":[{"type":"image"}],"structuredContent":["a"]}"#.into(),
                r#"{"content":[{"type":"image"},{"type":"text","text":"[\"a\"]"}],"structuredContent":{"result":["a"]}}"#.into(),
            ),
            (
                Wrapped,
                r#"{"structuredContent":null}"#.into(),
                r#"{"content":[{"type":"text","text":"null"}],"structuredContent":{"result":null}}"#.into(),
            ),
        ];
        for (schema, result, want) in cases {
            assert_eq!(wrap_output(&result, schema), want, "{result}");
        }
    }

    #[test]
    fn types_of_results_are_told_apart() {
        let cases = [
            (r#"{"resultType":"complete"}"#, ResultType::Complete),
            (r#"{"content":[]}"#, ResultType::Complete),
            (r#"{"resultType":"input_required"}"#, ResultType::InputRequired),
            (r#"{"resultType":"task"}"#, ResultType::Other("task".into())),
            (r#"{"resultType":7}"#, ResultType::Other("7".into())),
            ("null", ResultType::Complete),
        ];
        for (result, want) in cases {
            assert_eq!(result_type(result), want, "{result}");
        }
    }
}
