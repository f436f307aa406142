//! The decision about a request, in one pass: path, origin, preflight,
//! credentials, method, length, session. The order matters: a stranger learns
//! nothing but that a token is missing, and nobody's body is read before its
//! sender may come in.

use crate::access::Access;
use crate::endpoint;
use crate::origin::OriginPolicy;
use crate::refusal::Refusal;
use crate::request::Request;
use crate::session_id;
use http::Method;
use std::collections::BTreeMap;

/// The settings of an HTTP front. `U` is what the shell knows of a server.
#[derive(Debug)]
pub struct Edge<U> {
    /// The servers by name; the one at `/mcp` has the empty name.
    pub upstreams: BTreeMap<String, U>,
    /// Who may come in.
    pub access: Access,
    /// The origins and hosts that may.
    pub origins: OriginPolicy,
    /// The longest body of a request, in bytes.
    pub max_body: usize,
}

/// What to do with a request.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict<'a> {
    /// Answer with this refusal.
    Refuse(Refusal),
    /// Answer with [`cors::preflight`](crate::cors::preflight).
    Preflight,
    /// Its credentials are missing or wrong. Count the attempt, then refuse it:
    /// [`Refusal::Unauthorized`], or [`Refusal::TooManyAttempts`].
    Stranger,
    /// Its body is too long: read some of it, so that the client sees the
    /// answer, then refuse it with [`Refusal::TooLong`].
    TooLong,
    /// It belongs to a session: pass it to this place.
    Session {
        /// The name of the server.
        upstream: &'a str,
        /// Where the session is served.
        place: &'a str,
    },
    /// It names no session. If it opens one, and the client may have one more,
    /// make it.
    Open {
        /// The name of the server.
        upstream: &'a str,
    },
}

