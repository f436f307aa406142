//! What the edge tells a session about a request. It is all in one header, since each
//! header has a fixed cost that exceeds the cost of its contents.

use crate::shell::Asker;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue};
use std::borrow::Cow;

/// The headers that the edge passes on, in its order.
pub(crate) const PASSED: [HeaderName; 7] = [
    ACCEPT,
    CONTENT_TYPE,
    HeaderName::from_static("last-event-id"),
    HeaderName::from_static("mcp-protocol-version"),
    HeaderName::from_static("mcp-method"),
    HeaderName::from_static("mcp-name"),
    HeaderName::from_static("mcp-session-id"),
];

/// What the edge knows about a request. Unknown fields are empty.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Known<'a> {
    /// The length of the body in bytes, or `-`. It comes first, because the platform
    /// script reads it.
    pub(crate) length: &'a str,
    /// The server.
    pub(crate) upstream: &'a str,
    /// The owner of the request.
    pub(crate) principal: &'a str,
    /// The origin of the requesting page.
    pub(crate) origin: &'a str,
    /// The client's own credentials, if the server gets them.
    pub(crate) credentials: &'a str,
    /// The object that counts the client's sessions, if the request may open one.
    pub(crate) client: &'a str,
    /// How a request without a session is served; empty for one that belongs to a session
    /// or opens one.
    pub(crate) stateless: &'a str,
    /// The values of the headers that the edge passes on.
    pub(crate) passed: [&'a str; 7],
    /// What the edge has learned about the server. New fields come after the others:
    /// during a deployment, an edge and an object of different versions must understand
    /// the rest.
    pub(crate) server: &'a str,
    /// The headers that repeat arguments of a tool, as the platform script writes them.
    pub(crate) mirrored: &'a str,
    /// The URL of the endpoint's metadata, if the server gets the client's own credentials.
    pub(crate) metadata: &'a str,
}

/// How an object serves a request without a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stateless {
    /// With others.
    Shared,
    /// Not with another whose questions could be taken for its own.
    Exclusive,
    /// Only if it has parked such a request.
    Parked,
}

impl Stateless {
    const ALL: [Self; 3] = [Self::Shared, Self::Exclusive, Self::Parked];

    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Shared => "shared",
            Self::Exclusive => "exclusive",
            Self::Parked => "parked",
        }
    }
}

impl<'a> Known<'a> {
    /// Replaces tabs with spaces: in a header value a tab means no more than a space.
    pub(crate) fn write(&self) -> String {
        let Self { length, upstream, principal, origin, credentials, client, stateless, .. } = self;
        let Self { passed, server, mirrored, metadata, .. } = self;
        let known = [length, upstream, principal, origin, credentials, client, stateless];
        let values = known.into_iter().chain(passed).chain([server, mirrored, metadata]);
        values
            .map(|value| if value.contains('\t') { value.replace('\t', " ").into() } else { Cow::from(*value) })
            .collect::<Vec<_>>()
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
            stateless: next(),
            passed: std::array::from_fn(|_| next()),
            server: next(),
            mirrored: next(),
            metadata: next(),
        }
    }

    pub(crate) fn is_from(&self, asker: &Asker) -> bool {
        self.upstream == asker.upstream && self.principal == asker.principal
    }

    pub(crate) fn asker(&self) -> Asker {
        Asker { upstream: self.upstream.to_owned(), principal: self.principal.to_owned() }
    }

    /// How a request without a session is served.
    pub(crate) fn stateless(&self) -> Option<Stateless> {
        Stateless::ALL.into_iter().find(|how| how.text() == self.stateless)
    }

    pub(crate) fn origin(&self) -> Option<&'a str> {
        Some(self.origin).filter(|origin| !origin.is_empty())
    }

    pub(crate) fn session(&self) -> Option<&'a str> {
        let [.., session] = self.passed;
        Some(session).filter(|session| !session.is_empty())
    }

    /// The `Authorization` header for the server.
    pub(crate) fn authorization(&self) -> Option<(HeaderName, HeaderValue)> {
        let credentials = Some(self.credentials).filter(|credentials| !credentials.is_empty())?;
        Some((AUTHORIZATION, HeaderValue::from_bytes(credentials.as_bytes()).ok()?))
    }

    /// The headers that the machine reads.
    pub(crate) fn headers(&self) -> HeaderMap {
        let passed = PASSED.into_iter().zip(self.passed).filter(|(_, value)| !value.is_empty());
        let value = |value: &str| HeaderValue::from_bytes(value.as_bytes()).ok();
        let passed = passed.filter_map(|(name, text)| Some((name, value(text)?)));
        let mirrored: Vec<(String, String)> = serde_json::from_str(self.mirrored).unwrap_or_default();
        let mirrored = mirrored.into_iter().filter_map(|(name, text)| Some((name.parse().ok()?, value(&text)?)));
        passed.chain(mirrored).collect()
    }
}
