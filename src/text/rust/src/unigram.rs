//! The most likely cut of a text by SentencePiece's unigram model.
//! Source: the library sentencepiece (unigram model, optimised encoding): one pass, sums in single precision.

use crate::decode::byte_token;
use crate::document::ModelSpec;
use crate::trie::Trie;

pub struct Unigram {
    pieces: Trie,
    scores: Vec<f32>,
    unknown: Option<u32>,
    unknown_score: f32,
    bytes: Option<Box<[Option<u32>; 256]>>,
}

/// What an unknown character costs beside the least likely piece.
const PENALTY: f32 = 10.0;

impl Unigram {
    /// `left_out`: control tokens, the unknown one and bytes, which are never cut out of a text.
    pub fn from_spec(spec: &ModelSpec) -> Result<Unigram, String> {
        let scores = spec.scores.as_deref().unwrap_or_default();
        let mut pieces = Trie::default();
        let mut bytes = Box::new([None; 256]);
        let mut least = f32::MAX;
        for (text, id) in &spec.vocab.0 {
            let score = *scores.get(*id as usize).ok_or_else(|| format!("piece {text:?} has no score"))?;
            if let Some(byte) = byte_token(text) {
                bytes[byte as usize] = Some(*id);
            }
            if !spec.left_out.contains(id) && !text.is_empty() {
                pieces.insert(text.as_bytes(), *id);
                least = least.min(score);
            }
        }
        let unknown = spec.unk_token.as_ref().and_then(|unk| spec.vocab.0.iter().find(|(text, _)| text == unk));
        Ok(Unigram {
            pieces,
            scores: scores.to_vec(),
            unknown: unknown.map(|(_, id)| *id),
            unknown_score: if least == f32::MAX { 0.0 } else { least } - PENALTY,
            bytes: spec.byte_fallback.unwrap_or(false).then_some(bytes),
        })
    }

    pub fn encode(&self, text: &str, out: &mut Vec<u32>) {
        let n = text.len();
        // By end: the sum, where the last piece begins, and the piece if it is one.
        let mut best: Vec<(f32, usize, Option<u32>)> = vec![(0.0, usize::MAX, None); n + 1];
        for (start, c) in text.char_indices() {
            let before = best[start].0;
            let width = c.len_utf8();
            let mut single = false;
            self.pieces.prefixes(&text.as_bytes()[start..], |length, id| {
                let sum = before + self.scores[id as usize];
                let end = &mut best[start + length];
                if end.1 == usize::MAX || sum > end.0 {
                    *end = (sum, start, Some(id));
                }
                single |= length == width;
            });
            let end = &mut best[start + width];
            if !single && (end.1 == usize::MAX || before + self.unknown_score > end.0) {
                *end = (before + self.unknown_score, start, None);
            }
        }
        let mut cuts = Vec::new();
        let mut end = n;
        while end > 0 {
            let (_, start, id) = best[end];
            cuts.push((start, end, id));
            end = start;
        }
        let mut unknown_before = false;
        for &(start, end, id) in cuts.iter().rev() {
            match id {
                Some(id) => out.push(id),
                None => self.spell(&text[start..end], unknown_before, out),
            }
            unknown_before = id.is_none();
        }
    }

    fn spell(&self, unknown: &str, unknown_before: bool, out: &mut Vec<u32>) {
        if let Some(bytes) = &self.bytes {
            let ids: Option<Vec<u32>> = unknown.bytes().map(|b| bytes[b as usize]).collect();
            if let Some(ids) = ids {
                return out.extend(ids);
            }
        }
        if !unknown_before {
            out.extend(self.unknown);
        }
    }

    /// True when every character costs a token.
    pub fn spells_everything(&self) -> bool {
        self.bytes.as_ref().is_some_and(|bytes| bytes.iter().all(Option::is_some))
    }
}
