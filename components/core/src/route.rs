//! Who waits for an answer, in both directions. Every request of the client is
//! here from the moment it was read until its one answer is written; taking it
//! out is the permission to answer. Bytes, headers and HTTP must not enter.

use crate::wire::message::Id;
use std::collections::BTreeMap;

/// More open requests than this of one side, and a new one is refused.
const MOST_OPEN: usize = 10_000;
/// Longer ids are refused: each is kept several times while its request is open.
const LONGEST_ID: usize = 1024;
pub(crate) const LONG_ID: &str = "the id is longer than 1024 bytes";

/// The open requests.
#[derive(Debug, Default)]
pub(crate) struct Route {
    /// Of the client, waiting for the server. The key compares by value, the
    /// stored id has the client's spelling.
    open: BTreeMap<Id, Open>,
    /// Of the server, waiting for the client.
    asks: BTreeMap<Id, Ask>,
}

/// An open request of the server.
#[derive(Debug)]
pub(crate) struct Ask {
    /// Its id in the server's spelling.
    pub(crate) id: Id,
    /// The server goes on with other requests while it waits, as with a ping.
    pub(crate) aside: bool,
}

#[derive(Debug)]
struct Open {
    id: Id,
    progress: Option<Id>,
    initialize: bool,
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
    /// Takes a request of the client.
    pub(crate) fn open(&mut self, id: &Id, progress: Option<Id>, initialize: bool) -> Result<(), Refusal> {
        admit(id, &self.open)?;
        self.open.insert(id.clone(), Open { id: id.clone(), progress, initialize });
        Ok(())
    }

    /// The permission to answer: the id in the client's spelling, once.
    pub(crate) fn close(&mut self, id: &Id) -> Option<Id> {
        self.open.remove(id).map(|open| open.id)
    }

    /// All permissions at once.
    pub(crate) fn close_all(&mut self) -> Vec<Id> {
        std::mem::take(&mut self.open).into_values().map(|open| open.id).collect()
    }

    pub(crate) fn is_open(&self, id: &Id) -> bool {
        self.open.contains_key(id)
    }

    pub(crate) fn is_initialize(&self, id: &Id) -> bool {
        self.open.get(id).is_some_and(|open| open.initialize)
    }

    pub(crate) fn idle(&self) -> bool {
        self.open.is_empty()
    }

    /// The open request that this progress token belongs to.
    pub(crate) fn by_progress(&self, token: &Id) -> Option<&Id> {
        self.open.values().find(|open| open.progress.as_ref() == Some(token)).map(|open| &open.id)
    }

    /// Takes a request of the server.
    pub(crate) fn ask(&mut self, id: &Id, aside: bool) -> Result<(), Refusal> {
        admit(id, &self.asks)?;
        self.asks.insert(id.clone(), Ask { id: id.clone(), aside });
        Ok(())
    }

    /// The permission to answer the server, once.
    pub(crate) fn answer(&mut self, id: &Id) -> Option<Ask> {
        self.asks.remove(id)
    }

    /// The server's open requests; they are no longer open.
    pub(crate) fn drop_asks(&mut self) -> Vec<Id> {
        std::mem::take(&mut self.asks).into_values().map(|ask| ask.id).collect()
    }

    /// The client owes the server an answer without which it may not go on.
    pub(crate) fn client_owes(&self) -> bool {
        self.asks.values().any(|ask| !ask.aside)
    }
}

/// May one more request be open beside these?
fn admit<T>(id: &Id, open: &BTreeMap<Id, T>) -> Result<(), Refusal> {
    if id.text().len() > LONGEST_ID {
        return Err(Refusal::LongId);
    }
    if open.contains_key(id) {
        return Err(Refusal::Duplicate);
    }
    if open.len() >= MOST_OPEN {
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
        let mut route = Route::default();
        route.open(&id("\"\\u0061\""), None, false).unwrap();
        assert_eq!(route.open(&id("\"a\""), None, false), Err(Refusal::Duplicate));
        assert_eq!(route.close(&id("\"a\"")).unwrap().text(), "\"\\u0061\"");
        assert!(route.close(&id("\"a\"")).is_none());
    }

    #[test]
    fn number_and_string_ids_are_two_requests() {
        let mut route = Route::default();
        route.open(&id("1"), None, false).unwrap();
        route.open(&id("\"1\""), None, false).unwrap();
        assert_eq!(route.close(&id("1")).unwrap().text(), "1");
        assert!(route.is_open(&id("\"1\"")));
    }

    #[test]
    fn over_the_limit_the_asker_is_refused() {
        let mut route = Route::default();
        for n in 0..MOST_OPEN {
            route.open(&id(&n.to_string()), None, false).unwrap();
        }
        assert_eq!(route.open(&id("\"x\""), None, false), Err(Refusal::Full));
    }

    #[test]
    fn a_long_id_is_refused_on_either_side() {
        let mut route = Route::default();
        let long = id(&format!("\"{}\"", "x".repeat(LONGEST_ID)));
        assert_eq!(route.open(&long, None, false), Err(Refusal::LongId));
        assert_eq!(route.ask(&long, false), Err(Refusal::LongId));
        assert!(LONG_ID.contains(&LONGEST_ID.to_string()));
    }

    #[test]
    fn a_progress_token_of_zero_finds_its_request() {
        let mut route = Route::default();
        route.open(&id("7"), Some(id("0")), false).unwrap();
        assert_eq!(route.by_progress(&id("0")), Some(&id("7")));
        assert_eq!(route.by_progress(&id("\"0\"")), None);
    }
}
