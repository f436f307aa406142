//! What the edge tells a session of a request. It stands in one header, since
//! each header costs as much as all that stands in this one.

use crate::shell::Asker;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue};
use std::borrow::Cow;

/// The headers that are passed on, in the order in which the edge sees them.
pub(crate) const PASSED: [HeaderName; 5] = [
    ACCEPT,
    CONTENT_TYPE,
    HeaderName::from_static("last-event-id"),
    HeaderName::from_static("mcp-protocol-version"),
    HeaderName::from_static("mcp-session-id"),
];

/// What is known of a request. What is not, is empty.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Known<'a> {
    /// How many bytes the body has, or `-`. This comes first: the platform looks for it.
    pub(crate) length: &'a str,
    /// Which server it is for.
    pub(crate) upstream: &'a str,
    /// Whose it is.
    pub(crate) principal: &'a str,
    /// The page that asks.
    pub(crate) origin: &'a str,
    /// What the server is to get, if it gets the client's own credentials.
    pub(crate) credentials: &'a str,
    /// Who counts the sessions of the client, where this opens one.
    pub(crate) client: &'a str,
    /// The values of the headers that are passed on.
    pub(crate) passed: [&'a str; 5],
}

impl<'a> Known<'a> {
    /// In no header does a tab mean more than a space, and at its ends neither
    /// means anything.
    pub(crate) fn write(&self) -> String {
        let Self { length, upstream, principal, origin, credentials, client, passed } = self;
        let [accept, kind, last, version, session] = passed;
        [length, upstream, principal, origin, credentials, client, accept, kind, last, version, session]
            .map(|value| if value.contains('\t') { value.replace('\t', " ").into() } else { Cow::from(*value) })
            .join("\t")
    }

    pub(crate) fn read(text: &'a str) -> Self {
        let mut values = text.split('\t');
        let mut next = || values.next().unwrap_or_default();
        Self {
            length: next(),
            upstream: next(),
            principal: next(),
            origin: next(),
            credentials: next(),
            client: next(),
            passed: std::array::from_fn(|_| next()),
        }
    }

    pub(crate) fn is_from(&self, asker: &Asker) -> bool {
        self.upstream == asker.upstream && self.principal == asker.principal
    }

    pub(crate) fn asker(&self) -> Asker {
        Asker { upstream: self.upstream.to_owned(), principal: self.principal.to_owned() }
    }

    pub(crate) fn origin(&self) -> Option<&'a str> {
        Some(self.origin).filter(|origin| !origin.is_empty())
    }

    pub(crate) fn session(&self) -> Option<&'a str> {
        let [.., session] = self.passed;
        Some(session).filter(|session| !session.is_empty())
    }

    /// What the server is to get as `Authorization`.
    pub(crate) fn authorization(&self) -> Option<(HeaderName, HeaderValue)> {
        let credentials = Some(self.credentials).filter(|credentials| !credentials.is_empty())?;
        Some((AUTHORIZATION, HeaderValue::from_bytes(credentials.as_bytes()).ok()?))
    }

    /// The headers that the machine looks at.
    pub(crate) fn headers(&self) -> HeaderMap {
        let passed = PASSED.into_iter().zip(self.passed).filter(|(_, value)| !value.is_empty());
        passed.filter_map(|(name, value)| Some((name, HeaderValue::from_bytes(value.as_bytes()).ok()?))).collect()
    }
}