impl<U> Edge<U> {
    /// Decides about a request.
    #[must_use]
    pub fn judge<'a>(&self, request: &Request<'a>) -> Verdict<'a> {
        let upstream = match self.enter(request) {
            Ok(upstream) => upstream,
            Err(refusal) => return Verdict::Refuse(refusal),
        };
        if request.method == Method::OPTIONS {
            return Verdict::Preflight;
        }
        if !self.access.admits(request.authorization) {
            return Verdict::Stranger;
        }
        if let Err(refusal) = self.check(request) {
            return Verdict::Refuse(refusal);
        }
        if request.length().is_some_and(|length| length > self.max_body) {
            return Verdict::TooLong;
        }
        match request.session().map(session_id::place) {
            Some(Some(place)) => Verdict::Session { upstream, place },
            Some(None) => Verdict::Refuse(Refusal::UnknownSession),
            None => Verdict::Open { upstream },
        }
    }

    /// The server that a request is for, if its origin and host may come in.
    fn enter<'a>(&self, request: &Request<'a>) -> Result<&'a str, Refusal> {
        let name = endpoint::name(request.path()).filter(|name| self.upstreams.contains_key(*name));
        let name = name.ok_or(Refusal::NoEndpoint)?;
        self.origins.admit(request.origin, request.host, &request.own_origin())?;
        Ok(name)
    }

    /// Checks the head of a request whose credentials may come in.
    fn check(&self, request: &Request<'_>) -> Result<(), Refusal> {
        // The server gets the credentials as they are, or not at all.
        let printable = |given: &str| given.bytes().all(|byte| matches!(byte, b' '..=b'~'));
        if self.access.forwarded(request.authorization).is_some_and(|given| !printable(given)) {
            return Err(Refusal::BadAuthorization);
        }
        if ![Method::GET, Method::POST, Method::DELETE].contains(&request.method) {
            return Err(Refusal::BadMethod);
        }
        if request.session.is_none() && request.method != Method::POST {
            return Err(Refusal::NoSession);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POST: Request<'_> = Request {
        method: Method::POST,
        url: "https://edge.example/mcp",
        origin: None,
        host: Some("edge.example"),
        authorization: Some("Bearer secret"),
        session: None,
        version: None,
        rpc_method: None,
        content_length: Some("2"),
    };

    fn edge(access: Access) -> Edge<()> {
        Edge {
            upstreams: BTreeMap::from([(String::new(), ()), ("docs".to_owned(), ())]),
            access,
            origins: OriginPolicy::new(vec!["https://app.example".to_owned()], Vec::new()),
            max_body: 100,
        }
    }

    #[test]
    fn the_edge_decides_in_this_order() {
        let edge = edge(Access::Token("secret".to_owned()));
        let open = Verdict::Open { upstream: "" };
        let docs = Verdict::Open { upstream: "docs" };
        let served = Verdict::Session { upstream: "", place: "a" };
        let refuse = Verdict::Refuse;
        for (request, expected) in [
            (POST, open),
            (Request { url: "https://edge.example/docs/mcp?x", ..POST }, docs),
            (Request { session: Some("a.b"), ..POST }, served),
            // An unknown path hides everything else.
            (
                Request { url: "https://edge.example/", origin: Some("https://evil"), ..POST },
                refuse(Refusal::NoEndpoint),
            ),
            (Request { url: "https://edge.example/else/mcp", ..POST }, refuse(Refusal::NoEndpoint)),
            // A foreign origin is refused before anything is said of credentials.
            (Request { origin: Some("https://evil"), authorization: None, ..POST }, refuse(Refusal::Origin)),
            // A preflight has no credentials.
            (Request { method: Method::OPTIONS, authorization: None, ..POST }, Verdict::Preflight),
            (Request { method: Method::OPTIONS, origin: Some("https://evil"), ..POST }, refuse(Refusal::Origin)),
            // A stranger learns nothing of methods, lengths and sessions.
            (Request { authorization: None, method: Method::PUT, ..POST }, Verdict::Stranger),
            (Request { authorization: Some("Bearer else"), content_length: Some("101"), ..POST }, Verdict::Stranger),
            (Request { authorization: None, session: Some("a.b"), ..POST }, Verdict::Stranger),
            (Request { method: Method::PUT, ..POST }, refuse(Refusal::BadMethod)),
            (Request { method: Method::HEAD, ..POST }, refuse(Refusal::BadMethod)),
            (Request { method: Method::GET, ..POST }, refuse(Refusal::NoSession)),
            (Request { method: Method::DELETE, ..POST }, refuse(Refusal::NoSession)),
            (Request { content_length: Some("101"), session: Some("a.b"), ..POST }, Verdict::TooLong),
            (
                Request { content_length: Some("100"), session: Some("a.b"), ..POST },
                Verdict::Session { upstream: "", place: "a" },
            ),
            (Request { content_length: Some("many"), ..POST }, Verdict::Open { upstream: "" }),
            (Request { session: Some("a"), ..POST }, refuse(Refusal::UnknownSession)),
            (Request { session: Some(""), ..POST }, refuse(Refusal::UnknownSession)),
        ] {
            assert_eq!(edge.judge(&request), expected, "{request:?}");
        }
    }

    #[test]
    fn a_request_without_sessions_belongs_to_none() {
        let edge = edge(Access::Public);
        let call = Request { rpc_method: Some("tools/call"), version: Some("2026-07-28"), ..POST };
        let open = || Verdict::Open { upstream: "" };
        let served = || Verdict::Session { upstream: "", place: "a" };
        let unknown = || Verdict::Refuse(Refusal::UnknownSession);
        for (request, named, other) in [
            (call.clone(), open(), open()),
            (Request { version: Some("v999"), ..call.clone() }, open(), open()),
            (Request { version: Some(" 2025-11-25 "), ..call.clone() }, served(), unknown()),
            (Request { version: None, ..call.clone() }, served(), unknown()),
            (Request { rpc_method: None, ..call.clone() }, served(), unknown()),
            (Request { method: Method::GET, ..call.clone() }, served(), unknown()),
        ] {
            assert_eq!(edge.judge(&Request { session: Some("a.b"), ..request.clone() }), named, "{request:?}");
            assert_eq!(edge.judge(&Request { session: Some("x"), ..request.clone() }), other, "{request:?}");
        }
    }

    #[test]
    fn a_page_of_our_own_origin_or_a_listed_one_may_call() {
        let edge = edge(Access::Public);
        for origin in ["https://app.example", "https://edge.example"] {
            let request = Request { origin: Some(origin), authorization: None, ..POST };
            assert_eq!(edge.judge(&request), Verdict::Open { upstream: "" }, "{origin}");
        }
        let other_port = Request { origin: Some("https://edge.example"), url: "https://edge.example:8443/mcp", ..POST };
        assert_eq!(edge.judge(&other_port), Verdict::Refuse(Refusal::Origin));
    }

    #[test]
    fn credentials_that_no_header_can_carry_are_not_forwarded() {
        let given = Request { authorization: Some("Bearer \u{e9}"), ..POST };
        assert_eq!(edge(Access::Public).judge(&given), Verdict::Open { upstream: "" });
        let forwarded = edge(Access::Forwarded { anonymous: true });
        for bad in ["Bearer \u{e9}", "Bearer a\tb", "Bearer \u{7f}"] {
            let request = Request { authorization: Some(bad), ..POST };
            assert_eq!(forwarded.judge(&request), Verdict::Refuse(Refusal::BadAuthorization), "{bad}");
        }
        assert_eq!(forwarded.judge(&Request { authorization: None, ..POST }), Verdict::Open { upstream: "" });
    }
}
