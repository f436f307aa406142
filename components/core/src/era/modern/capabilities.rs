//! The capabilities that clients and servers declare, in both eras, and those that a client
//! needs before a server may ask it a question. The proxy translates no tasks, so it hides
//! each side's tasks from the other. The questions themselves do not belong here.

use super::edit::{self, Change, Item};
use std::borrow::Cow;

/// Tasks as an extension of the modern era.
const TASKS: &str = "io.modelcontextprotocol/tasks";

/// A capability that a client needs to get a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Needed {
    FormElicitation,
    UrlElicitation,
    Sampling,
    SamplingWithTools,
    Roots,
}

impl Needed {
    /// The capabilities, as a raw object, that would be enough.
    pub(crate) fn to_json(self) -> &'static str {
        match self {
            Self::FormElicitation => r#"{"elicitation":{}}"#,
            Self::UrlElicitation => r#"{"elicitation":{"url":{}}}"#,
            Self::Sampling => r#"{"sampling":{}}"#,
            Self::SamplingWithTools => r#"{"sampling":{"tools":{}}}"#,
            Self::Roots => r#"{"roots":{}}"#,
        }
    }

    /// Whether a client that declares these capabilities has it. Elicitation that names no
    /// mode means forms.
    pub(crate) fn is_in(self, capabilities: &str) -> bool {
        let [elicitation, sampling, roots] = edit::get(capabilities, ["elicitation", "sampling", "roots"]);
        let [form, url] = edit::get(elicitation.unwrap_or_default(), ["form", "url"]);
        let [tools] = edit::get(sampling.unwrap_or_default(), ["tools"]);
        let declares = |value: Option<&str>| value.is_some_and(edit::is_object);
        match self {
            Self::FormElicitation => declares(form) || declares(elicitation) && !declares(url),
            Self::UrlElicitation => declares(url),
            Self::Sampling => declares(sampling),
            Self::SamplingWithTools => declares(tools),
            Self::Roots => declares(roots),
        }
    }
}

/// A client's capabilities for a server of the other era. Only legacy clients announce
/// changes of their roots. No modern message does, so the proxy must not promise it.
pub(crate) fn of_client(capabilities: &str) -> Cow<'_, str> {
    translated(capabilities, &mut |roots| match roots {
        roots if edit::is_empty(roots) => Change::Keep,
        roots if edit::is_object(roots) => Change::Set("{}".to_owned()),
        _ => Change::Drop,
    })
}

/// A server's capabilities for a client of the other era.
pub(crate) fn of_server(capabilities: &str) -> Cow<'_, str> {
    translated(capabilities, &mut |_| Change::Keep)
}

fn translated<'a>(capabilities: &'a str, roots: &mut dyn FnMut(&str) -> Change) -> Cow<'a, str> {
    if !edit::is_object(capabilities) {
        return Cow::Borrowed("{}");
    }
    edit::rewrite(capabilities, &[], &mut |item: &Item<'_>| match item.name() {
        Some("roots") => roots(item.value),
        Some("tasks") => Change::Drop,
        Some("extensions") => edit::without(item.value, &[TASKS]).into(),
        Some(_) | None => Change::Keep,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_promise_neither_changed_roots_nor_tasks() {
        let cases = [
            ("{}", "{}"),
            ("", "{}"),
            ("[]", "{}"),
            (r#"{"roots":{"listChanged":true},"x":1.0}"#, r#"{"roots":{},"x":1.0}"#),
            (r#"{"roots":null}"#, "{}"),
            (r#"{ "roots":{ } }"#, r#"{ "roots":{ } }"#),
            (r#"{"tasks":{"list":{}},"sampling":{"tools":{}}}"#, r#"{"sampling":{"tools":{}}}"#),
            (
                r#"{"elicitation":{"url":{}},"experimental":{"a":{"b":1}}}"#,
                r#"{"elicitation":{"url":{}},"experimental":{"a":{"b":1}}}"#,
            ),
            (r#"{"extensions":{"io.modelcontextprotocol/tasks":{},"a/b":{}}}"#, r#"{"extensions":{"a/b":{}}}"#),
        ];
        for (capabilities, want) in cases {
            assert_eq!(of_client(capabilities), want, "{capabilities}");
        }
    }

    #[test]
    fn servers_keep_everything_but_tasks() {
        let cases = [
            (
                r#"{"tools":{"listChanged":true},"resources":{"subscribe":true},"logging":{},"tasks":{}}"#,
                r#"{"tools":{"listChanged":true},"resources":{"subscribe":true},"logging":{}}"#,
            ),
            (r#"{"roots":{"a":1},"completions":{}}"#, r#"{"roots":{"a":1},"completions":{}}"#),
            ("null", "{}"),
        ];
        for (capabilities, want) in cases {
            assert_eq!(of_server(capabilities), want, "{capabilities}");
        }
    }

    #[test]
    fn clients_are_asked_only_what_they_declared() {
        use Needed::{FormElicitation, Roots, Sampling, SamplingWithTools, UrlElicitation};
        let cases: [(&str, &[Needed]); 8] = [
            ("{}", &[]),
            ("", &[]),
            (r#"{"elicitation":{}}"#, &[FormElicitation]),
            (r#"{"elicitation":{"url":{}}}"#, &[UrlElicitation]),
            (r#"{"elicitation":{"url":{},"form":{}}}"#, &[FormElicitation, UrlElicitation]),
            (r#"{"elicitation":null,"roots":{}}"#, &[Roots]),
            (r#"{"sampling":{}}"#, &[Sampling]),
            (r#"{"sampling":{"tools":{}}}"#, &[Sampling, SamplingWithTools]),
        ];
        for (capabilities, want) in cases {
            let all = [FormElicitation, UrlElicitation, Sampling, SamplingWithTools, Roots];
            let found: Vec<Needed> = all.into_iter().filter(|needed| needed.is_in(capabilities)).collect();
            assert_eq!(found, want, "{capabilities}");
            assert!(all.iter().all(|needed| needed.is_in(needed.to_json())));
        }
    }
}
