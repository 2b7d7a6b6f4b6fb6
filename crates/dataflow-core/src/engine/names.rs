//! Names: every task has a key of 56 bits, by packing or, where its name is wider, by a number.

use super::pending::Key;
use crate::space::TaskName;
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

    /// The task of a key.
    #[inline(always)]
    pub fn name(&self, key: Key) -> T {
        if key & PACKED != 0 {
            T::unpack(key & !PACKED)
        } else {
            self.wide().names[&key]
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
        self.wide
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}
