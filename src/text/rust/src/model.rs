//! Words to ids: byte pair encoding, and kinds that only other files than tokenizer.json have.

use crate::bpe::Bpe;
use crate::bytelevel;
use crate::decode::byte_token;
use crate::document::ModelSpec;
use crate::merge::Scratch;
use crate::trie::Trie;
use crate::unigram::Unigram;

pub enum Model {
    Bpe(Box<Bpe>),
    Longest(LongestMatch),
    Scored(ScoredCut),
    Unigram(Unigram),
}

impl Model {
    /// None when the model has a feature that only the library knows.
    pub fn from_spec(spec: &ModelSpec, byte_level: bool, whole_text: bool) -> Result<Option<Model>, String> {
        match spec.kind.as_deref() {
            Some("LongestMatch") if byte_level => Ok(Some(Model::Longest(LongestMatch::from_spec(spec)))),
            Some("ScoredCut") if !byte_level => ScoredCut::from_spec(spec).map(|m| Some(Model::Scored(m))),
            Some("SentencePieceUnigram") if !byte_level => Unigram::from_spec(spec).map(|m| Some(Model::Unigram(m))),
            _ => Ok(Bpe::from_spec(spec, byte_level, whole_text)?.map(|bpe| Model::Bpe(Box::new(bpe)))),
        }
    }

    pub fn encode(&self, word: &str, out: &mut Vec<u32>, scratch: &mut Scratch) {
        match self {
            Model::Bpe(bpe) => bpe.encode(word, out, scratch),
            Model::Longest(longest) => longest.encode(word, out),
            Model::Scored(scored) => scored.encode(word, out),
            Model::Unigram(unigram) => unigram.encode(word, out),
        }
    }

    /// Of `text`, the bytes that are symbols themselves; 0 where there are no such.
    pub fn spelled_bytes(&self, text: &[u8]) -> usize {
        match self {
            Model::Bpe(bpe) => bpe.spelled_bytes(text),
            _ => 0,
        }
    }

    /// True when every character costs at least one token, so that the length of a text bounds the count from below.
    pub fn spells_everything(&self) -> bool {
        match self {
            Model::Bpe(bpe) => bpe.spells_everything(),
            Model::Longest(longest) => longest.unknown.is_some() || longest.bytes_complete(),
            Model::Scored(_) => false, // a byte order mark costs nothing
            Model::Unigram(unigram) => unigram.spells_everything(),
        }
    }
}

/// Always the longest token that the rest of the text begins with (RWKV's "World" vocabularies).
pub struct LongestMatch {
    tokens: Trie,
    unknown: Option<u32>, // for a byte that no token begins with
}

impl LongestMatch {
    fn from_spec(spec: &ModelSpec) -> LongestMatch {
        let mut tokens = Trie::default();
        for (text, id) in &spec.vocab.0 {
            if let Some(bytes) = bytelevel::bytes_of(text).filter(|bytes| !bytes.is_empty()) {
                tokens.insert(&bytes, *id);
            }
        }
        let unknown = spec.unk_token.as_ref().and_then(|unk| spec.vocab.0.iter().find(|(text, _)| text == unk));
        LongestMatch { tokens, unknown: unknown.map(|(_, id)| *id) }
    }

    fn bytes_complete(&self) -> bool {
        (0..=255u8).all(|byte| self.tokens.contains(&[byte]))
    }

    fn encode(&self, word: &str, out: &mut Vec<u32>) {
        let mut rest = word.as_bytes();
        while !rest.is_empty() {
            let mut longest = None;
            self.tokens.prefixes(rest, |length, id| longest = Some((length, id)));
            let (length, id) = longest.map_or((1, self.unknown), |(length, id)| (length, Some(id)));
            out.extend(id);
            rest = &rest[length..];
        }
    }
}

/// The cut of the text with the best sum of scores, whole numbers of a ten thousandth; a character that no token is
/// costs 1000 and becomes its byte tokens (PLaMo 2). Of equal cuts the one whose first token is longer.
pub struct ScoredCut {
    tokens: Trie,
    scores: Vec<i64>,
    bytes: Box<[u32; 256]>,
}

const UNKNOWN_SCORE: i64 = -10_000_000;

impl ScoredCut {
    fn from_spec(spec: &ModelSpec) -> Result<ScoredCut, String> {
        let scores = spec.scores.as_deref().unwrap_or_default();
        let mut tokens = Trie::default();
        let mut bytes = [None; 256];
        for (text, id) in &spec.vocab.0 {
            if scores.get(*id as usize).is_none() {
                return Err(format!("token {text:?} has no score"));
            }
            match byte_token(text) {
                Some(byte) => bytes[byte as usize] = Some(*id),
                None if !text.is_empty() => tokens.insert(text.as_bytes(), *id),
                None => {}
            }
        }
        if let Some(byte) = bytes.iter().position(Option::is_none) {
            return Err(format!("the byte token <0x{byte:02X}> is missing"));
        }
        let scores = scores.iter().map(|&s| (f64::from(s) * 1e4).round() as i64).collect();
        Ok(ScoredCut { tokens, scores, bytes: Box::new(bytes.map(|id| id.unwrap_or(0))) })
    }

    fn encode(&self, word: &str, out: &mut Vec<u32>) {
        let word = word.strip_prefix('\u{feff}').unwrap_or(word);
        let n = word.len();
        let mut best = vec![i64::MIN; n + 1];
        let mut cut: Vec<(u32, Option<u32>)> = vec![(0, None); n + 1]; // bytes, and the token if it is one
        best[n] = 0;
        for (i, c) in word.char_indices().rev() {
            let width = c.len_utf8();
            best[i] = best[i + width].saturating_add(UNKNOWN_SCORE);
            cut[i] = (width as u32, None);
            self.tokens.prefixes(&word.as_bytes()[i..], |length, id| {
                let score = self.scores[id as usize];
                let sum = best[i + length].saturating_add(score);
                if score > 2 * UNKNOWN_SCORE && sum >= best[i] {
                    best[i] = sum;
                    cut[i] = (length as u32, Some(id));
                }
            });
        }
        let mut at = 0;
        while at < n {
            let (length, id) = cut[at];
            let end = at + length as usize;
            match id {
                Some(id) => out.push(id),
                None => out.extend(word.as_bytes()[at..end].iter().map(|&byte| self.bytes[byte as usize])),
            }
            at = end;
        }
    }
}
