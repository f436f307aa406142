//! A hash table keyed by the proxy's own numbers or by a peer's ids. Lookups take
//! constant time. Iteration follows key order, never hash order, so that every run is the
//! same.

#![expect(clippy::disallowed_types, reason = "nobody sees the order of the map")]

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, Hasher};

/// Tables up to this size keep their capacity.
const SMALL: usize = 64;

/// Keyed by numbers that the proxy counts up itself.
pub(crate) type ByNumber<K, V> = Index<K, V, Spread>;
/// Keyed by text that a peer chooses.
pub(crate) type ByText<K, V> = Index<K, V, Seed>;

#[derive(Debug)]
pub(crate) struct Index<K, V, S>(HashMap<K, V, S>);

impl<K, V, S: Default> Default for Index<K, V, S> {
    fn default() -> Self {
        Self(HashMap::default())
    }
}

impl<K: Copy + Ord + Hash, V> ByNumber<K, V> {
    pub(crate) fn keys(&self) -> Vec<K> {
        let mut keys: Vec<K> = self.0.keys().copied().collect();
        keys.sort_unstable();
        keys
    }
}

impl<K: Eq + Hash, V, S: BuildHasher> Index<K, V, S> {
    pub(crate) fn hashed_by(hashes: S) -> Self {
        Self(HashMap::with_hasher(hashes))
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        self.0.get(key)
    }

    pub(crate) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.0.get_mut(key)
    }

    pub(crate) fn insert(&mut self, key: K, value: V) -> Option<V> {
        self.0.insert(key, value)
    }

    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        let value = self.0.remove(key);
        if self.0.capacity() > SMALL && self.0.len() < self.0.capacity() / 8 {
            self.0.shrink_to(self.0.len() * 2);
        }
        value
    }
}

/// A seeded hash: a peer that does not know the seed cannot easily choose texts that
/// collide. The standard library's hash resists better, but adds kilobytes to the engine,
/// and `route` bounds the number of entries.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Seed(pub(crate) u64);

impl BuildHasher for Seed {
    type Hasher = Product;

    fn build_hasher(&self) -> Product {
        Product(self.0)
    }
}

/// Spreads consecutive numbers over the table.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Spread;

#[derive(Debug, Default)]
pub(crate) struct Product(u64);

impl BuildHasher for Spread {
    type Hasher = Product;

    fn build_hasher(&self) -> Product {
        Product::default()
    }
}

impl Hasher for Product {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0 ^ number).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_walked_in_order_and_gives_its_room_back() {
        let mut table = ByNumber::default();
        for number in (0..10_000_u64).rev() {
            table.insert(number, [number; 8]);
        }
        assert!(table.keys().is_sorted() && table.len() == 10_000);
        (10..10_000).for_each(|number| assert_eq!(table.remove(&number), Some([number; 8])));
        assert!(table.0.capacity() <= SMALL * 2, "{}", table.0.capacity());
        assert_eq!(table.keys(), (0..10).collect::<Vec<_>>());
    }
}
