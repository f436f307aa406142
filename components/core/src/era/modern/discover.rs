//! `server/discover` and `initialize`: in each era, the request by which a client learns
//! about a server. This module translates between their results. Sending either of them does
//! not belong here.

use super::edit::{self, Change};
use super::envelope::Envelope;
use super::{capabilities, results};
use crate::era::{LATEST_LEGACY, VERSIONS};
use crate::failure::UNSUPPORTED_VERSION;
use std::borrow::Cow;

/// The params of a `server/discover`.
pub(crate) fn request_params(envelope: &Envelope) -> String {
    envelope.add_to("")
}

/// The versions that a `DiscoverResult` names. `None` if it is something else: servers
/// without this method may answer with anything.
pub(crate) fn supported_versions(result: &str) -> Option<Vec<String>> {
    let [versions, capabilities] = edit::get(result, ["supportedVersions", "capabilities"]);
    capabilities.filter(|capabilities| edit::is_object(capabilities))?;
    serde_json::from_str(versions?).ok()
}

/// The versions that an error about an unsupported version names, at least one.
pub(crate) fn versions_of_error(error: &str) -> Option<Vec<String>> {
    let [code, data] = edit::get(error, ["code", "data"]);
    code?.parse().ok().filter(|code: &i64| *code == UNSUPPORTED_VERSION)?;
    let [supported] = edit::get(data?, ["supported"]);
    serde_json::from_str(supported?).ok().filter(|versions: &Vec<String>| !versions.is_empty())
}

/// A modern server's `DiscoverResult` as the answer to a legacy client's `initialize`, which
/// offered a version. `host` names a server that has no name of its own. `None` if it is not
/// a `DiscoverResult`.
pub(crate) fn initialize_result(discover: &str, offered: &str, host: &str) -> Option<String> {
    supported_versions(discover)?;
    let [declared, meta] = edit::get(discover, ["capabilities", edit::META]);
    let [info] = edit::get(meta.unwrap_or_default(), [results::SERVER_INFO]);
    let version = if VERSIONS.contains(&offered) { offered } else { LATEST_LEGACY };
    let stripped = results::strip("server/discover", discover);
    let rest = edit::rewrite(&stripped, &[], &mut |member| match member.name() {
        Some("supportedVersions") => Change::Drop,
        Some("instructions") if edit::string(member.value).is_none() => Change::Drop,
        Some(_) | None => Change::Keep,
    });
    let members = [
        ("protocolVersion", &*edit::quote(version)),
        ("capabilities", &capabilities::of_server(declared.unwrap_or_default())),
        ("serverInfo", &named(info, host)),
    ];
    Some(edit::with(&rest, &members))
}

/// A legacy server's `InitializeResult` as the answer to a modern client's
/// `server/discover`. `versions` are the ones that the proxy serves.
pub(crate) fn discover_result(initialize: &str, versions: &[&str]) -> String {
    let [declared, info] = edit::get(initialize, ["capabilities", "serverInfo"]);
    let rest = edit::without(initialize, &["protocolVersion", "serverInfo"]);
    let versions: Vec<String> = versions.iter().map(|version| edit::quote(version)).collect();
    let members = [
        ("supportedVersions", &*format!("[{}]", versions.join(","))),
        ("capabilities", &capabilities::of_server(declared.unwrap_or_default())),
    ];
    let info = info.filter(|info| edit::is_object(info));
    results::stamp("server/discover", &edit::with(&rest, &members), info)
}

