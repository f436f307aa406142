//! The streams of the machine to an HTTP client, as stories: one exchange after another
//! carries a story, and the client reads more or less of each. A replayed event must have
//! been sent before, in the same story, after the place that the client named. Statuses and
//! heads are in `exchange`.

use crate::event::Event;
use crate::exchange::{Exchange, Purpose};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Default)]
pub(crate) struct Stories {
    pub(crate) stories: BTreeMap<u64, Story>,
    /// By the id of an event: its story, and its place there.
    places: BTreeMap<String, (u64, usize)>,
}

#[derive(Debug, Default)]
pub(crate) struct Story {
    /// It carries the server's unsolicited messages.
    pub(crate) listens: bool,
    told: Vec<String>,
    /// Requests whose answers the machine has not sent.
    awaits: BTreeSet<String>,
    /// Requests whose answers the client has not read.
    pub(crate) wants: BTreeSet<String>,
    /// Requests for whose answers the client no longer waits.
    given_up: BTreeSet<String>,
    /// The ids of the events that the client has read.
    pub(crate) seen: Vec<String>,
    /// The client no longer waits for it, and the machine does not know that.
    orphaned: bool,
    /// The client has read an answer in it.
    pub(crate) concluded: bool,
    /// The number of the machine that sends it, from the first.
    pub(crate) machine: u64,
}

/// The role of an event in its story.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Told {
    Nothing,
    New(String),
    /// It is an answer for which the client no longer waits.
    TooLate,
    Again,
    /// It reports that the answer to this request is lost.
    Lost(String),
}

impl Stories {
    pub(crate) fn open(&mut self, key: u64, machine: u64, ids: &[String], listens: bool) {
        let ids: BTreeSet<String> = ids.iter().cloned().collect();
        let story = Story { listens, awaits: ids.clone(), wants: ids, machine, ..Story::default() };
        self.stories.insert(key, story);
    }

    /// The story and the place of this event.
    pub(crate) fn place(&self, id: &str) -> Option<(u64, usize)> {
        self.places.get(id).copied()
    }

    /// The story in which the client waits for the answer to this request.
    pub(crate) fn wanting(&self, id: &str) -> Option<(u64, &Story)> {
        self.stories.iter().find(|(_, story)| story.wants.contains(id)).map(|(key, story)| (*key, story))
    }

    /// Whether the client waits for any answer.
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

    /// The machine sends an event. `whole`: the machine has forgotten no event.
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
            // It begins a stream, or ends one that owes no answer.
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

    /// The machine reports an answer as lost, since it no longer knows the story.
    fn lose(&mut self, data: &str, whole: bool) -> Result<Told, String> {
        let value = serde_json::from_str::<Value>(data).unwrap_or_default();
        let id = answered(&value).filter(|id| self.wants.contains(id) || self.given_up.contains(id));
        let honest = value.pointer("/error/data/delivered").is_some_and(|delivered| delivered == "maybe")
            && value.pointer("/error/data/retrySafe").is_some_and(|safe| *safe == false);
        // The machine keeps nothing for clients that do not wait.
        match id.filter(|id| honest && (!whole || self.given_up.contains(id))) {
            Some(id) => {
                self.awaits.remove(&id);
                Ok(Told::Lost(id))
            }
            None => Err(format!("not lost: {data}")),
        }
    }

    /// The client reads a message of it. Returns `false` if it has read that before.
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

    /// Whether the client may need the rest of it: an answer, or a question before an
    /// answer for which it no longer waits.
    pub(crate) fn matters(&self) -> bool {
        !self.wants.is_empty() || (!self.given_up.is_empty() && !self.concluded)
    }

    /// The machine has not sent everything.
    pub(crate) fn unfinished(&self) -> bool {
        !self.awaits.is_empty()
    }

    /// The machine has sent nothing, and has something to send.
    pub(crate) fn not_begun(&self) -> bool {
        self.told.is_empty() && self.unfinished()
    }

    /// The machine has sent everything, and knows that it has.
    pub(crate) fn over(&self) -> bool {
        !self.listens && !self.orphaned && !self.unfinished()
    }

    /// The client will never get the rest. Returns the requests that it waits for.
    pub(crate) fn orphan(&mut self) -> BTreeSet<String> {
        self.orphaned = true;
        let wants = std::mem::take(&mut self.wants);
        self.awaits.clear();
        self.given_up.extend(wants.iter().cloned());
        wants
    }
}

/// Whether the message is the machine's report that an answer is lost.
fn says_lost(data: &str) -> bool {
    let value = serde_json::from_str::<Value>(data).unwrap_or_default();
    let says = |name: &str, word: Value| value.pointer(name) == Some(&word);
    says("/error/data/phase", "stream".into()) && says("/error/data/attempt", 0.into())
}

/// The id of the request that a message answers.
pub(crate) fn answered(value: &Value) -> Option<String> {
    value.get("id").filter(|_| value.get("method").is_none()).map(Value::to_string)
}
