//! Rewriting text before it is cut and merged.

use crate::document::{NormalizerSpec, PatternSpec};
use crate::pattern::Pattern;
use crate::sentencepiece::SentencePiece;
use crate::split::Begin;
use std::borrow::Cow;
use unicode_normalization_alignments::{is_nfc_quick, is_nfkc_quick, IsNormalized, UnicodeNormalization};

enum Step {
    Nfc,
    Nfd,
    Nfkc,
    Nfkd,
    Prepend(String),
    Replace { pattern: Pattern, content: String },
    SentencePiece(Box<SentencePiece>),
}

#[derive(Default)]
pub struct Normalizer {
    steps: Vec<Step>,
}

impl Normalizer {
    /// None when the file uses something that only the library knows.
    pub fn from_spec(spec: Option<&NormalizerSpec>) -> Result<Option<Normalizer>, String> {
        let mut normalizer = Normalizer::default();
        match spec {
            Some(spec) if !normalizer.add(spec)? => Ok(None),
            _ => Ok(Some(normalizer)),
        }
    }

    fn add(&mut self, spec: &NormalizerSpec) -> Result<bool, String> {
        self.steps.push(match spec {
            NormalizerSpec::NFC => Step::Nfc,
            NormalizerSpec::NFD => Step::Nfd,
            NormalizerSpec::NFKC => Step::Nfkc,
            NormalizerSpec::NFKD => Step::Nfkd,
            NormalizerSpec::Prepend { prepend } => Step::Prepend(prepend.clone()),
            NormalizerSpec::Replace { pattern, content } => {
                let pattern = match pattern {
                    PatternSpec::String(text) => Pattern::literal(text),
                    PatternSpec::Regex(source) => Some(Pattern::regex(source)?),
                };
                let Some(pattern) = pattern else { return Ok(false) };
                Step::Replace { pattern, content: content.clone() }
            }
            NormalizerSpec::SentencePiece(spec) => Step::SentencePiece(Box::new(SentencePiece::from_spec(spec)?)),
            NormalizerSpec::Sequence { normalizers } => {
                for part in normalizers {
                    if !self.add(part)? {
                        return Ok(false);
                    }
                }
                return Ok(true);
            }
        });
        Ok(true)
    }

    pub fn apply<'t>(&self, text: &'t str, begin: Begin) -> Result<Cow<'t, str>, String> {
        self.apply_with(text, |step, text| step.apply(text, begin))
    }

    /// An added token as it stands in text that was rewritten.
    pub fn apply_to_token<'t>(&self, text: &'t str) -> Result<Cow<'t, str>, String> {
        self.apply_with(text, |step, text| match step {
            Step::SentencePiece(rules) => Ok(Some(rules.as_written(text))),
            _ => step.apply(text, Begin::Text),
        })
    }

    fn apply_with<'t>(
        &self,
        text: &'t str,
        apply: impl Fn(&Step, &str) -> Result<Option<String>, String>,
    ) -> Result<Cow<'t, str>, String> {
        let mut text = Cow::Borrowed(text);
        for step in &self.steps {
            if let Some(changed) = apply(step, &text)? {
                text = Cow::Owned(changed);
            }
        }
        Ok(text)
    }

    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// By how much the text can shrink at most, in bytes; None when without bound.
    pub fn greatest_shrinkage(&self) -> Option<u32> {
        self.steps.iter().try_fold(1u32, |factor, step| Some(factor * step.shrinkage()?))
    }
}

impl Step {
    fn apply(&self, text: &str, begin: Begin) -> Result<Option<String>, String> {
        Ok(match self {
            Step::Nfc if text.is_ascii() || is_nfc_quick(text.chars()) == IsNormalized::Yes => None,
            Step::Nfc => Some(text.nfc().map(|(c, _)| c).collect()),
            Step::Nfkc if text.is_ascii() || is_nfkc_quick(text.chars()) == IsNormalized::Yes => None,
            Step::Nfkc => Some(text.nfkc().map(|(c, _)| c).collect()),
            Step::Nfd | Step::Nfkd if text.is_ascii() => None,
            Step::Nfd => Some(text.nfd().map(|(c, _)| c).collect()),
            Step::Nfkd => Some(text.nfkd().map(|(c, _)| c).collect()),
            Step::Prepend(_) if text.is_empty() || begin == Begin::Behind => None,
            Step::Prepend(mark) => Some(format!("{mark}{text}")),
            Step::Replace { pattern, content } => {
                let mut out = String::with_capacity(text.len());
                pattern.pieces(text, |start, end, matched| {
                    out.push_str(if matched { content } else { &text[start..end] })
                })?;
                Some(out)
            }
            Step::SentencePiece(rules) => Some(rules.apply(text, begin == Begin::Text, begin == Begin::Behind)),
        })
    }

    fn shrinkage(&self) -> Option<u32> {
        match self {
            Step::Prepend(_) | Step::Nfd => Some(1),
            // Three Hangul jamo (9 bytes) become one syllable (3); Greek letters with marks stay under that.
            Step::Nfc => Some(3),
            // A mathematical letter (4 bytes) becomes a plain one; composition may follow.
            Step::Nfkc => Some(12),
            Step::Nfkd => Some(4),
            Step::Replace { pattern: Pattern::Literal(from), content } if content.len() >= from.len() => Some(1),
            Step::Replace { .. } => None,
            Step::SentencePiece(rules) => rules.shrinkage(),
        }
    }
}
