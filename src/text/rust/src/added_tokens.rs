//! Tokens that are recognised in the text itself, before the model sees what lies between them.

use crate::document::AddedToken;
use crate::normalize::Normalizer;
use ahash::{AHashMap, AHashSet};
use daachorse::{DoubleArrayAhoCorasick, DoubleArrayAhoCorasickBuilder, MatchKind};
use std::sync::{LazyLock, OnceLock};

static WORD: LazyLock<regex_automata::meta::Regex> =
    LazyLock::new(|| regex_automata::meta::Regex::new(r"^\w$").unwrap());

pub struct Added {
    pub id: u32,
    pub token: AddedToken,
    /// The form in which it stands in normalised text, where that differs.
    pub normalized: Option<String>,
}

pub struct AddedTokens {
    pub tokens: Vec<Added>,
    specials: AHashSet<String>,
    in_raw_text: Option<DoubleArrayAhoCorasick<u32>>, // values are places in `tokens`
    in_normalized_text: Option<DoubleArrayAhoCorasick<u32>>,
    by_content: OnceLock<Option<DoubleArrayAhoCorasick<u32>>>, // all of them as they are written; made when asked for
}

pub enum Part {
    Token(u32),
    Text(usize, usize),
}

impl AddedTokens {
    /// Ids are given as the library does it: a token that the model knows keeps its id, others are numbered from the
    /// end of the vocabulary on, whatever id the file wishes for. `own_ids`: the file's ids count, for its tokens may be
    /// spelled as others of the model are.
    pub fn new(
        listed: Vec<AddedToken>,
        own_ids: bool,
        model_id: impl Fn(&str) -> Option<u32>,
        model_size: u32,
        normalizer: &Normalizer,
    ) -> Result<Self, String> {
        let mut place: AHashMap<u32, usize> = AHashMap::new(); // id -> index
        let mut ids: AHashMap<String, u32> = AHashMap::new();
        let mut tokens: Vec<Added> = Vec::new();
        let mut specials = AHashSet::new();
        let mut next = model_size;
        for token in listed.into_iter().filter(|t| !t.content.is_empty()) {
            let own = token.id.filter(|_| own_ids);
            let known = own.or_else(|| ids.get(&token.content).copied()).or_else(|| model_id(&token.content));
            let id = known.unwrap_or(next);
            if known.is_none() {
                next += 1;
            }
            if token.special {
                specials.insert(token.content.clone());
            }
            ids.insert(token.content.clone(), id);
            let normalized = match token.normalized {
                true => Some(normalizer.apply_to_token(&token.content)?.into_owned()).filter(|n| *n != token.content),
                false => None,
            };
            let added = Added { id, token, normalized };
            match place.get(&id) {
                Some(&i) => tokens[i] = added,
                None => {
                    place.insert(id, tokens.len());
                    tokens.push(added);
                }
            }
        }
        let raw = matcher(&tokens, |a| (!a.token.normalized).then_some(a.token.content.as_str()))?;
        let normalized =
            matcher(&tokens, |a| a.token.normalized.then_some(a.normalized.as_deref().unwrap_or(&a.token.content)))?;
        let by_content = OnceLock::new();
        Ok(AddedTokens { tokens, specials, in_raw_text: raw, in_normalized_text: normalized, by_content })
    }

    /// Special tokens that stand as a whole inside one of the ranges `own`; all else is text, in which `part` is to
    /// look for no special token.
    pub fn split_own(
        &self,
        text: &str,
        own: &[[usize; 2]],
        mut part: impl FnMut(Part) -> Result<(), String>,
    ) -> Result<(), String> {
        let matcher =
            self.by_content.get_or_init(|| matcher(&self.tokens, |a| Some(a.token.content.as_str())).ok().flatten());
        let mut done = 0;
        for range in own {
            let (from, to) = (range[0].max(done), range[1].min(text.len()));
            if from >= to || !text.is_char_boundary(from) || !text.is_char_boundary(to) {
                continue;
            }
            let one = |added: &Added, start: usize, done: usize| {
                self.specials.contains(&added.token.content) && start >= done
            };
            self.cut(matcher, text, [from, to], &mut done, one, &mut part)?;
        }
        if done < text.len() {
            part(Part::Text(done, text.len()))?;
        }
        Ok(())
    }

