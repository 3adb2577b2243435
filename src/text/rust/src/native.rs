//! Our own encoder for byte pair encodings: the same ids as the library, in linear time and without its memory.

use crate::added_tokens::{AddedTokens, Part};
use crate::decode::{DecodePlan, TokenDecoder};
use crate::document::{DecoderSpec, Document, NormalizerSpec, PieceSpec, PostProcessorSpec, PreTokenizerSpec};
use crate::document::{ModelSpec, VocabularySpec};
use crate::merge::Scratch;
use crate::model::Model;
use crate::normalize::Normalizer;
use crate::split::{Begin, Splitter};
use crate::vocabulary::{Token, Vocabulary, ADDED, SPECIAL};
use crate::Encoding;
use ahash::AHashMap;
use serde::Deserialize;
use serde_json::value::RawValue;

pub struct Native {
    added: AddedTokens,
    normalizer: Normalizer,
    splitter: Splitter,
    model: Model,
    before: Vec<u32>, // ids put around the text when special tokens are asked for
    after: Vec<u32>,
}

/// What a file is made of once it turned out to be of the common kind.
pub struct Parts {
    pub native: Native,
    pub vocabulary: Vocabulary,
    pub plan: DecodePlan,
}

impl Native {
    /// None when the file needs the library, which then also finds what is wrong with it.
    pub fn from_document(document: &Document, literal_added: bool) -> Result<Option<Parts>, String> {
        let Some(spec) = part::<ModelSpec>(Some(document.model)).flatten() else { return Ok(None) };
        let Some(normalizer_spec) = part::<NormalizerSpec>(document.normalizer) else { return Ok(None) };
        let Some(splitter_spec) = part::<PreTokenizerSpec>(document.pre_tokenizer) else { return Ok(None) };
        let Some(decoder_spec) = part::<DecoderSpec>(document.decoder) else { return Ok(None) };
        let Some(ends_spec) = part::<PostProcessorSpec>(document.post_processor) else { return Ok(None) };

        let Some(normalizer) = Normalizer::from_spec(normalizer_spec.as_ref())? else { return Ok(None) };
        let Some(splitter) = Splitter::from_spec(splitter_spec.as_ref())? else { return Ok(None) };
        let Some(decoder) = decoder_spec.as_ref().and_then(TokenDecoder::from_spec) else { return Ok(None) };
        let Some((before, after)) = ends(ends_spec.as_ref()) else { return Ok(None) };
        let Some(model) = Model::from_spec(&spec, splitter.byte_level, splitter.is_whole_text())? else {
            return Ok(None);
        };

        let ids: AHashMap<&str, u32> = spec.vocab.0.iter().map(|(text, id)| (text.as_ref(), *id)).collect();
        let added = AddedTokens::new(
            document.added_tokens.clone(),
            literal_added,
            |text| ids.get(text).copied(),
            ids.len() as u32,
            &normalizer,
        )?;
        let vocabulary = Vocabulary::new(&all_tokens(&spec.vocab, &added, literal_added), &decoder)?;
        let native = Native { added, normalizer, splitter, model, before, after };
        Ok(Some(Parts { native, vocabulary, plan: decoder.plan }))
    }

    pub fn encode(&self, text: &str, how: &Encoding, out: &mut Vec<u32>) -> Result<(), String> {
        let mut scratch = Scratch::default();
        let begin = if how.continues { Begin::Behind } else { Begin::Text };
        if how.add_special {
            out.extend_from_slice(&self.before);
        }
        match how.own {
            None => self.encode_raw(text, begin, how.parse_special, out, &mut scratch)?,
            Some(own) => self.added.split_own(text, own, |found| match found {
                Part::Token(id) => {
                    out.push(id);
                    Ok(())
                }
                Part::Text(start, end) => {
                    let begin = if start == 0 { begin } else { Begin::Part };
                    self.encode_raw(&text[start..end], begin, false, out, &mut scratch)
                }
            })?,
        }
        if how.add_special {
            out.extend_from_slice(&self.after);
        }
        Ok(())
    }

