//! Cutting normalised text into the words that the model merges within.

use crate::document::{Behavior, PatternSpec, PreTokenizerSpec, PrependScheme};
use crate::pattern::Pattern;
use std::borrow::Cow;
use unicode_categories::UnicodeCategories;

const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";

/// How many steps a file may chain: they recurse.
const MOST_STAGES: usize = 32;

pub enum Stage {
    Split { pattern: Pattern, behavior: Behavior, invert: bool },
    Class { is_member: fn(char) -> bool, behavior: Behavior },
    PrefixSpace,
    WordMarks { scheme: PrependScheme },
}

#[derive(Default)]
pub struct Splitter {
    stages: Vec<Stage>,
    /// The words are bytes, written in the byte-level alphabet in the vocabulary.
    pub byte_level: bool,
}

impl Splitter {
    /// None when the file uses something that only the library knows.
    pub fn from_spec(spec: Option<&PreTokenizerSpec>) -> Result<Option<Splitter>, String> {
        let mut splitter = Splitter::default();
        if let Some(spec) = spec {
            if !splitter.add(spec)? || splitter.stages.len() > MOST_STAGES {
                return Ok(None);
            }
        }
        Ok(Some(splitter))
    }

    fn add(&mut self, spec: &PreTokenizerSpec) -> Result<bool, String> {
        if self.byte_level {
            return Ok(false); // something after the change of alphabet
        }
        let stage = match spec {
            PreTokenizerSpec::Sequence { pretokenizers } => {
                for part in pretokenizers {
                    if !self.add(part)? {
                        return Ok(false);
                    }
                }
                return Ok(true);
            }
            PreTokenizerSpec::ByteLevel { add_prefix_space, use_regex } => {
                self.byte_level = true;
                if *add_prefix_space {
                    self.stages.push(Stage::PrefixSpace);
                }
                if !use_regex {
                    return Ok(true);
                }
                Stage::Split { pattern: Pattern::regex(GPT2)?, behavior: Behavior::Isolated, invert: false }
            }
            PreTokenizerSpec::Split { pattern, behavior, invert } => {
                let Some(pattern) = pattern_of(pattern)? else { return Ok(false) };
                Stage::Split { pattern, behavior: *behavior, invert: *invert }
            }
            PreTokenizerSpec::Digits { individual_digits } => {
                let behavior = if *individual_digits { Behavior::Isolated } else { Behavior::Contiguous };
                Stage::Class { is_member: char::is_numeric, behavior }
            }
            PreTokenizerSpec::Punctuation { behavior } => {
                Stage::Class { is_member: is_punctuation, behavior: *behavior }
            }
            PreTokenizerSpec::Metaspace { replacement: '▁', prepend_scheme, add_prefix_space: None, split } => {
                self.stages.push(Stage::WordMarks { scheme: prepend_scheme.unwrap_or(PrependScheme::Always) });
                if !split {
                    return Ok(true);
                }
                let Some(pattern) = Pattern::literal("▁") else { return Ok(false) };
                Stage::Split { pattern, behavior: Behavior::MergedWithNext, invert: false }
            }
            PreTokenizerSpec::Metaspace { .. } => return Ok(false),
        };
        self.stages.push(stage);
        Ok(true)
    }

    /// True when every byte of the text reaches some word, at least once.
    pub fn keeps_all(&self) -> bool {
        self.stages.iter().all(|s| {
            !matches!(
                s,
                Stage::Split { behavior: Behavior::Removed, .. } | Stage::Class { behavior: Behavior::Removed, .. }
            )
        })
    }

    pub fn is_whole_text(&self) -> bool {
        self.stages.iter().all(|s| matches!(s, Stage::PrefixSpace | Stage::WordMarks { .. }))
    }

    /// Calls `word` for each word of `text`.
    pub fn words(&self, text: &str, begin: Begin, word: &mut dyn FnMut(&str)) -> Result<(), String> {
        run(&self.stages, text, begin, word)
    }
}

/// What stands before a part of a text.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Begin {
    /// Nothing: it begins the whole input.
    Text,
    /// A token of the same input.
    Part,
    /// Text that was encoded before: no word mark is put there.
    Behind,
}

