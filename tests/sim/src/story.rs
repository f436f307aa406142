//! The streams of the machine to an HTTP client, as stories: each is told in
//! one exchange after another, of which the client has read more or less. What
//! is told again must have been told before, in this very story, after the
//! place from which the client asked for it.

use crate::event::Event;
use crate::exchange::{Exchange, Purpose};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Default)]
pub(crate) struct Stories {
    pub(crate) stories: BTreeMap<u64, Story>,
    /// By the id of an event, its story and how much of it had been told then.
    places: BTreeMap<String, (u64, usize)>,
}

#[derive(Debug, Default)]
pub(crate) struct Story {
    /// It carries what the server says unasked.
    pub(crate) listens: bool,
    told: Vec<String>,
    /// Requests to which no answer was told.
    awaits: BTreeSet<String>,
    /// Requests to which the client has seen no answer.
    pub(crate) wants: BTreeSet<String>,
    /// Requests whose answers the client does not wait for any more.
    given_up: BTreeSet<String>,
    /// The ids of the events that the client has seen.
    pub(crate) seen: Vec<String>,
    /// The client waits for nothing in it any more, and the machine does not know.
    orphaned: bool,
    /// The client has seen an answer in it.
    pub(crate) concluded: bool,
    /// The machine that tells it: the first, the second, ...
    pub(crate) machine: u64,
}

/// What an event is to its story.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Told {
    Nothing,
    New(String),
    /// It is an answer that the client does not wait for any more.
    TooLate,
    Again,
    /// The answer to this request is lost.
    Lost(String),
}

impl Stories {
    pub(crate) fn open(&mut self, key: u64, machine: u64, ids: &[String], listens: bool) {
        let ids: BTreeSet<String> = ids.iter().cloned().collect();
        let story = Story { listens, awaits: ids.clone(), wants: ids, machine, ..Story::default() };
        self.stories.insert(key, story);
    }

    /// Where the client is that has seen this event.
    pub(crate) fn place(&self, id: &str) -> Option<(u64, usize)> {
        self.places.get(id).copied()
    }

    /// The story in which the client waits for the answer to this request.
    pub(crate) fn wanting(&self, id: &str) -> Option<(u64, &Story)> {
        self.stories.iter().find(|(_, story)| story.wants.contains(id)).map(|(key, story)| (*key, story))
    }

    /// The client waits for some answer.
    pub(crate) fn wants(&self) -> bool {
        self.stories.values().any(|story| !story.wants.is_empty())
    }

    pub(crate) fn cancel(&mut self, id: &str) {
        for story in self.stories.values_mut().filter(|story| story.wants.contains(id)) {
            story.wants.remove(id);
            story.awaits.remove(id);
            story.given_up.insert(id.to_owned());
        }
    }

    /// The machine tells an event. `whole`: it has forgotten nothing.
    pub(crate) fn tell(&mut self, exchange: &mut Exchange, event: Event, whole: bool) -> Result<Told, String> {
        let wrong = |what: &str, event: &Event| Err(format!("{what}: {event:?}"));
        let Some(key) = exchange.story else { return wrong("no story", &event) };
        let Some(story) = self.stories.get_mut(&key) else { return wrong("no such story", &event) };
        let resumes = matches!(exchange.asked.purpose, Purpose::Resume(..));
        let Some(data) = &event.data else {
            return if event.id.is_none() { Ok(Told::Nothing) } else { wrong("an id without data", &event) };
        };
        if data.is_empty() {
            let fresh = event.id.as_ref().is_some_and(|id| !self.places.contains_key(id));
            // It begins a stream, or ends one on which nothing is awaited any more.
            if !fresh || (resumes && !story.listens && story.unfinished()) {
                return wrong("an empty event", &event);
            }
            self.places.extend(event.id.map(|id| (id, (key, story.told.len()))));
            exchange.at = story.told.len();
            return Ok(Told::Nothing);
        }
        if event.kind.as_deref() != Some("message") {
            return wrong("not a message", &event);
        }
        if resumes && says_lost(data) {
            let at = exchange.at;
            self.places.extend(event.id.clone().filter(|id| !self.places.contains_key(id)).map(|id| (id, (key, at))));
            return story.lose(data, whole);
        }
        match event.id.as_ref().map(|id| (id, self.places.get(id))) {
            Some((_, Some((at_story, at)))) => {
                let same = story.told.get(at - 1) == Some(data);
                let next = *at == exchange.at + 1 || (!whole && *at > exchange.at);
                if *at_story != key || !same || !next || !resumes {
                    return wrong(&format!("told again at {} of story {key}", exchange.at), &event);
                }
                exchange.at = *at;
                Ok(Told::Again)
            }
            Some((_, None)) | None => {
                if whole && exchange.at != story.told.len() {
                    return wrong(&format!("told before what stands at {} of story {key}", exchange.at), &event);
                }
                story.told.push(data.clone());
                exchange.at = story.told.len();
                self.places.extend(event.id.clone().map(|id| (id, (key, exchange.at))));
                story.new_event(data)
            }
        }
    }
}

