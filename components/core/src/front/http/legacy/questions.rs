//! The server's messages that answer no request: those that wait for a stream, and its
//! questions, until they are answered. Both wait for the client only for a limited time,
//! and what waits is bounded: the oldest notifications are dropped, the oldest questions
//! refused. `route` grants the permission to answer.

use crate::config::HttpTransport;
use crate::front::http::event::StreamId;
use crate::time::{Deadline, Time, Why};
use crate::wire::message::Id;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// A question is either waiting, or asked, or refused.
#[derive(Debug)]
pub(crate) struct Questions {
    /// Messages that came when the client had no stream open, oldest first.
    waiting: VecDeque<Waiting>,
    /// The sum over those that wait.
    bytes: usize,
    most_bytes: usize,
    /// The questions that were sent on a stream.
    asked: BTreeMap<Id, Asked>,
    /// The questions that the client cannot be asked.
    refused: Vec<Id>,
    patience: Duration,
}

#[derive(Debug)]
struct Waiting {
    since: Time,
    question: Option<Id>,
    message: Vec<u8>,
}

/// The place of a question.
#[derive(Debug)]
struct Asked {
    stream: StreamId,
    place: u64,
    /// When the client disconnected from the stream.
    alone: Option<Time>,
}

impl Questions {
    pub(super) fn new(client: &HttpTransport) -> Self {
        let &HttpTransport { queue_bytes: most_bytes, patience, .. } = client;
        let (waiting, asked, refused) = (VecDeque::new(), BTreeMap::new(), Vec::new());
        Self { waiting, bytes: 0, most_bytes, asked, refused, patience }
    }

    /// Lets a message, perhaps a question, wait for a stream.
    pub(super) fn wait(&mut self, now: Time, question: Option<Id>, message: Vec<u8>) {
        if message.len() > self.most_bytes {
            return self.refused.extend(question);
        }
        self.bytes += message.len();
        self.waiting.push_back(Waiting { since: now, question, message });
        while self.bytes > self.most_bytes
            && let Some((_, question)) = self.next()
        {
            self.refused.extend(question);
        }
    }

    /// The next message for a stream, and its id if it is a question.
    pub(super) fn next(&mut self) -> Option<(Vec<u8>, Option<Id>)> {
        let first = self.waiting.pop_front()?;
        self.bytes -= first.message.len();
        Some((first.message, first.question))
    }

    /// A question was sent at this place.
    pub(super) fn asked(&mut self, id: Id, stream: StreamId, place: u64) {
        self.asked.insert(id, Asked { stream, place, alone: None });
    }

    /// A question no longer needs an answer. Returns the stream that it was sent on.
    pub(crate) fn over(&mut self, id: &Id) -> Option<StreamId> {
        self.unask(id);
        self.asked.remove(id).map(|asked| asked.stream)
    }

    /// Removes a question that still waits. Returns `true` if there was one.
    pub(super) fn unask(&mut self, id: &Id) -> bool {
        !self.take(|waiting| waiting.question.as_ref() == Some(id)).is_empty()
    }

    /// No question needs an answer any longer.
    pub(crate) fn all_over(&mut self) {
        self.take(|_| true);
        self.asked.clear();
    }

    /// Removes the matching questions from those that wait.
    fn take(&mut self, which: impl Fn(&Waiting) -> bool) -> Vec<Id> {
        let mut taken = Vec::new();
        for waiting in std::mem::take(&mut self.waiting) {
            match waiting.question {
                Some(_) if which(&waiting) => {
                    self.bytes -= waiting.message.len();
                    taken.extend(waiting.question);
                }
                Some(_) | None => self.waiting.push_back(waiting),
            }
        }
        taken
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.waiting.clear();
        self.bytes = 0;
        self.asked.clear();
    }

    /// A stream lost its connection.
    pub(super) fn left(&mut self, now: Time, stream: StreamId) {
        for asked in self.asked.values_mut().filter(|asked| asked.stream == stream) {
            asked.alone = asked.alone.or(Some(now));
        }
    }

    /// A client reconnected to a stream; `reads` tells which places it has or will get.
    /// Refuses the questions that it will never read.
    pub(super) fn joined(&mut self, stream: StreamId, reads: impl Fn(u64) -> bool) {
        for asked in self.asked.values_mut().filter(|asked| asked.stream == stream) {
            asked.alone = None;
        }
        self.refuse(|asked| asked.stream == stream && !reads(asked.place));
    }

