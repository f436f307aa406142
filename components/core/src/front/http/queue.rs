//! The server's messages from the time when the client had no stream open. The queue is
//! bounded: it drops notifications and refuses questions that do not fit.

use crate::time::Time;
use crate::wire::message::Id;
use std::collections::VecDeque;
use std::time::Duration;

/// The queued messages, oldest first.
#[derive(Debug)]
pub(super) struct Queue {
    waiting: VecDeque<Waiting>,
    bytes: usize,
    most_bytes: usize,
    patience: Duration,
}

#[derive(Debug)]
struct Waiting {
    since: Time,
    question: Option<Id>,
    message: Vec<u8>,
}

impl Queue {
    pub(super) fn new(most_bytes: usize, patience: Duration) -> Self {
        Self { waiting: VecDeque::new(), bytes: 0, most_bytes, patience }
    }

    /// Adds a message. Returns the questions that do not fit.
    pub(super) fn push(&mut self, now: Time, question: Option<Id>, message: Vec<u8>) -> Vec<Id> {
        if message.len() > self.most_bytes {
            return question.into_iter().collect();
        }
        self.bytes += message.len();
        self.waiting.push_back(Waiting { since: now, question, message });
        let mut refused = Vec::new();
        while self.bytes > self.most_bytes
            && let Some((_, question)) = self.pop()
        {
            refused.extend(question);
        }
        refused
    }

    /// The next message for a stream, and its id if it is a question.
    pub(super) fn pop(&mut self) -> Option<(Vec<u8>, Option<Id>)> {
        let first = self.waiting.pop_front()?;
        self.bytes -= first.message.len();
        Some((first.message, first.question))
    }

    /// When the first question times out.
    pub(super) fn due(&self) -> Option<Time> {
        let question = self.waiting.iter().find(|waiting| waiting.question.is_some())?;
        Some(question.since.after(self.patience))
    }

    /// Removes and returns the questions that have timed out.
    pub(super) fn tick(&mut self, now: Time) -> Vec<Id> {
        if self.due().is_none_or(|at| at > now) {
            return Vec::new();
        }
        let patience = self.patience;
        self.take(|waiting| waiting.since.after(patience) <= now)
    }

    /// This question no longer needs an answer. Returns `true` if it was queued.
    pub(super) fn withdraw(&mut self, question: &Id) -> bool {
        !self.take(|waiting| waiting.question.as_ref() == Some(question)).is_empty()
    }

    /// Removes all questions.
    pub(super) fn withdraw_all(&mut self) {
        self.take(|_| true);
    }

    /// Removes the matching questions.
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

    pub(super) fn clear(&mut self) {
        self.waiting.clear();
        self.bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue() -> Queue {
        Queue::new(10, Duration::from_secs(30))
    }

    #[test]
    fn the_oldest_fall_out_and_their_questions_are_told() {
        let mut queue = queue();
        assert!(queue.push(Time(0), Some(Id::named("a")), vec![0; 6]).is_empty());
        assert_eq!(queue.push(Time(0), None, vec![1; 6]), [Id::named("a")]);
        assert_eq!(queue.pop(), Some((vec![1; 6], None)));
    }

    #[test]
    fn what_is_too_long_for_the_queue_leaves_the_rest_alone() {
        let mut queue = queue();
        queue.push(Time(0), None, vec![0; 6]);
        assert_eq!(queue.push(Time(0), Some(Id::named("big")), vec![2; 11]), [Id::named("big")]);
        assert_eq!((queue.pop(), queue.pop()), (Some((vec![0; 6], None)), None));
    }

    #[test]
    fn a_question_waits_no_longer_than_its_asker_can() {
        let mut queue = queue();
        queue.push(Time(0), None, vec![0]);
        assert_eq!(queue.due(), None);
        queue.push(Time(1), Some(Id::named("a")), vec![1]);
        queue.push(Time(1), None, vec![2]);
        assert_eq!(queue.due(), Some(Time(30_001)));
        assert!(queue.tick(Time(30_000)).is_empty());
        assert_eq!(queue.tick(Time(30_001)), [Id::named("a")]);
        assert_eq!((queue.pop(), queue.pop()), (Some((vec![0], None)), Some((vec![2], None))));
    }

    #[test]
    fn a_question_that_is_withdrawn_is_not_asked() {
        let mut queue = queue();
        queue.push(Time(0), Some(Id::named("a")), vec![0]);
        queue.push(Time(0), Some(Id::named("b")), vec![1]);
        assert!(queue.withdraw(&Id::named("a")) && !queue.withdraw(&Id::named("a")));
        queue.push(Time(0), None, vec![2]);
        queue.withdraw_all();
        assert_eq!((queue.pop(), queue.pop(), queue.bytes), (Some((vec![2], None)), None, 0));
    }
}
