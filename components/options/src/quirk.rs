//! The names of the quirks for `--quirk NAME=on|off`, each with its reason. The core
//! implements them.

/// A known fault of real peers that the proxy tolerates by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quirk {
    AnySuccess,
    NullId,
    BlankLines,
    ByteOrderMark,
    PrettyJson,
    LineSeparators,
    LateAnswers,
    Cookies,
    SessionGone,
    StrippedPrefix,
}

impl Quirk {
    #[rustfmt::skip]
    pub(crate) const TABLE: [(Self, &'static str, &'static str); 10] = [
        (Self::AnySuccess, "any-success", "any 2xx confirms a notification: servers answer 200 or 204 instead of 202"),
        (Self::NullId, "null-id", "an error body with id null answers its request: servers refuse before they read the id"),
        (Self::BlankLines, "blank-lines", "ignore blank lines and CRLF on stdin: clients on Windows send them"),
        (Self::ByteOrderMark, "byte-order-mark", "ignore a byte order mark on stdin: some runtimes write one"),
        (Self::PrettyJson, "pretty-json", "JSON on several SSE data lines is joined: servers pretty-print"),
        (Self::LineSeparators, "line-separators", "escape U+2028 and U+2029: clients split lines there"),
        (Self::LateAnswers, "late-answers", "drop answers to cancelled requests: clients fail on them"),
        (Self::Cookies, "cookies", "return cookies to their exact origin: load balancers find the session by them"),
        (Self::SessionGone, "session-gone", "400, 401, 410, 503 or 200 that say \"no session\" count as 404"),
        (Self::StrippedPrefix, "stripped-prefix", "if an HTTP+SSE endpoint is not found, try it under the URL's own path"),
    ];

    /// Parses `NAME=on` or `NAME=off`.
    pub(crate) fn parse(text: &str) -> Option<(Self, bool)> {
        let (name, state) = text.split_once('=')?;
        let (quirk, ..) = Self::TABLE.into_iter().find(|(_, known, _)| *known == name)?;
        match state {
            "on" => Some((quirk, true)),
            "off" => Some((quirk, false)),
            _ => None,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        Self::TABLE.into_iter().find(|(quirk, ..)| *quirk == self).map_or("", |(_, name, _)| name)
    }
}
