//! The parts of tokenizer.json that our own encoder understands. Whatever does not fit these types is left to the
//! library `tokenizers`, which also words the error when the file is wrong.

use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

#[derive(Deserialize)]
pub struct Document<'a> {
    #[serde(default)]
    pub added_tokens: Vec<AddedToken>,
    #[serde(borrow, default)]
    pub normalizer: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub pre_tokenizer: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub post_processor: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub decoder: Option<&'a RawValue>,
    #[serde(borrow)]
    pub model: &'a RawValue,
}

impl Document<'_> {
    /// Adds to `added_tokens` what is not there yet, and returns what had to be added or changed.
    pub fn add_missing(&mut self, listed: Vec<AddedToken>) -> Vec<AddedToken> {
        let mut missing = Vec::new();
        for mut token in listed {
            match self.added_tokens.iter_mut().find(|known| known.content == token.content) {
                Some(known) if known.special || !token.special => continue,
                Some(known) => {
                    known.special = true;
                    token = known.clone();
                }
                None => self.added_tokens.push(token.clone()),
            }
            missing.push(token);
        }
        missing
    }
}

#[derive(Deserialize, Clone)]
pub struct AddedToken {
    #[serde(default)]
    pub id: Option<u32>,
    pub content: String,
    pub single_word: bool,
    pub lstrip: bool,
    pub rstrip: bool,
    pub normalized: bool,
    pub special: bool,
}

#[derive(Deserialize)]
pub enum PatternSpec {
    String(String),
    Regex(String),
}

#[derive(Deserialize)]
#[serde(tag = "type")]
pub enum NormalizerSpec {
    NFC,
    NFD,
    NFKC,
    NFKD,
    Prepend { prepend: String },
    Replace { pattern: PatternSpec, content: String },
    Sequence { normalizers: Vec<NormalizerSpec> },
    SentencePiece(SentencePieceSpec), // of no tokenizer.json
}

/// The settings of a SentencePiece model's normalizer.
#[derive(Deserialize)]
pub struct SentencePieceSpec {
    pub charsmap: String, // base64; empty: every character stays
    pub add_dummy_prefix: bool,
    pub first_only: bool,
    pub suffix: bool,
    pub remove_extra_whitespaces: bool,
    pub escape_whitespaces: bool,
    pub kept: Vec<String>,
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq, Default)]
pub enum Behavior {
    #[default]
    Isolated,
    Removed,
    MergedWithPrevious,
    MergedWithNext,
    Contiguous,
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum PrependScheme {
    First,
    Never,
    Always,
}

fn yes() -> bool {
    true
}

#[derive(Deserialize)]
#[serde(tag = "type")]
pub enum PreTokenizerSpec {
    ByteLevel {
        add_prefix_space: bool,
        #[serde(default = "yes")]
        use_regex: bool,
    },
    Split {
        pattern: PatternSpec,
        behavior: Behavior,
        invert: bool,
    },
    Digits {
        individual_digits: bool,
    },
    Punctuation {
        #[serde(default)]
        behavior: Behavior,
    },
    Metaspace {
        replacement: char,
        prepend_scheme: Option<PrependScheme>,
        add_prefix_space: Option<bool>,
        #[serde(default = "yes")]
        split: bool,
    },
    Sequence {
        pretokenizers: Vec<PreTokenizerSpec>,
    },
}

#[derive(Deserialize)]
#[serde(tag = "type")]
pub enum PostProcessorSpec {
    ByteLevel {},
    TemplateProcessing { single: Vec<PieceSpec>, special_tokens: std::collections::HashMap<String, SpecialTokenSpec> },
    Sequence { processors: Vec<PostProcessorSpec> },
}

#[derive(Deserialize)]
pub enum PieceSpec {
    Sequence { id: String },
    SpecialToken { id: String },
}

#[derive(Deserialize)]
pub struct SpecialTokenSpec {
    pub ids: Vec<u32>,
}

#[derive(Deserialize)]
#[serde(tag = "type")]
pub enum DecoderSpec {
    ByteLevel {},
    ByteFallback {},
    Fuse {},
    Replace { pattern: PatternSpec, content: String },
    Strip { content: char, start: u32, stop: u32 },
    Metaspace { replacement: char, prepend_scheme: Option<PrependScheme>, add_prefix_space: Option<bool> },
    Sequence { decoders: Vec<DecoderSpec> },
}

/// Byte pair encodings, and the kinds of model.rs that no tokenizer.json has: written here alone, from GGUF files.
#[derive(Deserialize)]
pub struct ModelSpec<'a> {
    #[serde(rename = "type", default)]
    pub kind: Option<String>,
    #[serde(default)]
    pub dropout: Option<f32>,
    #[serde(default)]
    pub unk_token: Option<String>,
    #[serde(default)]
    pub continuing_subword_prefix: Option<String>,
    #[serde(default)]
    pub end_of_word_suffix: Option<String>,
    #[serde(default)]
    pub fuse_unk: Option<bool>,
    #[serde(default)]
    pub byte_fallback: Option<bool>,
    #[serde(default)]
    pub ignore_merges: Option<bool>,
    #[serde(borrow)]
    pub vocab: VocabularySpec<'a>,
    #[serde(borrow)]
    pub merges: Vec<MergeSpec<'a>>,
    /// Any two tokens that together are one may join, the lowest id first: as tiktoken's files have it.
    #[serde(default)]
    pub merges_by_id: bool,
    /// By id, of the kinds ScoredCut and SentencePieceUnigram.
    #[serde(default)]
    pub scores: Option<Vec<f32>>,
    /// Of the kind SentencePieceUnigram: ids that are never cut out of a text.
    #[serde(default)]
    pub left_out: HashSet<u32>,
}

