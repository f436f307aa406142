//! The envelope: the data about its client that every modern request has in `params._meta`
//! (2026-07-28, "request metadata"). This module reads, adds and removes it. Judging the
//! version and the capabilities does not belong here.

use super::edit;
use std::borrow::Cow;

/// Begins the name of every key of the envelope, up to a slash that some writers escape.
const NEEDLE: &[u8] = b"io.modelcontextprotocol";
const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
const KEYS: [&str; 4] = [PROTOCOL_VERSION, CLIENT_CAPABILITIES, CLIENT_INFO, LOG_LEVEL];

/// The members of a request's params that belong to a multi-round trip.
pub(crate) const INPUT_RESPONSES: &str = "inputResponses";
pub(crate) const REQUEST_STATE: &str = "requestState";

/// The levels of log messages, from the least severe.
pub(crate) const LEVELS: [&str; 8] = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

/// The place of a level among all.
pub(crate) fn severity(level: &str) -> Option<usize> {
    LEVELS.iter().position(|known| *known == level)
}

/// The envelope of a modern request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Envelope {
    pub(crate) version: String,
    /// A raw object.
    pub(crate) capabilities: String,
    /// The client's name and version: a raw object.
    pub(crate) info: Option<String>,
    pub(crate) log_level: Option<String>,
}

/// The required key that an envelope lacks, or has with a wrong type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Missing(pub(crate) &'static str);

impl Envelope {
    /// Reads the envelope. `None` if the params have no key of it: the message is legacy.
    ///
    /// # Errors
    /// If the params have some of its keys, but not all that are required.
    pub(crate) fn read(params: &str) -> Result<Option<Self>, Missing> {
        let [version, capabilities, info, log_level] = values(params);
        if [version, capabilities, info, log_level].iter().all(Option::is_none) {
            return Ok(None);
        }
        let string = |value: Option<&str>| value.and_then(edit::string).map(Cow::into_owned);
        let object = |value: Option<&str>| value.filter(|value| edit::is_object(value)).map(str::to_owned);
        Ok(Some(Self {
            version: string(version).ok_or(Missing(PROTOCOL_VERSION))?,
            capabilities: object(capabilities).ok_or(Missing(CLIENT_CAPABILITIES))?,
            info: object(info),
            log_level: string(log_level),
        }))
    }

    /// Adds the envelope to params, and replaces one that is there. Params that are an
    /// array stay as they are.
    pub(crate) fn add_to(&self, params: &str) -> String {
        let level = self.log_level.as_deref().map(edit::quote);
        let optional = [(CLIENT_INFO, self.info.as_deref()), (LOG_LEVEL, level.as_deref())];
        let version = edit::quote(&self.version);
        let mut keys = vec![(PROTOCOL_VERSION, &*version), (CLIENT_CAPABILITIES, &*self.capabilities)];
        keys.extend(optional.into_iter().filter_map(|(key, value)| Some((key, value?))));
        if memchr::memmem::find(params.as_bytes(), NEEDLE).is_none() {
            return edit::with_meta(params, &[], &keys);
        }
        edit::with_meta(&edit::without_meta(params, &[], &KEYS), &[], &keys)
    }
}

/// Params for a legacy server: without the envelope, and without the members of a
/// multi-round trip. `None` if that leaves nothing, so the message needs no params.
pub(crate) fn strip(params: &str) -> Option<Cow<'_, str>> {
    edit::unless_emptied(edit::without_meta(params, &[INPUT_RESPONSES, REQUEST_STATE], &KEYS))
}

/// Whether `_meta` has a key of the envelope.
pub(crate) fn is_in_meta(meta: &str) -> bool {
    edit::get(meta, KEYS).iter().any(Option::is_some)
}

/// The version in the envelope.
pub(crate) fn version(params: &str) -> Option<Cow<'_, str>> {
    let [meta] = edit::get(params, [edit::META]);
    let [version] = edit::get(meta?, [PROTOCOL_VERSION]);
    edit::string(version?)
}

