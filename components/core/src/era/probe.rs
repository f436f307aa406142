//! Derives a server's era from its answer to `server/discover`: tables without state. Only
//! unambiguous answers count as modern; most others lead to `initialize`. Sending the request
//! does not belong here.

use super::modern::discover;
use super::{MODERN, VERSIONS};

/// What to do after an answer to `server/discover`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The server speaks the modern era.
    Modern,
    /// The server wants another version, which the proxy speaks: ask again, once.
    Again,
    /// Continue with `initialize`, whose answer decides.
    Legacy,
    /// The server supports only these versions, and the proxy none of them.
    Incompatible(Vec<String>),
    /// The answer says nothing about the era.
    Nothing,
}

/// A result. Some legacy servers answer any method with one.
pub(crate) fn of_result(result: &str) -> Verdict {
    discover::supported_versions(result).map_or(Verdict::Legacy, |versions| of_versions(versions, Verdict::Modern))
}

/// A JSON-RPC error. Only the error about versions is proof of a modern server: legacy
/// servers use all others too.
pub(crate) fn of_error(error: &str, asked_again: bool) -> Verdict {
    match discover::versions_of_error(error) {
        None => Verdict::Legacy,
        Some(versions) if asked_again => Verdict::Incompatible(versions),
        Some(versions) => of_versions(versions, Verdict::Again),
    }
}

/// An HTTP status without a JSON-RPC error, or no response at all. Missing credentials, busy
/// servers and broken connections say nothing. A server that fails with 500 may only have
/// stumbled over the unknown method.
pub(crate) fn of_status(status: Option<u16>) -> Verdict {
    match status {
        None | Some(300..=399 | 401 | 403 | 407 | 429 | 502..=599) => Verdict::Nothing,
        Some(_) => Verdict::Legacy,
    }
}

fn of_versions(versions: Vec<String>, modern: Verdict) -> Verdict {
    let has = |wanted: &[&str]| versions.iter().any(|version| wanted.contains(&version.as_str()));
    if has(&[MODERN]) {
        modern
    } else if has(&VERSIONS) {
        Verdict::Legacy
    } else {
        Verdict::Incompatible(versions)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_answer_leads_where_the_table_says() {
        let result = |versions: &str| format!(r#"{{"supportedVersions":{versions},"capabilities":{{}}}}"#);
        let unsupported = |versions: &str| {
            format!(r#"{{"code":-32022,"message":"m","data":{{"supported":{versions},"requested":"x"}}}}"#)
        };
        let neither = || Verdict::Incompatible(vec!["2027-01-01".to_owned()]);
        let rows = [
            (of_result(&result(r#"["2026-07-28","2025-11-25"]"#)), Verdict::Modern),
            (of_result(&result(r#"["2025-11-25"]"#)), Verdict::Legacy),
            (of_result(&result(r#"["2027-01-01"]"#)), neither()),
            (of_result(&result("[1]")), Verdict::Legacy),
            (of_result("{}"), Verdict::Legacy),
            (of_error(&unsupported(r#"["2026-07-28"]"#), false), Verdict::Again),
            (of_error(&unsupported(r#"["2026-07-28"]"#), true), Verdict::Incompatible(vec![MODERN.to_owned()])),
            (of_error(&unsupported(r#"["2025-06-18"]"#), false), Verdict::Legacy),
            (of_error(&unsupported(r#"["2027-01-01"]"#), false), neither()),
            (of_error(&unsupported("[]"), false), Verdict::Legacy),
            (of_error(r#"{"code":-32601,"message":"m"}"#, false), Verdict::Legacy),
            (of_error(r#"{"code":-32000,"message":"m"}"#, false), Verdict::Legacy),
        ];
        for (n, (verdict, want)) in rows.into_iter().enumerate() {
            assert_eq!(verdict, want, "row {n}");
        }
        for status in [401, 403, 407, 429, 502, 503, 504, 302] {
            assert_eq!(of_status(Some(status)), Verdict::Nothing, "{status}");
        }
        for status in [200, 202, 400, 404, 405, 406, 415, 500, 501] {
            assert_eq!(of_status(Some(status)), Verdict::Legacy, "{status}");
        }
        assert_eq!(of_status(None), Verdict::Nothing);
    }
}
