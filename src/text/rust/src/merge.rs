//! Byte pair merging of one word: always the pair of lowest rank, the leftmost of equals, until none is left.

use ahash::AHashMap;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// (left id, right id) -> (rank, id of the two together)
#[derive(Default)]
pub struct Merges {
    pairs: AHashMap<u64, (u32, u32)>,
}

/// Words up to this many symbols are merged by scanning; longer ones need the heap to stay below quadratic time.
const SCANNED: usize = 48;

const NONE: u32 = u32::MAX;

impl Merges {
    pub fn with_capacity(merges: usize) -> Self {
        Merges { pairs: AHashMap::with_capacity(merges) }
    }

    pub fn insert(&mut self, left: u32, right: u32, rank: u32, joined: u32) {
        self.pairs.insert(key(left, right), (rank, joined));
    }

    fn get(&self, left: u32, right: u32) -> Option<(u32, u32)> {
        self.pairs.get(&key(left, right)).copied()
    }

    pub fn ids(&self) -> impl Iterator<Item = u32> + '_ {
        self.pairs.iter().flat_map(|(&pair, &(_, joined))| [(pair >> 32) as u32, pair as u32, joined])
    }

    /// Merges `symbols` in place.
    pub fn apply(&self, symbols: &mut Vec<u32>, scratch: &mut Scratch) {
        match symbols.len() {
            0 | 1 => {}
            2 => {
                if let Some((_, joined)) = self.get(symbols[0], symbols[1]) {
                    symbols.truncate(1);
                    symbols[0] = joined;
                }
            }
            n if n <= SCANNED => self.scan(symbols, &mut scratch.ranks),
            _ => self.heap(symbols, scratch),
        }
    }

    fn scan(&self, symbols: &mut Vec<u32>, ranks: &mut Vec<(u32, u32)>) {
        let pair = |symbols: &[u32], i: usize| self.get(symbols[i], symbols[i + 1]).unwrap_or((NONE, NONE));
        ranks.clear();
        ranks.extend((0..symbols.len() - 1).map(|i| pair(symbols, i)));
        while let Some((i, &(rank, joined))) = ranks.iter().enumerate().min_by_key(|(_, &(rank, _))| rank) {
            if rank == NONE {
                return;
            }
            symbols[i] = joined;
            symbols.remove(i + 1);
            ranks.remove(i);
            if i < ranks.len() {
                ranks[i] = pair(symbols, i);
            }
            if i > 0 {
                ranks[i - 1] = pair(symbols, i - 1);
            }
        }
    }

    /// The same with a heap of candidates over a linked list. A candidate whose pair has changed meanwhile is stale.
    fn heap(&self, symbols: &mut Vec<u32>, scratch: &mut Scratch) {
        let Scratch { heap, next, previous, .. } = scratch;
        let n = symbols.len() as u32;
        heap.clear();
        next.clear();
        next.extend(1..=n);
        previous.clear();
        previous.extend((0..n).map(|i| i.wrapping_sub(1)));
        let candidate = |symbols: &[u32], at: u32, right: u32| {
            let (rank, joined) = self.get(symbols[at as usize], symbols[right as usize])?;
            Some(Reverse((rank, at, joined)))
        };
        heap.extend((0..n - 1).filter_map(|i| candidate(symbols, i, i + 1)));
        while let Some(Reverse((rank, at, joined))) = heap.pop() {
            let right = next[at as usize];
            if symbols[at as usize] == NONE || right == n {
                continue;
            }
            if self.get(symbols[at as usize], symbols[right as usize]) != Some((rank, joined)) {
                continue;
            }
            symbols[at as usize] = joined;
            symbols[right as usize] = NONE;
            let after = next[right as usize];
            next[at as usize] = after;
            if after < n {
                previous[after as usize] = at;
                heap.extend(candidate(symbols, at, after));
            }
            let before = previous[at as usize];
            if before != NONE {
                heap.extend(candidate(symbols, before, at));
            }
        }
        symbols.retain(|&id| id != NONE);
    }
}

fn key(left: u32, right: u32) -> u64 {
    u64::from(left) << 32 | u64::from(right)
}

/// Memory kept from word to word.
#[derive(Default)]
pub struct Scratch {
    pub symbols: Vec<u32>,
    ranks: Vec<(u32, u32)>,
    heap: BinaryHeap<Reverse<(u32, u32, u32)>>,
    next: Vec<u32>,
    previous: Vec<u32>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scanning_and_heap_agree() {
        let mut state = 1u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) % below
        };
        for _ in 0..300 {
            let mut merges = Merges::default();
            let symbols = 2 + random(4) as u32;
            for rank in 0..random(20) as u32 {
                let ids = symbols + rank;
                merges.insert(random(ids.into()) as u32, random(ids.into()) as u32, rank, ids);
            }
            let word: Vec<u32> = (0..3 + random(60)).map(|_| random(symbols.into()) as u32).collect();
            let (mut a, mut b) = (word.clone(), word);
            merges.scan(&mut a, &mut Vec::new());
            merges.heap(&mut b, &mut Scratch::default());
            assert_eq!(a, b);
        }
    }
}