/// Tokens and ids in file order, borrowed from the file where no escape had to be resolved.
pub struct VocabularySpec<'a>(pub Vec<(Cow<'a, str>, u32)>);

impl<'de: 'a, 'a> Deserialize<'de> for VocabularySpec<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pairs;
        impl<'de> Visitor<'de> for Pairs {
            type Value = VocabularySpec<'de>;
            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a map from token to id")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut pairs = Vec::new();
                while let Some((token, id)) = map.next_entry::<Text<'de>, u32>()? {
                    pairs.push((token.0, id));
                }
                Ok(VocabularySpec(pairs))
            }
        }
        deserializer.deserialize_map(Pairs)
    }
}

/// A merge is written ["left", "right"], or in older files "left right".
pub struct MergeSpec<'a> {
    pub left: Cow<'a, str>,
    pub right: Cow<'a, str>,
}

impl<'de: 'a, 'a> Deserialize<'de> for MergeSpec<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pair;
        fn halves<E: serde::de::Error>(text: &str) -> Result<(&str, &str), E> {
            match text.split_once(' ') {
                Some((left, right)) if !right.contains(' ') => Ok((left, right)),
                _ => Err(E::custom(format!("the merge {text:?} is not two tokens with a space between"))),
            }
        }
        impl<'de> Visitor<'de> for Pair {
            type Value = MergeSpec<'de>;
            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a pair of tokens")
            }
            fn visit_borrowed_str<E: serde::de::Error>(self, text: &'de str) -> Result<Self::Value, E> {
                let (left, right) = halves(text)?;
                Ok(MergeSpec { left: Cow::Borrowed(left), right: Cow::Borrowed(right) })
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Self::Value, E> {
                let (left, right) = halves(text)?;
                Ok(MergeSpec { left: Cow::Owned(left.into()), right: Cow::Owned(right.into()) })
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let short = || serde::de::Error::custom("a merge needs two tokens");
                let left: Text = seq.next_element()?.ok_or_else(short)?;
                let right: Text = seq.next_element()?.ok_or_else(short)?;
                if seq.next_element::<serde::de::IgnoredAny>()?.is_some() {
                    return Err(short());
                }
                Ok(MergeSpec { left: left.0, right: right.0 })
            }
        }
        deserializer.deserialize_any(Pair)
    }
}

struct Text<'a>(Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Borrow;
        impl<'de> Visitor<'de> for Borrow {
            type Value = Text<'de>;
            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a string")
            }
            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Borrowed(text)))
            }
            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }
        }
        deserializer.deserialize_str(Borrow)
    }
}
