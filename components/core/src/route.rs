//! The open requests in both directions. A client's request is here from the moment the
//! proxy reads it until it writes the one answer; removing the request grants the
//! permission to answer. The proxy's own requests are here until their answers arrive.
//! Bytes, headers and HTTP do not belong here.

use crate::index::{ByNumber, ByText, Seed};
use crate::rng::Rng;
use crate::wire::message::Id;
use std::collections::BTreeMap;

/// With this many open requests from one side, the proxy refuses new ones.
const MOST_OPEN: usize = 10_000;
/// The proxy refuses longer ids: it stores several copies of each while its request is
/// open.
const LONGEST_ID: usize = 1024;
pub(crate) const LONG_ID: &str = "the id is longer than 1024 bytes";

/// Identifies a request inside the machine. Never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RequestKey(u64);

/// The open requests. Those to the server have an id on each side, and the two may
/// differ.
#[derive(Debug, Default)]
pub(crate) struct Route {
    /// The prefix of the proxy's own ids, which keeps them apart from the client's.
    prefix: String,
    last: u64,
    open: ByNumber<RequestKey, Open>,
    /// Requests by the client's id.
    by_client: ByText<Id, RequestKey>,
    /// Requests by the server's id.
    by_wire: ByText<Id, RequestKey>,
    /// Requests by progress token; of two with the same token, the later one.
    by_token: ByText<Id, RequestKey>,
    /// The server's requests that wait for the client.
    asks: BTreeMap<Id, Ask>,
    /// How many of these block the server.
    owed: usize,
}

/// An open request of the server.
#[derive(Debug)]
pub(crate) struct Ask {
    /// Its id in the server's spelling.
    pub(crate) id: Id,
    /// The server continues with other requests while it waits, as with a ping.
    pub(crate) aside: bool,
}

/// An open request to the server.
#[derive(Debug)]
struct Open {
    /// The id in the client's spelling; `None` for the proxy's own request.
    client: Option<Id>,
    wire: Id,
    token: Option<Id>,
    asked: Asked,
}

/// What a request to the server asks for, as far as it matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    /// Something for the client.
    Plain,
    /// The client's session.
    Session,
    /// A new session in place of a lost one, for the proxy.
    NewSession,
    /// Upkeep of a session, for the proxy.
    Upkeep,
    /// What the server supports, for the proxy.
    Discovery,
    /// The tools and their headers, for the proxy.
    Tools,
    /// Notifications of a modern server, for the proxy.
    Subscription,
}

/// Why the proxy refuses a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// An open request already uses its id.
    Duplicate,
    /// Too many requests are open.
    Full,
    /// Its id is too long to store.
    LongId,
}

impl Route {
    pub(crate) fn new(rng: &mut Rng) -> Self {
        let number = rng.next();
        let prefix = format!("mcp-proxy-{number:016x}-");
        let seed = Seed(number);
        let [by_client, by_wire, by_token] = [seed; 3].map(ByText::hashed_by);
        Self { prefix, by_client, by_wire, by_token, ..Self::default() }
    }

    /// Adds a client's request. It keeps its id for the server, unless a detached request
    /// still has that id there.
    pub(crate) fn open(&mut self, id: &Id, token: Option<Id>, asked: Asked) -> Result<RequestKey, Refusal> {
        admit(id, self.by_client.get(id).is_some(), self.by_client.len())?;
        let wire = if self.by_wire.get(id).is_some() { self.own_id() } else { id.clone() };
        let key = self.insert(Open { client: Some(id.clone()), wire, token: token.clone(), asked });
        self.by_client.insert(id.clone(), key);
        token.map(|token| self.by_token.insert(token, key));
        Ok(key)
    }

    /// Adds one of the proxy's own requests and returns its id for the server.
    pub(crate) fn open_own(&mut self, asked: Asked) -> (RequestKey, Id) {
        let wire = self.own_id();
        (self.insert(Open { client: None, wire: wire.clone(), token: None, asked }), wire)
    }

    /// A new id of the proxy's own.
    pub(crate) fn own_id(&mut self) -> Id {
        self.last += 1;
        Id::named(&format!("{}{}", self.prefix, self.last))
    }

