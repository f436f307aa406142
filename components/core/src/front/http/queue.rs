//! What the server said while the client had no stream open. Bounded; what
//! falls out is a notification lost, or a question that nobody will answer.

use crate::time::Time;
use crate::wire::message::Id;
use std::collections::VecDeque;
use std::time::Duration;

/// What waits for a stream, oldest first.
#[derive(Debug)]
pub(super) struct Queue {
    waiting: VecDeque<Waiting>,
    bytes: usize,
    most_bytes: usize,
    patience: Duration,
    /// Questions that nobody will answer.
    refused: Vec<Id>,
}

#[derive(Debug)]
struct Waiting {
    since: Time,
    question: Option<Id>,
    message: Vec<u8>,
}

impl Queue {
    pub(super) fn new(most_bytes: usize, patience: Duration) -> Self {
        Self { waiting: VecDeque::new(), bytes: 0, most_bytes, patience, refused: Vec::new() }
    }

    pub(super) fn push(&mut self, now: Time, question: Option<Id>, message: Vec<u8>) {
        self.bytes += message.len();
        self.waiting.push_back(Waiting { since: now, question, message });
        while self.bytes > self.most_bytes {
            self.drop_first();
        }
    }

    /// The next message, for a stream, and which question it is.
    pub(super) fn pop(&mut self) -> Option<(Vec<u8>, Option<Id>)> {
        let first = self.waiting.pop_front()?;
        self.bytes -= first.message.len();
        Some((first.message, first.question))
    }

    fn drop_first(&mut self) {
        if let Some(first) = self.waiting.pop_front() {
            self.bytes -= first.message.len();
            self.refused.extend(first.question);
        }
    }

    /// When the first question has waited for too long.
    pub(super) fn due(&self) -> Option<Time> {
        let question = self.waiting.iter().find(|waiting| waiting.question.is_some())?;
        Some(question.since.after(self.patience))
    }

    /// Gives up what waits in front of, and with, a question that is due.
    pub(super) fn tick(&mut self, now: Time) {
        while self.due().is_some_and(|at| at <= now) {
            self.drop_first();
        }
    }

    /// Nobody will answer these either.
    pub(super) fn refuse(&mut self, questions: Vec<Id>) {
        self.refused.extend(questions);
    }

    /// The questions that nobody will answer; each is told once.
    pub(super) fn refused(&mut self) -> Vec<Id> {
        std::mem::take(&mut self.refused)
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
    fn the_oldest_fall_out_and_their_questions_are_told_once() {
        let mut queue = queue();
        queue.push(Time(0), Some(Id::named("a")), vec![0; 6]);
        queue.push(Time(0), None, vec![1; 6]);
        assert_eq!(queue.refused(), [Id::named("a")]);
        assert!(queue.refused().is_empty());
        assert_eq!(queue.pop(), Some((vec![1; 6], None)));
        queue.push(Time(0), Some(Id::named("big")), vec![2; 11]);
        assert_eq!((queue.refused(), queue.pop()), (vec![Id::named("big")], None));
    }

    #[test]
    fn a_question_waits_no_longer_than_its_asker_can() {
        let mut queue = queue();
        queue.push(Time(0), None, vec![0]);
        assert_eq!(queue.due(), None);
        queue.push(Time(1), Some(Id::named("a")), vec![1]);
        queue.push(Time(1), None, vec![2]);
        assert_eq!(queue.due(), Some(Time(30_001)));
        queue.tick(Time(30_000));
        assert!(queue.refused().is_empty());
        queue.tick(Time(30_001));
        assert_eq!((queue.refused(), queue.pop()), (vec![Id::named("a")], Some((vec![2], None))));
    }
}