    pub fn is_special(&self, text: &str) -> bool {
        self.specials.contains(text)
    }

    /// Some token takes white space around it along, so that it can stand for text of any length.
    pub fn swallows_space(&self) -> bool {
        self.tokens.iter().any(|t| t.token.lstrip || t.token.rstrip)
    }

    pub fn split_raw(
        &self,
        text: &str,
        specials: bool,
        part: impl FnMut(Part) -> Result<(), String>,
    ) -> Result<(), String> {
        self.split(&self.in_raw_text, text, specials, part)
    }

    pub fn split_normalized(
        &self,
        text: &str,
        specials: bool,
        part: impl FnMut(Part) -> Result<(), String>,
    ) -> Result<(), String> {
        self.split(&self.in_normalized_text, text, specials, part)
    }

    fn split(
        &self,
        matcher: &Option<DoubleArrayAhoCorasick<u32>>,
        text: &str,
        specials: bool,
        mut part: impl FnMut(Part) -> Result<(), String>,
    ) -> Result<(), String> {
        let mut done = 0;
        let one = |added: &Added, _: usize, _: usize| specials || !self.specials.contains(&added.token.content);
        self.cut(matcher, text, [0, text.len()], &mut done, one, &mut part)?;
        if done < text.len() {
            part(Part::Text(done, text.len()))?;
        }
        Ok(())
    }

    /// The tokens in `range` that `one` is content with (given where each starts), and the text before each from `done` on.
    fn cut(
        &self,
        matcher: &Option<DoubleArrayAhoCorasick<u32>>,
        text: &str,
        range: [usize; 2],
        done: &mut usize,
        one: impl Fn(&Added, usize, usize) -> bool,
        part: &mut impl FnMut(Part) -> Result<(), String>,
    ) -> Result<(), String> {
        let [from, to] = range;
        for found in matcher.iter().flat_map(|m| m.leftmost_find_iter(&text[from..to])) {
            let added = &self.tokens[found.value() as usize];
            let (mut start, mut end) = (from + found.start(), from + found.end());
            if !one(added, start, *done) || (added.token.single_word && touches_word(text, start, end)) {
                continue;
            }
            if added.token.lstrip {
                start = text[..start].trim_end().len().max(*done);
            }
            if added.token.rstrip {
                end = text.len() - text[end..].trim_start().len();
            }
            if *done < start {
                part(Part::Text(*done, start))?;
            }
            part(Part::Token(added.id))?;
            *done = end;
        }
        Ok(())
    }
}

fn touches_word(text: &str, start: usize, end: usize) -> bool {
    let is_word = |c: char| WORD.is_match(c.encode_utf8(&mut [0; 4]).as_bytes());
    text[..start].chars().next_back().is_some_and(is_word) || text[end..].chars().next().is_some_and(is_word)
}

fn matcher<'a>(
    tokens: &'a [Added],
    form: impl Fn(&'a Added) -> Option<&'a str>,
) -> Result<Option<DoubleArrayAhoCorasick<u32>>, String> {
    let patterns: Vec<(&str, u32)> = tokens
        .iter()
        .enumerate()
        .filter_map(|(i, added)| Some((form(added)?, i as u32)))
        .filter(|(text, _)| !text.is_empty())
        .collect();
    if patterns.is_empty() {
        return Ok(None);
    }
    DoubleArrayAhoCorasickBuilder::new()
        .match_kind(MatchKind::LeftmostLongest)
        .build_with_values(patterns)
        .map(Some)
        .map_err(|e| format!("the added tokens cannot be searched for: {e}"))
}
