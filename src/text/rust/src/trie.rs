//! Strings by their bytes, to be walked from a place in a text.

use ahash::AHashMap;

#[derive(Default)]
pub struct Trie {
    children: AHashMap<(u32, u8), u32>,
    ids: Vec<Option<u32>>, // by node; 0 is the root
}

impl Trie {
    pub fn insert(&mut self, bytes: &[u8], id: u32) {
        if self.ids.is_empty() {
            self.ids.push(None);
        }
        let mut node = 0;
        for &byte in bytes {
            let next = self.ids.len() as u32;
            node = *self.children.entry((node, byte)).or_insert(next);
            if node == next {
                self.ids.push(None);
            }
        }
        self.ids[node as usize] = Some(id);
    }

    /// Calls `found(length, id)` for each string with which `text` begins, the shortest first.
    pub fn prefixes(&self, text: &[u8], mut found: impl FnMut(usize, u32)) {
        let mut node = 0;
        for (i, &byte) in text.iter().enumerate() {
            let Some(&next) = self.children.get(&(node, byte)) else { return };
            node = next;
            if let Some(id) = self.ids[node as usize] {
                found(i + 1, id);
            }
        }
    }

    pub fn contains(&self, text: &[u8]) -> bool {
        let mut longest = 0;
        self.prefixes(text, |length, _| longest = length);
        longest == text.len()
    }
}