fn values(params: &str) -> [Option<&str>; 4] {
    if memchr::memmem::find(params.as_bytes(), NEEDLE).is_none() {
        return [None; 4];
    }
    let [meta] = edit::get(params, [edit::META]);
    edit::get(meta.unwrap_or_default(), KEYS)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: &str = r#"{"name":"add","arguments":{"a":1,"b":2},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"progressToken":7}}"#;

    fn envelope(info: Option<&str>, log_level: Option<&str>) -> Envelope {
        let (info, log_level) = (info.map(str::to_owned), log_level.map(str::to_owned));
        Envelope { version: "2026-07-28".to_owned(), capabilities: "{}".to_owned(), info, log_level }
    }

    #[test]
    fn an_envelope_is_read_or_misses_a_key() {
        let meta = |keys: &str| format!(r#"{{"_meta":{{{}}}}}"#, keys.replace('@', "io.modelcontextprotocol/"));
        let cases = [
            (FULL.to_owned(), Ok(Some(envelope(Some(r#"{"name":"c","version":"1"}"#), None)))),
            (meta(r#""@protocolVersion":"2026-07-28","@clientCapabilities":{}"#), Ok(Some(envelope(None, None)))),
            (
                meta(
                    r#""@protocolVersion":1,"@protocolVersion":"2026-07-28","@clientCapabilities":{},"@logLevel":"info""#,
                ),
                Ok(Some(envelope(None, Some("info")))),
            ),
            (
                meta(
                    r#""io.modelcontextprotocol\/protocolVersion":"2026-07-28","@clientCapabilities":{},"@clientInfo":1"#,
                ),
                Ok(Some(envelope(None, None))),
            ),
            (meta(r#""@clientCapabilities":{}"#), Err(Missing(PROTOCOL_VERSION))),
            (meta(r#""@protocolVersion":7,"@clientCapabilities":{}"#), Err(Missing(PROTOCOL_VERSION))),
            (meta(r#""@protocolVersion":"x""#), Err(Missing(CLIENT_CAPABILITIES))),
            (meta(r#""@protocolVersion":"x","@clientCapabilities":[]"#), Err(Missing(CLIENT_CAPABILITIES))),
            (meta(r#""@logLevel":"info""#), Err(Missing(PROTOCOL_VERSION))),
            (meta(r#""@related-task":{"taskId":"1"},"progressToken":0"#), Ok(None)),
            (r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}"#.to_owned(), Ok(None)),
            (r#"{"_meta":null}"#.to_owned(), Ok(None)),
            (String::new(), Ok(None)),
        ];
        for (params, want) in cases {
            let [meta] = edit::get(&params, [edit::META]);
            assert_eq!(is_in_meta(meta.unwrap_or_default()), want != Ok(None), "{params}");
            assert_eq!(Envelope::read(&params), want, "{params}");
        }
    }

    #[test]
    fn an_envelope_is_added_beside_what_is_there() {
        let keys =
            r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}"#;
        let cases = [
            ("", format!(r#"{{"_meta":{{{keys}}}}}"#)),
            (r#"{"n":1.0}"#, format!(r#"{{"n":1.0,"_meta":{{{keys}}}}}"#)),
            (
                r#"{"_meta":{"progressToken":0,"traceparent":"t","x/y":[]},"n":9007199254740993}"#,
                format!(r#"{{"_meta":{{"progressToken":0,"traceparent":"t","x/y":[],{keys}}},"n":9007199254740993}}"#),
            ),
            (r#"{"_meta":{"io.modelcontextprotocol/logLevel":"debug"}}"#, format!(r#"{{"_meta":{{{keys}}}}}"#)),
            ("[1]", "[1]".to_owned()),
        ];
        for (params, want) in cases {
            assert_eq!(envelope(None, None).add_to(params), want, "{params}");
        }
        let full = envelope(Some(r#"{"name":"c"}"#), Some("info")).add_to("");
        assert!(full.ends_with(
            r#""io.modelcontextprotocol/clientInfo":{"name":"c"},"io.modelcontextprotocol/logLevel":"info"}}"#
        ));
    }

    #[test]
    fn an_envelope_is_removed_and_the_rest_stays() {
        let cases = [
            (FULL, Some(r#"{"name":"add","arguments":{"a":1,"b":2},"_meta":{"progressToken":7}}"#)),
            (r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"x"}}"#, None),
            (r#"{"inputResponses":{},"requestState":"s","n":1.0}"#, Some(r#"{"n":1.0}"#)),
            (r#"{"requestState":"s"}"#, None),
            (r#"{"arguments":{"requestState":"s"}}"#, Some(r#"{"arguments":{"requestState":"s"}}"#)),
            ("{}", Some("{}")),
            ("", Some("")),
        ];
        for (params, want) in cases {
            assert_eq!(strip(params).as_deref(), want, "{params}");
        }
    }
}
