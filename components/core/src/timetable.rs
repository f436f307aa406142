//! A table of rows with an optional due time. It finds the first due row without scanning
//! all of them. The order always matches the rows. The meaning of a time does not belong
//! here.

use crate::index::ByNumber;
use crate::time::{Deadline, Time};
use std::collections::BTreeSet;
use std::hash::Hash;

/// A row that may have a due time, computed from the row and from terms that do not
/// change.
pub(crate) trait Timed {
    type Terms;

    fn due(&self, terms: &Self::Terms) -> Option<Deadline>;
}

#[derive(Debug)]
pub(crate) struct Timetable<K, V: Timed> {
    terms: V::Terms,
    /// Changes only together with `order`.
    rows: ByNumber<K, V>,
    /// The due times of all rows that have one.
    order: BTreeSet<(Time, K)>,
}

impl<K: Copy + Ord + Hash, V: Timed> Timetable<K, V> {
    pub(crate) fn new(terms: V::Terms) -> Self {
        Self { terms, rows: ByNumber::default(), order: BTreeSet::new() }
    }

    pub(crate) fn terms(&self) -> &V::Terms {
        &self.terms
    }

    pub(crate) fn get(&self, key: K) -> Option<&V> {
        self.rows.get(&key)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (K, &V)> {
        self.rows.keys().into_iter().filter_map(|key| Some((key, self.rows.get(&key)?)))
    }

    /// Inserts a row and returns the one that it replaces.
    pub(crate) fn insert(&mut self, key: K, row: V) -> Option<V> {
        let after = time(&row, &self.terms);
        let old = self.rows.insert(key, row);
        let before = old.as_ref().and_then(|old| time(old, &self.terms));
        self.reorder(key, before, after);
        old
    }

    pub(crate) fn remove(&mut self, key: K) -> Option<V> {
        let row = self.rows.remove(&key)?;
        self.reorder(key, time(&row, &self.terms), None);
        Some(row)
    }

    pub(crate) fn change<R>(&mut self, key: K, change: impl FnOnce(&mut V) -> R) -> Option<R> {
        let row = self.rows.get_mut(&key)?;
        let before = time(row, &self.terms);
        let result = change(row);
        let after = time(row, &self.terms);
        self.reorder(key, before, after);
        Some(result)
    }

    /// The first deadline; of several at the same time, the one with the least key.
    pub(crate) fn first(&self) -> Option<Deadline> {
        let (_, key) = self.order.first()?;
        self.get(*key)?.due(&self.terms)
    }

    /// The rows that are due at `now`.
    pub(crate) fn due(&self, now: Time) -> Vec<K> {
        self.order.iter().take_while(|(at, _)| *at <= now).map(|(_, key)| *key).collect()
    }

    fn reorder(&mut self, key: K, before: Option<Time>, after: Option<Time>) {
        if before != after {
            before.map(|at| self.order.remove(&(at, key)));
            after.map(|at| self.order.insert((at, key)));
        }
    }
}

fn time<V: Timed>(row: &V, terms: &V::Terms) -> Option<Time> {
    row.due(terms).map(|deadline| deadline.at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;
    use crate::time::{Why, earlier};

    impl Timed for Option<u64> {
        type Terms = u64;

        fn due(&self, wait: &u64) -> Option<Deadline> {
            self.map(|since| Deadline { at: Time(since + wait), why: Why::Retry })
        }
    }

    #[test]
    fn the_first_time_is_that_of_all_rows_whatever_happens_to_them() {
        let (mut table, mut rng) = (Timetable::new(7), Rng::new(1));
        for _ in 0..10_000 {
            let (key, since) = (rng.below(20), Some(rng.below(50)).filter(|since| *since < 40));
            match rng.below(3) {
                0 => drop(table.insert(key, since)),
                1 => drop(table.remove(key)),
                _ => drop(table.change(key, |row| *row = since)),
            }
            let all = table.iter().fold(None, |first, (_, row)| earlier(first, row.due(table.terms())));
            assert_eq!(table.first(), all);
            assert_eq!(table.order.len(), table.iter().filter(|(_, row)| row.is_some()).count());
        }
        assert!(table.rows.len() > 5);
    }
}
