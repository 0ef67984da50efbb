//! A table of bounded size: what was used longest ago is forgotten.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

/// Most entries.
#[derive(Debug)]
pub struct Recent<K, V> {
    most: usize,
    /// Each with the number of its last use.
    entries: HashMap<K, (u64, V)>,
    by_use: BTreeMap<u64, K>,
    uses: u64,
}

impl<K: Clone + Eq + Hash, V> Recent<K, V> {
    /// An empty one for `most` entries, at least one.
    pub fn new(most: usize) -> Self {
        Self { most: most.max(1), entries: HashMap::new(), by_use: BTreeMap::new(), uses: 0 }
    }

    /// The entry of `key`, which is used now.
    pub fn get(&mut self, key: &K) -> Option<&V> {
        let (used, value) = self.entries.get_mut(key)?;
        self.by_use.remove(used);
        self.uses += 1;
        *used = self.uses;
        self.by_use.insert(self.uses, key.clone());
        Some(value)
    }

    /// The entry of `key`, which counts as no use of it.
    pub fn peek(&self, key: &K) -> Option<&V> {
        self.entries.get(key).map(|(_, value)| value)
    }

    /// Sets the entry of `key`, which is used now.
    pub fn insert(&mut self, key: K, value: V) {
        self.uses += 1;
        if let Some((used, _)) = self.entries.insert(key.clone(), (self.uses, value)) {
            self.by_use.remove(&used);
        }
        self.by_use.insert(self.uses, key);
        while self.entries.len() > self.most
            && let Some((_, oldest)) = self.by_use.pop_first()
        {
            self.entries.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_longest_ago_is_forgotten() {
        let mut table = Recent::new(2);
        table.insert('a', 1);
        table.insert('b', 2);
        assert_eq!(table.get(&'a'), Some(&1));
        table.insert('c', 3);
        assert_eq!(['a', 'b', 'c'].map(|key| table.peek(&key).is_some()), [true, false, true]);
        table.insert('a', 4);
        table.insert('d', 5);
        assert_eq!(['a', 'c', 'd'].map(|key| table.get(&key).copied()), [Some(4), None, Some(5)]);
        assert_eq!((table.entries.len(), table.by_use.len()), (2, 2));
    }
}
