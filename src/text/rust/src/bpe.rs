//! Byte pair encoding of words, over bytes or over characters.

use crate::bytelevel;
use crate::decode::byte_token;
use crate::document::ModelSpec;
use crate::merge::{Merges, Scratch};
use crate::strings::{Index, StringTable};
use ahash::{AHashMap, AHashSet};
use std::sync::atomic::{AtomicU8, Ordering};

pub struct Bpe {
    merges: Merges,
    alphabet: Alphabet,
    words: Index, // over `spellings`: the text of a word -> the token with just this text
    spellings: StringTable,
    word_ids: Vec<u32>,
    /// Whether a token's own text encodes to just this token: found out once, then a word costs one look-up.
    own_text: Vec<AtomicU8>,
    ignore_merges: bool,
    unknown: Option<u32>,
    fuse_unknown: bool,
    /// In text that is not cut into words: a place before a word mark can be cut after any character but these,
    /// because no token has one of them before a mark. None: no cutting.
    before_marks: Option<AHashSet<char>>,
}

enum Alphabet {
    Bytes(Box<[Option<u32>; 256]>),
    Characters { ids: AHashMap<char, u32>, bytes: Option<Box<[Option<u32>; 256]>> },
}

const UNTRIED: u8 = 0;
const ONE_TOKEN: u8 = 1;
const SEVERAL: u8 = 2;

const MARK: char = '▁';

impl Bpe {
    /// None when the model has a feature that only the library knows.
    pub fn from_spec(spec: &ModelSpec, byte_level: bool, whole_text: bool) -> Result<Option<Bpe>, String> {
        let affixes = [&spec.continuing_subword_prefix, &spec.end_of_word_suffix];
        let plain = affixes.iter().all(|a| a.as_deref().unwrap_or("").is_empty()) && spec.dropout.unwrap_or(0.0) == 0.0;
        if spec.kind.as_deref().unwrap_or("BPE") != "BPE" || !plain {
            return Ok(None);
        }
        let tokens = TokenIndex::new(spec);
        let unknown = match &spec.unk_token {
            None => None,
            Some(token) => match tokens.find(token) {
                None => return Ok(None), // an error only once it is needed: the library words it
                id => id,
            },
        };
        let merges = tokens.merges(spec)?;
        let alphabet = if byte_level {
            Alphabet::Bytes(Box::new(std::array::from_fn(|b| {
                tokens.find(bytelevel::char_of(b as u8).encode_utf8(&mut [0; 4]))
            })))
        } else {
            Alphabet::characters(spec, spec.byte_fallback.unwrap_or(false))
        };
        let mut bpe = Bpe {
            merges,
            alphabet,
            words: Index::with_capacity(spec.vocab.0.len()),
            spellings: StringTable::default(),
            word_ids: Vec::new(),
            own_text: Vec::new(),
            ignore_merges: spec.ignore_merges.unwrap_or(false),
            unknown,
            fuse_unknown: spec.fuse_unk.unwrap_or(false),
            before_marks: None,
        };
        bpe.index_words(spec, byte_level);
        if whole_text && !byte_level {
            bpe.find_cuts(spec);
        }
        Ok(Some(bpe))
    }

    fn index_words(&mut self, spec: &ModelSpec, byte_level: bool) {
        for (text, id) in &spec.vocab.0 {
            let spelling = if byte_level { bytelevel::bytes_of(text) } else { Some(text.as_bytes().to_vec()) };
            if let Some(spelling) = spelling {
                self.spellings.push(&spelling);
                self.word_ids.push(*id);
                self.own_text.push(AtomicU8::new(UNTRIED));
                self.words.insert(self.word_ids.len() as u32 - 1, &self.spellings);
            }
        }
    }

    /// Cutting is sound if no merge can reach over the cut; unknown characters and byte tokens are kept out of it.
    fn find_cuts(&mut self, spec: &ModelSpec) {
        let byte_ids: AHashSet<u32> =
            spec.vocab.0.iter().filter(|(t, _)| byte_token(t).is_some()).map(|(_, id)| *id).collect();
        let known = matches!(&self.alphabet, Alphabet::Characters { ids, .. } if ids.contains_key(&MARK));
        if self.ignore_merges
            || !known
            || self.merges.ids().any(|id| byte_ids.contains(&id) || Some(id) == self.unknown)
        {
            return;
        }
        let mut before = AHashSet::new();
        for (text, _) in &spec.vocab.0 {
            for (i, _) in text.match_indices(MARK).filter(|(i, _)| *i > 0) {
                before.extend(text[..i].chars().next_back());
            }
        }
        self.before_marks = Some(before);
    }

    pub fn encode(&self, word: &str, out: &mut Vec<u32>, scratch: &mut Scratch) {
        let Some(before_marks) = &self.before_marks else {
            return self.encode_word(word, out, scratch);
        };
        let Alphabet::Characters { ids, .. } = &self.alphabet else { return };
        let mut start = 0;
        let mut last = None;
        for (i, c) in word.char_indices() {
            if c == MARK && last.is_some_and(|l| !before_marks.contains(&l) && ids.contains_key(&l)) {
                self.encode_word(&word[start..i], out, scratch);
                start = i;
            }
            last = Some(c);
        }
        self.encode_word(&word[start..], out, scratch);
    }

    fn encode_word(&self, word: &str, out: &mut Vec<u32>, scratch: &mut Scratch) {
        let token = self.words.get(word.as_bytes(), &self.spellings);
        if let Some(token) = token {
            if self.ignore_merges || self.own_text[token as usize].load(Ordering::Relaxed) == ONE_TOKEN {
                out.push(self.word_ids[token as usize]);
                return;
            }
        }
        let mut symbols = std::mem::take(&mut scratch.symbols);
        symbols.clear();
        self.spell(word, &mut symbols);
        self.merges.apply(&mut symbols, scratch);
        out.extend_from_slice(&symbols);
        if let Some(token) = token {
            let state = if symbols == [self.word_ids[token as usize]] { ONE_TOKEN } else { SEVERAL };
            self.own_text[token as usize].store(state, Ordering::Relaxed);
        }
        scratch.symbols = symbols;
    }