fn pattern_of(spec: &PatternSpec) -> Result<Option<Pattern>, String> {
    match spec {
        PatternSpec::String(text) => Ok(Pattern::literal(text)),
        PatternSpec::Regex(source) => Pattern::regex(source).map(Some),
    }
}

fn is_punctuation(c: char) -> bool {
    c.is_ascii_punctuation() || c.is_punctuation()
}

fn run(stages: &[Stage], text: &str, begin: Begin, word: &mut dyn FnMut(&str)) -> Result<(), String> {
    if text.is_empty() {
        return Ok(());
    }
    let Some((stage, rest)) = stages.split_first() else {
        word(text);
        return Ok(());
    };
    let mut failure = Ok(());
    let mut next = |start: usize, end: usize| {
        if failure.is_ok() {
            failure = run(rest, &text[start..end], if start == 0 { begin } else { Begin::Part }, word);
        }
    };
    match stage {
        Stage::Split { pattern, behavior, invert } => {
            let mut group = Grouping::new(*behavior);
            pattern.pieces(text, |start, end, matched| group.add(start, end, matched != *invert, &mut next))?;
            group.finish(&mut next);
        }
        Stage::Class { is_member, behavior } => {
            let mut group = Grouping::new(*behavior);
            class_pieces(text, *is_member, |start, end, matched| group.add(start, end, matched, &mut next));
            group.finish(&mut next);
        }
        Stage::PrefixSpace => {
            let there = text.starts_with(' ') || begin == Begin::Behind;
            let text = if there { Cow::Borrowed(text) } else { Cow::Owned(format!(" {text}")) };
            return run(rest, &text, begin, word);
        }
        Stage::WordMarks { scheme } => return run(rest, &with_word_marks(text, *scheme, begin), begin, word),
    }
    failure
}

fn with_word_marks(text: &str, scheme: PrependScheme, begin: Begin) -> Cow<'_, str> {
    let prepend = match scheme {
        PrependScheme::Always => begin != Begin::Behind,
        PrependScheme::First => begin == Begin::Text,
        PrependScheme::Never => false,
    };
    let mark = if prepend && !text.starts_with([' ', '▁']) { "▁" } else { "" };
    if mark.is_empty() && !text.contains(' ') {
        return Cow::Borrowed(text);
    }
    let mut marked = String::with_capacity(text.len() + text.len() / 2 + 3);
    marked.push_str(mark);
    for (i, part) in text.split(' ').enumerate() {
        if i > 0 {
            marked.push('▁');
        }
        marked.push_str(part);
    }
    Cow::Owned(marked)
}

/// Every member on its own, everything between members together.
fn class_pieces(text: &str, is_member: fn(char) -> bool, mut piece: impl FnMut(usize, usize, bool)) {
    let mut done = 0;
    for (i, c) in text.char_indices().filter(|(_, c)| is_member(*c)) {
        if done < i {
            piece(done, i, false);
        }
        done = i + c.len_utf8();
        piece(i, done, true);
    }
    if done < text.len() {
        piece(done, text.len(), false);
    }
}

/// Joins matches and gaps into words as a Behavior says, holding at most one piece back.
struct Grouping {
    behavior: Behavior,
    held: Option<(usize, usize)>,
    last_matched: bool,
}

impl Grouping {
    fn new(behavior: Behavior) -> Self {
        Grouping { behavior, held: None, last_matched: false }
    }

    fn add(&mut self, start: usize, end: usize, matched: bool, emit: &mut impl FnMut(usize, usize)) {
        let joins = match self.behavior {
            Behavior::Isolated => return emit(start, end),
            Behavior::Removed if matched => return,
            Behavior::Removed => return emit(start, end),
            Behavior::Contiguous => matched == self.last_matched,
            Behavior::MergedWithPrevious => matched && !self.last_matched,
            Behavior::MergedWithNext => !matched && self.last_matched,
        };
        self.last_matched = matched;
        match &mut self.held {
            Some(held) if joins => held.1 = end,
            _ => {
                if let Some((from, to)) = self.held.replace((start, end)) {
                    emit(from, to);
                }
            }
        }
    }

    fn finish(&mut self, emit: &mut impl FnMut(usize, usize)) {
        if let Some((from, to)) = self.held.take() {
            emit(from, to);
        }
    }
}
