//! Names: every task has a key of 56 bits, by packing or, where its name is wider, by a number.

use super::pending::Key;
use crate::space::TaskName;
use crate::sync::held;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};

/// Set in keys that are packed names; so no key is 0.
const PACKED: Key = 1 << 55;

/// Keys of the tasks of one run.
pub(crate) struct Names<T: TaskName> {
    wide: Mutex<Wide<T>>,
}

struct Wide<T> {
    numbers: HashMap<T, Key>,
    names: HashMap<Key, T>,
    next: Key,
}

impl<T: TaskName> Names<T> {
    pub fn new() -> Self {
        let wide = Wide {
            numbers: HashMap::new(),
            names: HashMap::new(),
            next: 1,
        };
        Names {
            wide: Mutex::new(wide),
        }
    }

    /// The key of a task; the same until the task is [forgotten](Self::forget).
    #[inline(always)]
    pub fn key(&self, task: T) -> Key {
        match task.pack() {
            Some(packed) => packed | PACKED,
            None => self.number(task),
        }
    }

    /// The task of a key, if need be unpacked by the space. `None` if it was forgotten: the space fed a
    /// task once too often.
    #[inline(always)]
    pub fn name(&self, key: Key, unpack: impl Fn(u64) -> T) -> Option<T> {
        if key & PACKED != 0 {
            Some(unpack(key & !PACKED))
        } else {
            self.wide().names.get(&key).copied()
        }
    }

    /// The key will not be used again: its task starts.
    #[inline(always)]
    pub fn forget(&self, key: Key) {
        if key & PACKED == 0 {
            let mut wide = self.wide();
            if let Some(name) = wide.names.remove(&key) {
                wide.numbers.remove(&name);
            }
        }
    }

    /// Whether every task was forgotten that had a number.
    pub fn is_empty(&self) -> bool {
        let wide = self.wide();
        wide.names.is_empty() && wide.numbers.is_empty()
    }

    #[cold]
    fn number(&self, task: T) -> Key {
        let mut wide = self.wide();
        if let Some(&key) = wide.numbers.get(&task) {
            return key;
        }
        let key = wide.next;
        wide.next += 1;
        wide.numbers.insert(task, key);
        wide.names.insert(key, task);
        key
    }

    fn wide(&self) -> MutexGuard<'_, Wide<T>> {
        held(&self.wide)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_wide_name_has_one_key_until_it_is_forgotten_and_leaves_nothing_behind() {
        let names = Names::<u64>::new();
        for i in 0..if cfg!(miri) { 100 } else { 100_000 } {
            let task = u64::MAX - i;
            let key = names.key(task);
            assert_eq!(names.key(task), key);
            assert_eq!(names.name(key, u64::unpack), Some(task));
            assert!(key != 0 && key & PACKED == 0);
            names.forget(key);
            assert_eq!(names.name(key, u64::unpack), None);
        }
        assert!(names.is_empty());
    }

    #[test]
    fn a_name_that_packs_needs_no_table() {
        let names = Names::<u64>::new();
        for task in [0, 1, (1 << 55) - 1] {
            let key = names.key(task);
            names.forget(key);
            assert_eq!(names.name(key, u64::unpack), Some(task));
        }
        assert!(names.wide().names.is_empty());
    }
}