    /// Gives a request a new id for the server, under which the proxy sends it again.
    pub(crate) fn renamed(&mut self, key: RequestKey) -> Option<Id> {
        let wire = self.own_id();
        let open = self.open.get_mut(&key)?;
        let old = std::mem::replace(&mut open.wire, wire.clone());
        self.by_wire.remove(&old);
        self.by_wire.insert(wire.clone(), key);
        Some(wire)
    }

    /// The client has an answer, but the server's side of the request stays open. Returns
    /// the client's id.
    pub(crate) fn detach(&mut self, key: RequestKey) -> Option<Id> {
        let client = self.open.get_mut(&key)?.client.take()?;
        self.by_client.remove(&client);
        Some(client)
    }

    /// The client's request `retry` continues a detached one.
    pub(crate) fn adopt(&mut self, detached: RequestKey, retry: RequestKey) {
        let Some(id) = self.close(retry) else { return };
        let Some(open) = self.open.get_mut(&detached) else { return };
        open.client = Some(id.clone());
        self.by_client.insert(id, detached);
        // Both may have the same progress token, which now means this one again.
        if let Some(token) = open.token.clone().filter(|token| self.by_token.get(token).is_none()) {
            self.by_token.insert(token, detached);
        }
    }

    /// Whether the id belongs to one of the proxy's own requests, open or not.
    pub(crate) fn is_ours(&self, id: &Id) -> bool {
        id.text().trim_start_matches('"').starts_with(&self.prefix)
    }

    fn insert(&mut self, open: Open) -> RequestKey {
        self.last += 1;
        let key = RequestKey(self.last);
        self.by_wire.insert(open.wire.clone(), key);
        self.open.insert(key, open);
        key
    }

    /// Grants the permission to answer, once: the id in the client's spelling.
    pub(crate) fn close(&mut self, key: RequestKey) -> Option<Id> {
        let Open { client, wire, token, .. } = self.open.remove(&key)?;
        self.by_wire.remove(&wire);
        client.as_ref().map(|id| self.by_client.remove(id));
        if let Some(token) = token
            && self.by_token.get(&token) == Some(&key)
        {
            self.by_token.remove(&token);
        }
        client
    }

    /// All permissions at once, with their requests.
    pub(crate) fn close_all(&mut self) -> Vec<(RequestKey, Id)> {
        let keys: Vec<RequestKey> = self.open.keys().into_iter().filter(|key| self.client_id(*key).is_some()).collect();
        keys.into_iter().filter_map(|key| Some((key, self.close(key)?))).collect()
    }

    pub(crate) fn asked(&self, key: RequestKey) -> Option<Asked> {
        self.open.get(&key).map(|open| open.asked)
    }

    /// How many requests of the client are open.
    pub(crate) fn open_requests(&self) -> usize {
        self.by_client.len()
    }

    /// The client has no open requests.
    pub(crate) fn idle(&self) -> bool {
        self.by_client.len() == 0
    }

    /// The open request with this client id.
    pub(crate) fn by_client(&self, id: &Id) -> Option<RequestKey> {
        self.by_client.get(id).copied()
    }

    /// The open request with this server id.
    pub(crate) fn by_wire(&self, id: &Id) -> Option<RequestKey> {
        self.by_wire.get(id).copied()
    }

    /// The client's open request with this progress token.
    pub(crate) fn by_token(&self, token: &Id) -> Option<RequestKey> {
        self.by_token.get(token).copied()
    }

    /// The client's open requests that ask for progress: id and token.
    pub(crate) fn reporting(&self) -> Vec<(Id, Id)> {
        let open = self.open.keys().into_iter().filter_map(|key| self.open.get(&key));
        open.filter_map(|open| Some((open.client.clone()?, open.token.clone()?))).collect()
    }

    /// The client's id of a request.
    pub(crate) fn client_id(&self, key: RequestKey) -> Option<&Id> {
        self.open.get(&key)?.client.as_ref()
    }

    /// The server's id of a request.
    pub(crate) fn wire_id(&self, key: RequestKey) -> Option<&Id> {
        self.open.get(&key).map(|open| &open.wire)
    }

    /// Adds a request of the server.
    pub(crate) fn ask(&mut self, id: &Id, aside: bool) -> Result<(), Refusal> {
        admit(id, self.asks.contains_key(id), self.asks.len())?;
        self.owed += usize::from(!aside);
        self.asks.insert(id.clone(), Ask { id: id.clone(), aside });
        Ok(())
    }

