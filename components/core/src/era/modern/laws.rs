//! Laws of the translation tables over generated JSON: an envelope that is added can be
//! removed, a text without modern members keeps every byte, and JSON stays JSON.

use super::envelope::{self, Envelope};
use super::mirror::{self, Tools};
use super::results::{self, OutputSchema};
use super::rounds::{InputRequired, Retry};
use super::subscriptions::{self, Filter};
use super::{capabilities, discover, errors};
use crate::wire::message::Id;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use serde_json::Value;
use std::collections::BTreeMap;

/// Names that have a meaning in one of the tables.
const NAMES: [&str; 30] = [
    "_meta",
    "a",
    "a\\\"\\u0062",
    "progressToken",
    "resultType",
    "ttlMs",
    "cacheScope",
    "tools",
    "name",
    "inputSchema",
    "outputSchema",
    "properties",
    "items",
    "x-mcp-header",
    "type",
    "$ref",
    "$id",
    "structuredContent",
    "content",
    "execution",
    "inputRequests",
    "inputResponses",
    "requestState",
    "method",
    "params",
    "capabilities",
    "code",
    "data",
    "io.modelcontextprotocol/protocolVersion",
    "io.modelcontextprotocol/serverInfo",
];
const SCALARS: [&str; 14] = [
    "0",
    "1.0",
    "-0.50e+1",
    "9007199254740993",
    "-32042",
    "-32002",
    "true",
    "null",
    "\"\"",
    "\"string\"",
    "\"#/a\"",
    "\"\\u00e9\\/\"",
    "\"complete\"",
    "\"object\"",
];

/// A JSON text. Its objects have no two members of the same name.
fn json() -> impl Strategy<Value = String> {
    let scalar = prop::sample::select(&SCALARS[..]).prop_map(str::to_owned);
    scalar.prop_recursive(6, 60, 6, |inner| {
        let array = prop::collection::vec(inner.clone(), 0..4).prop_map(|items| format!("[{}]", items.join(" ,")));
        prop_oneof![array, object_of(inner)]
    })
}

fn object() -> impl Strategy<Value = String> {
    object_of(json())
}

fn object_of(value: impl Strategy<Value = String>) -> impl Strategy<Value = String> {
    let name = prop::sample::select(&NAMES[..]);
    let spaces = prop::sample::select(vec!["", " ", "\n "]);
    (prop::collection::btree_map(name, value, 0..6), spaces).prop_map(|(members, space): (BTreeMap<_, _>, _)| {
        let members: Vec<String> = members.iter().map(|(name, value)| format!("\"{name}\"{space}:{value}")).collect();
        format!("{{{space}{}{space}}}", members.join(","))
    })
}

/// The value, without an empty `_meta`.
fn value(text: &str) -> Option<Value> {
    let mut value: Value = serde_json::from_str(text).ok()?;
    let says_nothing = |meta: &Value| meta.as_object().is_none_or(serde_json::Map::is_empty);
    if value.get("_meta").is_some_and(says_nothing) {
        value.as_object_mut().map(|members| members.remove("_meta"));
    }
    Some(value)
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<Value>(text).is_ok()
}

fn config() -> ProptestConfig {
    ProptestConfig { cases: 500, rng_seed: RngSeed::Fixed(1), failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn an_envelope_that_is_added_can_be_removed(params in object(), info in object(), capabilities in object()) {
        let envelope = Envelope { version: "v\"".into(), capabilities, info: Some(info), log_level: Some("info".into()) };
        let added = envelope.add_to(&params);
        prop_assert_eq!(Envelope::read(&added), Ok(Some(envelope)));
        let removed = |params| envelope::strip(params).map_or_else(|| "{}".to_owned(), std::borrow::Cow::into_owned);
        let removed = (value(&removed(&added)), value(&removed(&params)));
        prop_assert!(removed.0.is_some() && removed.0 == removed.1, "{:?}", removed);
    }

    #[test]
    fn a_result_without_modern_members_keeps_every_byte(result in json()) {
        let modern = ["resultType", "ttlMs", "cacheScope", "io.modelcontextprotocol", "outputSchema"];
        let stripped = results::strip("tools/list", &result);
        prop_assert!(modern.iter().any(|name| result.contains(name)) || stripped == result);
        prop_assert_eq!(results::strip("tools/call", &stripped), &*stripped);
        prop_assert!(result.contains("x-mcp-header") || Tools::read(&result).text == result);
    }

    #[test]
    fn json_stays_json(text in json(), other in object()) {
        let id = Id::parse("7").unwrap();
        let tools = format!("{{\"tools\":[{text},{other}]}}");
        let round = InputRequired { questions: Vec::new(), state: Some("\"s\"".into()) };
        let texts = [
            results::stamp("tools/list", &tools, Some(&other)),
            results::strip("tools/list", &tools).into_owned(),
            results::wrap_output(&other, OutputSchema::Wrapped).into_owned(),
            Tools::read(&tools).text.into_owned(),
            errors::to_modern("resources/read", &other, &text).into_owned(),
            discover::discover_result(&other, &["v"]),
            capabilities::of_client(&text).into_owned(),
            subscriptions::tag(&other, &id),
            round.retry(&other, &[("k", &text)]),
        ];
        for text in texts {
            prop_assert!(is_json(&text), "{}", text);
        }
    }

    #[test]
    fn hostile_text_is_survived(text in "[{}\\[\\]\",:\\\\ _metaools0-9x-]{0,40}") {
        let wrapped = format!("{{\"tools\":[{{\"inputSchema\":{text},\"x-mcp-header\":0}}],\"_meta\":{text}}}");
        for text in [&*text, &*wrapped] {
            let _ = (Envelope::read(text), envelope::strip(text), Filter::read(text), Retry::read(text));
            let _ = (results::strip("tools/list", text), results::stamp("tools/list", text, None), Tools::read(text));
            let _ = (InputRequired::read(text), errors::to_modern("x", text, text), errors::url_elicitations(text));
            let _ = (discover::initialize_result(text, "", ""), mirror::encode(text), mirror::param_headers(&[], text));
        }
    }
}
