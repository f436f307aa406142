//! The decision about a request, in one pass: path, origin, preflight,
//! credentials, method, length, session. The order matters: a stranger learns
//! nothing but that a token is missing, and nobody's body is read before its
//! sender may come in.

use crate::access::Access;
use crate::endpoint::{self, Described};
use crate::origin::OriginPolicy;
use crate::refusal::Refusal;
use crate::request::Request;
use crate::resource::Issuers;
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
    /// The authorization servers that the settings name.
    pub issuers: Vec<String>,
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
    /// It asks for the metadata of this server's endpoint: those of [`Edge::issuers`], or
    /// else the server's own.
    Describe {
        /// The name of the server.
        upstream: &'a str,
    },
    /// Its credentials are missing or wrong. Count the attempt, then refuse it:
    /// [`Refusal::Unauthorized`], or [`Refusal::TooManyAttempts`].
    Stranger {
        /// The name of the server.
        upstream: &'a str,
    },
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

/// What a path leads to: the endpoint of a server, or its metadata.
#[derive(Debug, Clone, Copy)]
enum Target<'a> {
    Endpoint(&'a str),
    Metadata(&'a str),
}

impl<U> Edge<U> {
    /// Decides about a request.
    #[must_use]
    pub fn judge<'a>(&'a self, request: &Request<'a>) -> Verdict<'a> {
        let target = match self.enter(request) {
            Ok(target) => target,
            Err(refusal) => return Verdict::Refuse(refusal),
        };
        if request.method == Method::OPTIONS {
            return Verdict::Preflight;
        }
        let upstream = match target {
            Target::Endpoint(upstream) => upstream,
            Target::Metadata(upstream) => return Verdict::Describe { upstream },
        };
        if !self.access.admits(request.authorization) {
            return Verdict::Stranger { upstream };
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

    /// Who issues the tokens for our endpoints, if that does not depend on the server. A
    /// token of the operator has no issuer, unless the settings name one.
    #[must_use]
    pub fn issuers(&self) -> Option<Issuers> {
        let known = || Issuers { servers: self.issuers.clone(), scopes: Vec::new() };
        match self.access {
            Access::Public => None,
            Access::Token(_) => Some(known()),
            Access::Forwarded { .. } => (!self.issuers.is_empty()).then(known),
        }
    }

    /// What a request is for, if its origin and host may come in.
    fn enter<'a>(&'a self, request: &Request<'a>) -> Result<Target<'a>, Refusal> {
        let known = |name: &&str| self.upstreams.contains_key(*name);
        let endpoint = endpoint::name(request.path()).filter(known).map(Target::Endpoint);
        let target = endpoint.or_else(|| self.described(request).filter(known).map(Target::Metadata));
        let target = target.ok_or(Refusal::NoEndpoint)?;
        self.origins.admit(request.origin, request.host, &request.own_origin())?;
        Ok(target)
    }

    /// The server whose metadata a request asks for. Those at the root describe the only
    /// server. Where everybody may come in, there are no tokens to describe.
    fn described<'a>(&'a self, request: &Request<'a>) -> Option<&'a str> {
        let reads = [Method::GET, Method::HEAD, Method::OPTIONS].contains(&request.method);
        match endpoint::described(request.path()).filter(|_| reads && self.access != Access::Public)? {
            Described::Named(name) => Some(name),
            Described::Root if self.upstreams.len() == 1 => self.upstreams.keys().next().map(String::as_str),
            Described::Root => None,
        }
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
            issuers: Vec::new(),
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
            (Request { authorization: None, method: Method::PUT, ..POST }, Verdict::Stranger { upstream: "" }),
            (
                Request { authorization: Some("Bearer else"), content_length: Some("101"), ..POST },
                Verdict::Stranger { upstream: "" },
            ),
            (Request { authorization: None, session: Some("a.b"), ..POST }, Verdict::Stranger { upstream: "" }),
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
    fn metadata_are_for_everybody_where_tokens_are_wanted() {
        let forwarded = || Access::Forwarded { anonymous: false };
        let token = || Access::Token("secret".to_owned());
        let refused = || Verdict::Refuse(Refusal::NoEndpoint);
        let root = "https://edge.example/.well-known/oauth-protected-resource";
        let (mcp, docs) = (format!("{root}/mcp"), format!("{root}/docs/mcp?x"));
        let ask = Request { method: Method::GET, authorization: None, ..POST };
        for (access, url, expected) in [
            (token(), &mcp, Verdict::Describe { upstream: "" }),
            (token(), &docs, Verdict::Describe { upstream: "docs" }),
            (forwarded(), &mcp, Verdict::Describe { upstream: "" }),
            (Access::Public, &mcp, refused()),
            (token(), &format!("{root}/else/mcp"), refused()),
            // Of two servers, none is the only one.
            (token(), &root.to_owned(), refused()),
        ] {
            let edge = edge(access);
            assert_eq!(edge.judge(&Request { url, ..ask.clone() }), expected, "{:?} {url}", edge.access);
        }
        let mut edge = edge(token());
        edge.upstreams.remove("");
        let described = |request: &Request<'_>| edge.judge(request) == Verdict::Describe { upstream: "docs" };
        assert!(described(&Request { url: root, ..ask.clone() }));
        assert!(described(&Request { url: root, method: Method::HEAD, ..ask.clone() }));
        assert!(!described(&Request { url: root, method: Method::POST, ..ask.clone() }));
        let preflight =
            Request { url: root, method: Method::OPTIONS, origin: Some("https://app.example"), ..ask.clone() };
        assert_eq!(edge.judge(&preflight), Verdict::Preflight);
        let stranger = Request { url: root, origin: Some("https://evil"), ..ask };
        assert_eq!(edge.judge(&stranger), Verdict::Refuse(Refusal::Origin));
    }

    #[test]
    fn the_settings_name_the_issuers_of_tokens_that_we_check() {
        let named = || vec!["https://login.example".to_owned()];
        let known = |servers: Vec<String>| Some(Issuers { servers, scopes: Vec::new() });
        let forwarded = || Access::Forwarded { anonymous: true };
        for (access, issuers, expected) in [
            (Access::Public, Vec::new(), None),
            (Access::Token("secret".to_owned()), Vec::new(), known(Vec::new())),
            (Access::Token("secret".to_owned()), named(), known(named())),
            (forwarded(), Vec::new(), None),
            (forwarded(), named(), known(named())),
        ] {
            let edge = Edge { issuers, ..edge(access) };
            assert_eq!(edge.issuers(), expected, "{:?}", edge.access);
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