    /// The server waits for the answer to this question.
    pub(crate) fn is_asked(&self, id: &Id) -> bool {
        self.asks.contains_key(id)
    }

    /// Grants the permission to answer the server, once.
    pub(crate) fn answer(&mut self, id: &Id) -> Option<Ask> {
        let ask = self.asks.remove(id)?;
        self.owed -= usize::from(!ask.aside);
        Some(ask)
    }

    /// Closes all requests of the server and returns their ids.
    pub(crate) fn drop_asks(&mut self) -> Vec<Id> {
        self.owed = 0;
        std::mem::take(&mut self.asks).into_values().map(|ask| ask.id).collect()
    }

    /// The client owes the server an answer that blocks it.
    pub(crate) fn client_owes(&self) -> bool {
        self.owed > 0
    }
}

/// May a request with this id be opened? `known`: its id is in use; `open`: how many are
/// open.
fn admit(id: &Id, known: bool, open: usize) -> Result<(), Refusal> {
    if id.text().len() > LONGEST_ID {
        return Err(Refusal::LongId);
    }
    if known {
        return Err(Refusal::Duplicate);
    }
    if open >= MOST_OPEN {
        return Err(Refusal::Full);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> Id {
        Id::parse(text).unwrap()
    }

    #[test]
    fn a_request_is_answered_once_and_in_its_own_spelling() {
        let mut route = Route::new(&mut Rng::new(1));
        route.open(&id("\"\\u0061\""), None, Asked::Plain).unwrap();
        assert_eq!(route.open(&id("\"a\""), None, Asked::Plain), Err(Refusal::Duplicate));
        let key = route.by_wire(&id("\"a\"")).unwrap();
        assert_eq!(route.close(key).unwrap().text(), "\"\\u0061\"");
        assert!(route.close(key).is_none() && route.by_wire(&id("\"a\"")).is_none());
    }

    #[test]
    fn number_and_string_ids_are_two_requests() {
        let mut route = Route::new(&mut Rng::new(1));
        let number = route.open(&id("1"), None, Asked::Plain).unwrap();
        let string = route.open(&id("\"1\""), None, Asked::Plain).unwrap();
        assert_eq!(route.close(number).unwrap().text(), "1");
        assert_eq!(route.client_id(string).unwrap().text(), "\"1\"");
    }

    #[test]
    fn over_the_limit_the_asker_is_refused() {
        let mut route = Route::new(&mut Rng::new(1));
        for n in 0..MOST_OPEN {
            route.open(&id(&n.to_string()), None, Asked::Plain).unwrap();
        }
        assert_eq!(route.open(&id("\"x\""), None, Asked::Plain), Err(Refusal::Full));
    }

    #[test]
    fn a_long_id_is_refused_on_either_side() {
        let mut route = Route::new(&mut Rng::new(1));
        let long = id(&format!("\"{}\"", "x".repeat(LONGEST_ID)));
        assert_eq!(route.open(&long, None, Asked::Plain), Err(Refusal::LongId));
        assert_eq!(route.ask(&long, false), Err(Refusal::LongId));
        assert!(LONG_ID.contains(&LONGEST_ID.to_string()));
    }

    #[test]
    fn a_progress_token_of_zero_finds_its_request() {
        let mut route = Route::new(&mut Rng::new(1));
        let key = route.open(&id("7"), Some(id("0")), Asked::Plain).unwrap();
        assert_eq!(route.by_token(&id("0")), Some(key));
        assert_eq!(route.by_token(&id("\"0\"")), None);
        route.close(key);
        assert_eq!(route.by_token(&id("0")), None);
    }

    #[test]
    fn a_request_of_our_own_is_no_business_of_the_client() {
        let mut route = Route::new(&mut Rng::new(1));
        let (key, wire) = route.open_own(Asked::Upkeep);
        assert!(route.idle() && route.wire_id(key) == Some(&wire) && route.by_client(&wire).is_none());
        assert!(route.close_all().is_empty() && route.by_wire(&wire) == Some(key));
        assert!(route.close(key).is_none() && route.wire_id(key).is_none() && route.is_ours(&wire));
    }
}