    fn refuse(&mut self, which: impl Fn(&Asked) -> bool) {
        let refused = self.asked.extract_if(.., |_, asked| which(asked));
        self.refused.extend(refused.map(|(id, _)| id));
    }

    /// When the first question times out.
    pub(crate) fn deadline(&self) -> Option<Deadline> {
        let waiting = self.waiting.iter().find(|waiting| waiting.question.is_some());
        let alone = self.asked.values().filter_map(|asked| asked.alone);
        let since = alone.chain(waiting.map(|waiting| waiting.since)).min()?;
        Some(Deadline { at: since.after(self.patience), why: Why::Unread })
    }

    /// Refuses the questions that have timed out.
    pub(crate) fn tick(&mut self, now: Time) {
        if self.deadline().is_none_or(|deadline| deadline.at > now) {
            return;
        }
        let patience = self.patience;
        let late = |since: Time| since.after(patience) <= now;
        let waiting = self.take(|waiting| late(waiting.since));
        self.refused.extend(waiting);
        self.refuse(|asked| asked.alone.is_some_and(late));
    }

    /// Takes the questions that the client cannot be asked.
    pub(crate) fn refused(&mut self) -> Vec<Id> {
        std::mem::take(&mut self.refused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn questions() -> Questions {
        Questions::new(&HttpTransport { queue_bytes: 10, ..HttpTransport::new(HeaderValue::from_static("s")) })
    }

    fn id(name: &str) -> Id {
        Id::named(name)
    }

    #[test]
    fn the_oldest_fall_out_and_their_questions_are_told() {
        let mut questions = questions();
        questions.wait(Time(0), Some(id("a")), vec![0; 6]);
        assert!(questions.refused().is_empty());
        questions.wait(Time(0), None, vec![1; 6]);
        assert_eq!(questions.refused(), [id("a")]);
        assert_eq!(questions.next(), Some((vec![1; 6], None)));
    }

    #[test]
    fn what_is_too_long_to_wait_leaves_the_rest_alone() {
        let mut questions = questions();
        questions.wait(Time(0), None, vec![0; 6]);
        questions.wait(Time(0), Some(id("big")), vec![2; 11]);
        assert_eq!(questions.refused(), [id("big")]);
        assert_eq!((questions.next(), questions.next()), (Some((vec![0; 6], None)), None));
    }

    #[test]
    fn a_question_waits_no_longer_than_its_asker_can() {
        let mut questions = questions();
        questions.wait(Time(0), None, vec![0]);
        assert_eq!(questions.deadline(), None);
        questions.wait(Time(1), Some(id("a")), vec![1]);
        questions.wait(Time(1), None, vec![2]);
        assert_eq!(questions.deadline().map(|deadline| deadline.at), Some(Time(30_001)));
        questions.tick(Time(30_000));
        assert!(questions.refused().is_empty());
        questions.tick(Time(30_001));
        assert_eq!(questions.refused(), [id("a")]);
        assert_eq!((questions.next(), questions.next()), (Some((vec![0], None)), Some((vec![2], None))));
    }

    #[test]
    fn a_question_that_is_withdrawn_is_not_asked() {
        let mut questions = questions();
        questions.wait(Time(0), Some(id("a")), vec![0]);
        questions.wait(Time(0), Some(id("b")), vec![1]);
        assert!(questions.unask(&id("a")) && !questions.unask(&id("a")));
        questions.wait(Time(0), None, vec![2]);
        questions.all_over();
        assert_eq!((questions.next(), questions.next(), questions.bytes), (Some((vec![2], None)), None, 0));
    }

    #[test]
    fn an_asked_question_times_out_only_without_its_client() {
        let mut questions = questions();
        questions.asked(id("read"), StreamId(1), 1);
        questions.asked(id("missed"), StreamId(1), 2);
        assert_eq!(questions.deadline(), None);
        questions.left(Time(5), StreamId(1));
        questions.left(Time(9), StreamId(1));
        assert_eq!(questions.deadline().map(|deadline| deadline.at), Some(Time(30_005)));
        questions.joined(StreamId(1), |place| place == 1);
        assert_eq!((questions.refused(), questions.deadline()), (vec![id("missed")], None));
        questions.left(Time(10), StreamId(1));
        questions.tick(Time(30_010));
        assert_eq!((questions.refused(), questions.over(&id("read"))), (vec![id("read")], None));
    }
}