    /// The symbols that merging starts from. What has no symbol becomes byte tokens, the unknown token, or nothing.
    fn spell(&self, word: &str, symbols: &mut Vec<u32>) {
        match &self.alphabet {
            Alphabet::Bytes(ids) => match self.unknown {
                None => symbols.extend(word.bytes().filter_map(|b| ids[b as usize])),
                Some(_) => {
                    let mut pending = None;
                    for byte in word.bytes() {
                        self.add_symbol(ids[byte as usize], &mut pending, symbols);
                    }
                    symbols.extend(pending);
                }
            },
            Alphabet::Characters { ids, bytes } => {
                let mut pending = None;
                for c in word.chars() {
                    let id = ids.get(&c).copied();
                    if let (None, Some(bytes)) = (id, bytes) {
                        let mut buffer = [0; 4];
                        let spelled = c.encode_utf8(&mut buffer).bytes();
                        if spelled.clone().all(|b| bytes[b as usize].is_some()) {
                            symbols.extend(spelled.filter_map(|b| bytes[b as usize]));
                            continue;
                        }
                    }
                    self.add_symbol(id, &mut pending, symbols);
                }
                symbols.extend(pending);
            }
        }
    }

    /// An unknown token waits in `pending` for the next known symbol, as in the library, so that a run can be fused.
    fn add_symbol(&self, id: Option<u32>, pending: &mut Option<u32>, symbols: &mut Vec<u32>) {
        match id {
            Some(id) => {
                symbols.extend(pending.take());
                symbols.push(id);
            }
            None => {
                if !self.fuse_unknown {
                    symbols.extend(pending.take());
                }
                *pending = self.unknown;
            }
        }
    }

    /// Of `text`, the bytes that are symbols themselves; 0 for an alphabet of characters.
    pub fn spelled_bytes(&self, text: &[u8]) -> usize {
        match &self.alphabet {
            Alphabet::Bytes(ids) => text.iter().filter(|&&b| ids[b as usize].is_some()).count(),
            Alphabet::Characters { .. } => 0,
        }
    }

    /// True when every character costs at least one token, so that the length of a text bounds the count from below.
    pub fn spells_everything(&self) -> bool {
        let complete = |ids: &[Option<u32>; 256]| ids.iter().all(Option::is_some);
        let has_all = match &self.alphabet {
            Alphabet::Bytes(ids) => complete(ids),
            Alphabet::Characters { bytes, .. } => bytes.as_ref().is_some_and(|b| complete(b)),
        };
        has_all || (self.unknown.is_some() && !self.fuse_unknown)
    }
}

impl Alphabet {
    fn characters(spec: &ModelSpec, byte_fallback: bool) -> Alphabet {
        let mut ids = AHashMap::new();
        let mut bytes = Box::new([None; 256]);
        for (text, id) in &spec.vocab.0 {
            let mut chars = text.chars();
            if let (Some(c), None) = (chars.next(), chars.next()) {
                ids.insert(c, *id);
            }
            // Only the spelling with capital digits counts.
            if let Some(byte) = byte_token(text).filter(|b| *text == format!("<{b:#04X}>")) {
                bytes[byte as usize] = Some(*id);
            }
        }
        Alphabet::Characters { ids, bytes: byte_fallback.then_some(bytes) }
    }
}

/// Token strings to ids while the model is built.
struct TokenIndex {
    texts: StringTable,
    index: Index,
    ids: Vec<u32>,
}

impl TokenIndex {
    fn new(spec: &ModelSpec) -> Self {
        let mut all = TokenIndex {
            texts: StringTable::default(),
            index: Index::with_capacity(spec.vocab.0.len()),
            ids: Vec::new(),
        };
        for (i, (text, id)) in spec.vocab.0.iter().enumerate() {
            all.texts.push(text.as_bytes());
            all.ids.push(*id);
            all.index.insert(i as u32, &all.texts);
        }
        all
    }

    fn find(&self, text: &str) -> Option<u32> {
        self.index.get(text.as_bytes(), &self.texts).map(|i| self.ids[i as usize])
    }

    /// Every way to cut a token in two tokens, ordered by the id of the whole.
    fn merges_by_id(&self, spec: &ModelSpec) -> Merges {
        let mut merges = Merges::with_capacity(spec.vocab.0.len() * 2);
        for (text, id) in &spec.vocab.0 {
            for (cut, _) in text.char_indices().skip(1).take(255) {
                if let (Some(left), Some(right)) = (self.find(&text[..cut]), self.find(&text[cut..])) {
                    merges.insert(left, right, *id, *id);
                }
            }
        }
        merges
    }

    fn merges(&self, spec: &ModelSpec) -> Result<Merges, String> {
        if spec.merges_by_id {
            return Ok(self.merges_by_id(spec));
        }
        let mut merges = Merges::with_capacity(spec.merges.len());
        let mut joined = String::new();
        for (rank, merge) in spec.merges.iter().enumerate() {
            joined.clear();
            joined.push_str(&merge.left);
            joined.push_str(&merge.right);
            let known = |text: &str| {
                self.find(text)
                    .ok_or_else(|| format!("merge {rank} needs the token {text:?}, which is not in the vocabulary"))
            };
            merges.insert(known(&merge.left)?, known(&merge.right)?, rank as u32, known(&joined)?);
        }
        Ok(merges)
    }
}
