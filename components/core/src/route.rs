//! Who waits for an answer, in both directions. A request of the client is here
//! from the moment it was read until its one answer is written; taking it out is
//! the permission to answer. So is a request of our own, until its answer came.
//! Bytes, headers and HTTP must not enter.

use crate::index::{ByNumber, ByText, Seed};
use crate::rng::Rng;
use crate::wire::message::Id;
use std::collections::BTreeMap;

/// More open requests than this of one side, and a new one is refused.
const MOST_OPEN: usize = 10_000;
/// Longer ids are refused: each is kept several times while its request is open.
const LONGEST_ID: usize = 1024;
pub(crate) const LONG_ID: &str = "the id is longer than 1024 bytes";

/// Names a request inside the machine. Never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RequestKey(u64);

/// The open requests. Those to the server have ids on two sides, which need not
/// be the same.
#[derive(Debug, Default)]
pub(crate) struct Route {
    /// How the ids of our own requests begin, to keep them apart from the client's.
    prefix: String,
    last: u64,
    open: ByNumber<RequestKey, Open>,
    /// By the id that the client gave them.
    by_client: ByText<Id, RequestKey>,
    /// By the id that the server knows.
    by_wire: ByText<Id, RequestKey>,
    /// By their progress tokens; of two with the same, the later one.
    by_token: ByText<Id, RequestKey>,
    /// Of the server, waiting for the client.
    asks: BTreeMap<Id, Ask>,
    /// How many of these keep the server waiting.
    owed: usize,
}

/// An open request of the server.
#[derive(Debug)]
pub(crate) struct Ask {
    /// Its id in the server's spelling.
    pub(crate) id: Id,
    /// The server goes on with other requests while it waits, as with a ping.
    pub(crate) aside: bool,
}

/// An open request to the server.
#[derive(Debug)]
struct Open {
    /// Its id in the client's spelling; none, if it is our own.
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
    /// A new session in place of a lost one, for us.
    NewSession,
    /// What a session needs, for us.
    Upkeep,
}

/// Why a request is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Its id is in use by a request that is still open.
    Duplicate,
    /// Too many requests are open.
    Full,
    /// Its id is too long to be kept.
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

    /// Takes a request of the client.
    pub(crate) fn open(&mut self, id: &Id, token: Option<Id>, asked: Asked) -> Result<RequestKey, Refusal> {
        admit(id, self.by_client.get(id).is_some(), self.by_client.len())?;
        let key = self.insert(Open { client: Some(id.clone()), wire: id.clone(), token: token.clone(), asked });
        self.by_client.insert(id.clone(), key);
        token.map(|token| self.by_token.insert(token, key));
        Ok(key)
    }

    /// Takes a request of our own, which goes to the server under this id.
    pub(crate) fn open_own(&mut self, asked: Asked) -> (RequestKey, Id) {
        let wire = Id::named(&format!("{}{}", self.prefix, self.last + 1));
        (self.insert(Open { client: None, wire: wire.clone(), token: None, asked }), wire)
    }

    /// The id is of a request of our own, open or not.
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

    /// The permission to answer: the id in the client's spelling, once.
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

    /// All permissions at once, with the requests that they are for.
    pub(crate) fn close_all(&mut self) -> Vec<(RequestKey, Id)> {
        let keys: Vec<RequestKey> = self.open.keys().into_iter().filter(|key| self.client_id(*key).is_some()).collect();
        keys.into_iter().filter_map(|key| Some((key, self.close(key)?))).collect()
    }

    /// What an open request asks for.
    pub(crate) fn asked(&self, key: RequestKey) -> Option<Asked> {
        self.open.get(&key).map(|open| open.asked)
    }

    /// No request of the client is open.
    pub(crate) fn idle(&self) -> bool {
        self.by_client.len() == 0
    }

    /// The open request to which the client gave this id.
    pub(crate) fn by_client(&self, id: &Id) -> Option<RequestKey> {
        self.by_client.get(id).copied()
    }

    /// The open request that the server knows by this id.
    pub(crate) fn by_wire(&self, id: &Id) -> Option<RequestKey> {
        self.by_wire.get(id).copied()
    }

    /// The open request of the client that this progress token belongs to.
    pub(crate) fn by_token(&self, token: &Id) -> Option<RequestKey> {
        self.by_token.get(token).copied()
    }

    /// The id that the client gave a request.
    pub(crate) fn client_id(&self, key: RequestKey) -> Option<&Id> {
        self.open.get(&key)?.client.as_ref()
    }

    /// The id that the server knows a request by.
    pub(crate) fn wire_id(&self, key: RequestKey) -> Option<&Id> {
        self.open.get(&key).map(|open| &open.wire)
    }

    /// Takes a request of the server.
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

    /// The permission to answer the server, once.
    pub(crate) fn answer(&mut self, id: &Id) -> Option<Ask> {
        let ask = self.asks.remove(id)?;
        self.owed -= usize::from(!ask.aside);
        Some(ask)
    }

    /// The server's open requests; they are no longer open.
    pub(crate) fn drop_asks(&mut self) -> Vec<Id> {
        self.owed = 0;
        std::mem::take(&mut self.asks).into_values().map(|ask| ask.id).collect()
    }

    /// The client owes the server an answer without which it may not go on.
    pub(crate) fn client_owes(&self) -> bool {
        self.owed > 0
    }
}

/// May one more request be open beside so many, of which one may have its id?
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
