//! Patterns of tokenizer files, matched in linear time.
//!
//! The patterns in use are plain regular expressions but for one idiom, `\s+(?!\S)`: a run of white space less its last
//! character when something follows. The automaton matches `\s+` in its place and the length is put right afterwards.
//! Only a pattern with other look-around or back-references goes to the backtracking engine, with its step limit.

use regex_automata::meta;
use regex_automata::util::syntax;
use regex_automata::{Anchored, Input};

pub enum Pattern {
    Literal(String),
    Linear(Linear),
    Backtracking(Box<fancy_regex::Regex>),
}

const TRIMMED_SPACES: &str = r"\s+(?!\S)";

pub struct Linear {
    regex: meta::Regex, // pattern 0: before the idiom, 1: `\s+` in its place, 2: after it (or only pattern 0)
    after: Option<meta::Regex>,
    has_idiom: bool,
}

impl Pattern {
    pub fn literal(text: &str) -> Option<Pattern> {
        (!text.is_empty()).then(|| Pattern::Literal(text.to_owned()))
    }

    pub fn regex(source: &str) -> Result<Pattern, String> {
        let source = line_anchors(source);
        if let Some(linear) = Linear::new(&source) {
            return Ok(Pattern::Linear(linear));
        }
        match fancy_regex::RegexBuilder::new(&source).backtrack_limit(1_000_000).build() {
            Ok(regex) => Ok(Pattern::Backtracking(Box::new(regex))),
            Err(e) => Err(format!("the pattern {source:?} cannot be compiled: {e}")),
        }
    }

    /// Calls `piece(start, end, matched)` for every match and every gap, in order; together they cover `text`.
    pub fn pieces(&self, text: &str, mut piece: impl FnMut(usize, usize, bool)) -> Result<(), String> {
        let mut done = 0;
        let mut at = 0;
        while at <= text.len() {
            let Some((start, end)) = self.find(text, at)? else { break };
            if done < start {
                piece(done, start, false);
            }
            if start < end {
                piece(start, end, true);
            }
            done = end;
            at = if start == end { next_character(text, end) } else { end };
        }
        if done < text.len() {
            piece(done, text.len(), false);
        }
        Ok(())
    }

    fn find(&self, text: &str, at: usize) -> Result<Option<(usize, usize)>, String> {
        match self {
            Pattern::Literal(literal) => {
                Ok(text[at..].find(literal.as_str()).map(|i| (at + i, at + i + literal.len())))
            }
            Pattern::Linear(linear) => Ok(linear.find(text, at)),
            Pattern::Backtracking(regex) => match regex.find_from_pos(text, at) {
                Ok(found) => Ok(found.map(|m| (m.start(), m.end()))),
                Err(_) => Err("a pattern of the tokenizer takes too many steps on this text".into()),
            },
        }
    }
}

fn next_character(text: &str, at: usize) -> usize {
    at + text[at..].chars().next().map_or(1, char::len_utf8)
}

fn build(patterns: &[&str]) -> Option<meta::Regex> {
    let config = meta::Config::new().nfa_size_limit(Some(64 << 20)).hybrid_cache_capacity(8 << 20);
    let syntax = syntax::Config::new().nest_limit(100);
    meta::Builder::new().configure(config).syntax(syntax).build_many(patterns).ok()
}

impl Linear {
    fn new(source: &str) -> Option<Linear> {
        let alternatives = top_level_alternatives(source);
        let Some(idiom) = alternatives.iter().position(|a| *a == TRIMMED_SPACES) else {
            return Some(Linear { regex: build(&[source])?, after: None, has_idiom: false });
        };
        // An alternative that never matches stands in where there is nothing before or after the idiom.
        let join = |part: &[&str]| if part.is_empty() { "[a&&b]".to_owned() } else { part.join("|") };
        let before = join(&alternatives[..idiom]);
        let after = join(&alternatives[idiom + 1..]);
        let regex = build(&[&before, r"\s+", &after])?;
        Some(Linear { regex, after: Some(build(&[&after])?), has_idiom: true })
    }