/// The name and version of a peer, which legacy peers require. `unnamed` is for one without
/// a name.
pub(crate) fn named<'a>(info: Option<&'a str>, unnamed: &str) -> Cow<'a, str> {
    let info = info.filter(|info| edit::is_object(info)).unwrap_or("{}");
    let [name, version] = edit::get(info, ["name", "version"]);
    let is_text = |value: Option<&str>| value.and_then(edit::string).is_some();
    let name = (!is_text(name)).then(|| ("name", edit::quote(unnamed)));
    let version = (!is_text(version)).then(|| ("version", edit::quote("unknown")));
    let missing: Vec<_> = [name, version].into_iter().flatten().collect();
    if missing.is_empty() {
        return Cow::Borrowed(info);
    }
    let missing: Vec<_> = missing.iter().map(|(name, value)| (*name, &**value)).collect();
    Cow::Owned(edit::with(info, &missing))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DISCOVER: &str = r#"{"resultType":"complete","supportedVersions":["2026-07-28","2025-11-25"],"capabilities":{"tools":{"listChanged":true}},"instructions":"…","ttlMs":0,"cacheScope":"private","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s","version":"1"}}}"#;

    #[test]
    fn a_discover_result_is_told_from_other_answers() {
        let cases = [
            (DISCOVER, Some(vec!["2026-07-28", "2025-11-25"])),
            (r#"{"supportedVersions":[],"capabilities":{}}"#, Some(vec![])),
            (r#"{"supportedVersions":["x"],"capabilities":[]}"#, None),
            (r#"{"supportedVersions":["x"]}"#, None),
            (r#"{"supportedVersions":["x",1],"capabilities":{}}"#, None),
            (r#"{"supportedVersions":"x","capabilities":{}}"#, None),
            ("{}", None),
            ("null", None),
            ("", None),
        ];
        for (result, want) in cases {
            let want = want.map(|versions| versions.into_iter().map(str::to_owned).collect::<Vec<_>>());
            assert_eq!(supported_versions(result), want, "{result}");
            assert_eq!(initialize_result(result, "2025-06-18", "h").is_some(), want.is_some(), "{result}");
        }
    }

    #[test]
    fn an_unsupported_version_names_those_that_are() {
        let error = |code: &str, supported: &str| {
            format!(r#"{{"code":{code},"message":"m","data":{{"supported":{supported},"requested":"1900-01-01"}}}}"#)
        };
        let cases = [
            (error("-32022", r#"["2026-07-28"]"#), Some(vec!["2026-07-28".to_owned()])),
            (error("-32022", "[]"), None),
            (error("-32022", "[1]"), None),
            (error("-32000", r#"["2026-07-28"]"#), None),
            (r#"{"code":-32022,"message":"m"}"#.to_owned(), None),
            (String::new(), None),
        ];
        for (error, want) in cases {
            assert_eq!(versions_of_error(&error), want, "{error}");
        }
    }

    #[test]
    fn a_legacy_client_gets_an_initialize_result() {
        let cases = [
            (
                DISCOVER,
                "2025-06-18",
                r#"{"instructions":"…","protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"s","version":"1"}}"#,
            ),
            (
                r#"{"supportedVersions":["2026-07-28"],"capabilities":{"tasks":{}},"instructions":null,"x":1.0}"#,
                "2026-07-28",
                r#"{"x":1.0,"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"h:1","version":"unknown"}}"#,
            ),
            (
                r#"{"supportedVersions":["2026-07-28"],"capabilities":{},"_meta":{"t":1,"io.modelcontextprotocol/serverInfo":{"name":"s","title":"T"}}}"#,
                "",
                r#"{"_meta":{"t":1},"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","title":"T","version":"unknown"}}"#,
            ),
        ];
        for (discover, offered, want) in cases {
            assert_eq!(initialize_result(discover, offered, "h:1").as_deref(), Some(want), "{discover}");
        }
    }

    #[test]
    fn a_modern_client_gets_a_discover_result() {
        let initialize = r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"tasks":{}},"serverInfo":{"name":"s","version":"1"},"instructions":"i"}"#;
        let want = r#"{"instructions":"i","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"resultType":"complete","ttlMs":0,"cacheScope":"private","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s","version":"1"}}}"#;
        assert_eq!(discover_result(initialize, &["2026-07-28"]), want);
        let bare =
            r#"{"supportedVersions":[],"capabilities":{},"resultType":"complete","ttlMs":0,"cacheScope":"private"}"#;
        assert_eq!(discover_result("", &[]), bare);
    }

    #[test]
    fn a_probe_carries_the_envelope() {
        let params = r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}"#;
        let envelope = Envelope::read(params).unwrap().unwrap();
        assert_eq!(request_params(&envelope), params);
    }
}
