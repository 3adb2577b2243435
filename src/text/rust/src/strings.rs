//! Byte strings kept in one block, and a hash index over them: a vocabulary without an allocation for each token.

use ahash::RandomState;

/// Strings by number, in one block. The block stays under 4 GiB because tokenizer files are limited far below that.
#[derive(Default)]
pub struct StringTable {
    bytes: Vec<u8>,
    ends: Vec<u32>,
}

impl StringTable {
    pub fn push(&mut self, text: &[u8]) {
        self.bytes.extend_from_slice(text);
        self.ends.push(self.bytes.len() as u32);
    }

    pub fn get(&self, i: usize) -> &[u8] {
        let start = if i == 0 { 0 } else { self.ends[i - 1] as usize };
        &self.bytes[start..self.ends[i] as usize]
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub fn ends(&self) -> &[u32] {
        &self.ends
    }
}

/// Finds the number of a string of a StringTable. Hashes are keyed by the process, so that a hostile vocabulary cannot
/// choose its collisions.
pub struct Index {
    slots: Vec<u32>, // EMPTY, or a number into the table
    hasher: RandomState,
}

const EMPTY: u32 = u32::MAX;

impl Index {
    pub fn with_capacity(strings: usize) -> Self {
        let slots = (strings.max(4) * 2).next_power_of_two();
        Index { slots: vec![EMPTY; slots], hasher: RandomState::new() }
    }

    fn slot(&self, key: &[u8]) -> usize {
        self.hasher.hash_one(key) as usize & (self.slots.len() - 1)
    }

    pub fn get(&self, key: &[u8], table: &StringTable) -> Option<u32> {
        let mut at = self.slot(key);
        loop {
            match self.slots[at] {
                EMPTY => return None,
                id if table.get(id as usize) == key => return Some(id),
                _ => at = (at + 1) & (self.slots.len() - 1),
            }
        }
    }

    /// Maps the string number `id` to itself; a later equal string takes the place of an earlier one.
    /// Requires: no more insertions than the capacity asked for.
    pub fn insert(&mut self, id: u32, table: &StringTable) {
        let key = table.get(id as usize);
        let mut at = self.slot(key);
        while self.slots[at] != EMPTY && table.get(self.slots[at] as usize) != key {
            at = (at + 1) & (self.slots.len() - 1);
        }
        self.slots[at] = id;
    }
}