    fn encode_raw(
        &self,
        text: &str,
        begin: Begin,
        parse_special: bool,
        out: &mut Vec<u32>,
        scratch: &mut Scratch,
    ) -> Result<(), String> {
        self.added.split_raw(text, parse_special, |found| match found {
            Part::Token(id) => {
                out.push(id);
                Ok(())
            }
            Part::Text(start, end) => {
                let begin = if start == 0 { begin } else { Begin::Part };
                let normalized = self.normalizer.apply(&text[start..end], begin)?;
                self.encode_normalized(&normalized, begin, parse_special, out, scratch)
            }
        })
    }

    fn encode_normalized(
        &self,
        text: &str,
        begin: Begin,
        parse_special: bool,
        out: &mut Vec<u32>,
        scratch: &mut Scratch,
    ) -> Result<(), String> {
        self.added.split_normalized(text, parse_special, |found| match found {
            Part::Token(id) => {
                out.push(id);
                Ok(())
            }
            Part::Text(start, end) => {
                let begin = if start == 0 { begin } else { Begin::Part };
                self.splitter.words(&text[start..end], begin, &mut |word| self.model.encode(word, out, scratch))
            }
        })
    }

    /// No encoding of `text` is shorter, special tokens around it left out; `longest`: bytes of the longest token.
    /// A vocabulary may lack bytes (SmolLM2 has no control characters): those cost nothing and are not counted.
    pub fn min_tokens(&self, text: &[u8], longest: u32) -> usize {
        let Some(longest) = usize::try_from(longest).ok().filter(|&n| n > 0) else { return 0 };
        if let Some(most) = self.most_input_bytes(longest as u32) {
            return text.len().div_ceil(most as usize);
        }
        let unchanged = self.normalizer.is_empty() && self.splitter.keeps_all() && !self.added.swallows_space();
        if unchanged {
            self.model.spelled_bytes(text).div_ceil(longest)
        } else {
            0
        }
    }

    /// Bytes of input that can end in one token of `longest` bytes; None when there is no bound.
    pub fn most_input_bytes(&self, longest: u32) -> Option<u32> {
        let bounded = self.model.spells_everything() && self.splitter.keeps_all() && !self.added.swallows_space();
        self.normalizer.greatest_shrinkage().filter(|_| bounded).and_then(|factor| factor.checked_mul(longest))
    }
}

/// None: present, but not of a kind known here.
fn part<'a, T: Deserialize<'a>>(raw: Option<&'a RawValue>) -> Option<Option<T>> {
    match raw {
        None => Some(None),
        Some(raw) => serde_json::from_str(raw.get()).ok().map(Some),
    }
}

fn all_tokens<'a>(vocabulary: &'a VocabularySpec, added: &'a AddedTokens, literal_added: bool) -> Vec<Token<'a>> {
    let flags = |decoded: &str| if added.is_special(decoded) { SPECIAL } else { 0 };
    let model = vocabulary.0.iter().map(|(text, id)| Token {
        id: *id,
        text,
        decoded_from: None,
        literal: false,
        flags: flags(text),
    });
    let extra = added.tokens.iter().map(|a| {
        let decoded_from = a.normalized.as_deref();
        Token {
            id: a.id,
            text: &a.token.content,
            decoded_from,
            literal: literal_added,
            flags: ADDED | flags(decoded_from.unwrap_or(&a.token.content)),
        }
    });
    model.chain(extra).collect()
}

/// The ids around a single text.
fn ends(spec: Option<&PostProcessorSpec>) -> Option<(Vec<u32>, Vec<u32>)> {
    let (mut before, mut after) = (Vec::new(), Vec::new());
    match spec {
        None | Some(PostProcessorSpec::ByteLevel {}) => {}
        Some(PostProcessorSpec::Sequence { processors }) => {
            for processor in processors {
                let (first, last) = ends(Some(processor))?;
                before.splice(0..0, first);
                after.extend(last);
            }
        }
        Some(PostProcessorSpec::TemplateProcessing { single, special_tokens }) => {
            let mut seen = false;
            for piece in single {
                match piece {
                    PieceSpec::Sequence { id } if id == "A" && !seen => seen = true,
                    PieceSpec::SpecialToken { id } if seen => after.extend(&special_tokens.get(id)?.ids),
                    PieceSpec::SpecialToken { id } => before.extend(&special_tokens.get(id)?.ids),
                    PieceSpec::Sequence { .. } => return None,
                }
            }
            if !seen {
                return None;
            }
        }
    }
    Some((before, after))
}