impl Story {
    fn new_event(&mut self, data: &str) -> Result<Told, String> {
        let value = serde_json::from_str::<Value>(data).unwrap_or_default();
        let Some(id) = answered(&value) else { return Ok(Told::New(data.to_owned())) };
        if self.given_up.contains(&id) {
            return Ok(Told::TooLate);
        }
        match self.awaits.remove(&id) {
            true => Ok(Told::New(data.to_owned())),
            false => Err(format!("an answer in a story that does not await it: {data}")),
        }
    }

    /// The machine does not know the story any more.
    fn lose(&mut self, data: &str, whole: bool) -> Result<Told, String> {
        let value = serde_json::from_str::<Value>(data).unwrap_or_default();
        let id = answered(&value).filter(|id| self.wants.contains(id) || self.given_up.contains(id));
        let honest = value.pointer("/error/data/delivered").is_some_and(|delivered| delivered == "maybe")
            && value.pointer("/error/data/retrySafe").is_some_and(|safe| *safe == false);
        // Nothing is kept for those that do not wait.
        match id.filter(|id| honest && (!whole || self.given_up.contains(id))) {
            Some(id) => {
                self.awaits.remove(&id);
                Ok(Told::Lost(id))
            }
            None => Err(format!("not lost: {data}")),
        }
    }

    /// The client reads a message of it; `false` if it has read it before.
    pub(crate) fn read(&mut self, id: Option<&String>, value: &Value) -> Result<bool, String> {
        if let Some(id) = id {
            if self.seen.contains(id) {
                return Ok(false);
            }
            self.seen.push(id.clone());
        }
        self.concluded |= answered(value).is_some();
        match answered(value) {
            Some(id) if !self.wants.remove(&id) && !self.given_up.contains(&id) => {
                Err(format!("the client has had an answer before: {value}"))
            }
            Some(_) | None => Ok(true),
        }
    }

    /// There may be something in it that the client has to know: an answer, or a
    /// question before the answer that it does not wait for any more.
    pub(crate) fn matters(&self) -> bool {
        !self.wants.is_empty() || (!self.given_up.is_empty() && !self.concluded)
    }

    /// The machine has not told everything.
    pub(crate) fn unfinished(&self) -> bool {
        !self.awaits.is_empty()
    }

    /// Nothing has been told, and something is to be.
    pub(crate) fn not_begun(&self) -> bool {
        self.told.is_empty() && self.unfinished()
    }

    /// The machine has told everything, and knows it.
    pub(crate) fn over(&self) -> bool {
        !self.listens && !self.orphaned && !self.unfinished()
    }

    /// Nobody will ever tell the client the rest.
    pub(crate) fn orphan(&mut self) -> BTreeSet<String> {
        self.orphaned = true;
        let wants = std::mem::take(&mut self.wants);
        self.awaits.clear();
        self.given_up.extend(wants.iter().cloned());
        wants
    }
}

/// The message is the machine's word that it has lost an answer.
fn says_lost(data: &str) -> bool {
    let value = serde_json::from_str::<Value>(data).unwrap_or_default();
    let says = |name: &str, word: Value| value.pointer(name) == Some(&word);
    says("/error/data/phase", "stream".into()) && says("/error/data/attempt", 0.into())
}

/// The request that a message answers.
pub(crate) fn answered(value: &Value) -> Option<String> {
    value.get("id").filter(|_| value.get("method").is_none()).map(Value::to_string)
}