    fn find(&self, text: &str, mut at: usize) -> Option<(usize, usize)> {
        loop {
            let (which, start, end) = self.search(text, at)?;
            if !self.has_idiom || which != 1 || end == text.len() {
                return Some((start, end));
            }
            let last = text[start..end].char_indices().next_back().map_or(start, |(i, _)| start + i);
            if last > start {
                return Some((start, last));
            }
            let rest = Input::new(text).range(start..).anchored(Anchored::Yes);
            if let Some(found) = self.after.as_ref().and_then(|regex| regex.search_half(&rest)) {
                return Some((start, found.offset()));
            }
            at = end;
        }
    }

    /// The leftmost match from `at`. Matches nearly always follow one another, and there a forward scan is enough.
    fn search(&self, text: &str, at: usize) -> Option<(usize, usize, usize)> {
        let input = Input::new(text).range(at..);
        if let Some(half) = self.regex.search_half(&input.clone().anchored(Anchored::Yes)) {
            return Some((half.pattern().as_usize(), at, half.offset()));
        }
        let found = self.regex.search(&input)?;
        Some((found.pattern().as_usize(), found.start(), found.end()))
    }
}

/// Calls `visit(byte index, character)` for the characters of a regular expression that are not escaped and not in a
/// class, with the depth of groups around them.
fn structure(source: &str, mut visit: impl FnMut(usize, char, usize)) {
    let (mut escaped, mut class, mut group) = (false, 0usize, 0usize);
    for (i, c) in source.char_indices() {
        if escaped {
            escaped = false;
            continue;
        }
        match c {
            '\\' => escaped = true,
            '[' => class += 1,
            ']' if class > 0 => class -= 1,
            _ if class > 0 => {}
            '(' => group += 1,
            ')' => group = group.saturating_sub(1),
            _ => visit(i, c, group),
        }
    }
}

fn top_level_alternatives(source: &str) -> Vec<&str> {
    let mut bars = Vec::new();
    structure(source, |i, c, group| {
        if c == '|' && group == 0 {
            bars.push(i);
        }
    });
    let mut start = 0;
    let mut parts = Vec::new();
    for bar in bars {
        parts.push(&source[start..bar]);
        start = bar + 1;
    }
    parts.push(&source[start..]);
    parts
}

/// Tokenizer files are written for Oniguruma's Ruby syntax, in which `^` and `$` stand at the ends of lines.
fn line_anchors(source: &str) -> String {
    let mut anchors = Vec::new();
    structure(source, |i, c, _| {
        if matches!(c, '^' | '$') {
            anchors.push(i);
        }
    });
    let mut out = String::with_capacity(source.len() + anchors.len() * 5);
    let mut start = 0;
    for i in anchors {
        out.push_str(&source[start..i]);
        out.push_str("(?m:");
        out.push_str(&source[i..=i]);
        out.push(')');
        start = i + 1;
    }
    out.push_str(&source[start..]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";

    fn matches(pattern: &Pattern, text: &str) -> Vec<(usize, usize, bool)> {
        let mut all = Vec::new();
        pattern.pieces(text, |start, end, matched| all.push((start, end, matched))).unwrap();
        all
    }

    #[test]
    fn the_idiom_matches_what_the_backtracking_engine_matches() {
        let sources =
            [GPT2, r"\p{N}{1,3}", r"\s+(?!\S)", r"a|\s+(?!\S)|b| x", r"\s+(?!\S)|\s{2,}|\s*[\r\n]", r"x*", r"[一-龥]+"];
        let texts = [
            "",
            " ",
            "a",
            "  a",
            "a  b   ",
            "\n \n  x12345",
            "   \u{3000}é 1 ",
            "xx  axx",
            "日本 語12",
            " x  x\r\n\r\n y ",
        ];
        for source in sources {
            let linear = Pattern::regex(source).unwrap();
            assert!(matches!(linear, Pattern::Linear(_)), "{source}");
            let slow = Pattern::Backtracking(Box::new(fancy_regex::Regex::new(source).unwrap()));
            for text in texts {
                assert_eq!(matches(&linear, text), matches(&slow, text), "{source} on {text:?}");
            }
        }
    }

    #[test]
    fn a_million_spaces_cost_one_pass() {
        let pattern = Pattern::regex(GPT2).unwrap();
        assert_eq!(matches(&pattern, &" ".repeat(4_000_000)).len(), 1);
    }

    #[test]
    fn anchors_stand_at_lines() {
        assert_eq!(line_anchors(r"\s+$|[$^]|\$"), r"\s+(?m:$)|[$^]|\$");
    }
}
