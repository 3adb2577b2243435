//! Text as SentencePiece rewrites it before it is cut: characters by a compiled map, spaces as word marks.
//! Source: the normalizer of the library sentencepiece; the map is a double-array trie (darts-clone) with the
//! replacements behind it.

use crate::document::SentencePieceSpec;
use base64_value::decode;
use daachorse::{DoubleArrayAhoCorasick, DoubleArrayAhoCorasickBuilder, MatchKind};

pub struct SentencePiece {
    map: Option<CharsMap>,
    add_dummy_prefix: bool,
    /// Only at the start of the whole input, not behind every token found in the text.
    first_only: bool,
    suffix: bool,
    remove_extra_spaces: bool,
    escape: bool,
    /// What is left as it is: user-defined pieces, with spaces where they have word marks.
    kept: Option<DoubleArrayAhoCorasick<u32>>,
}

impl SentencePiece {
    pub fn from_spec(spec: &SentencePieceSpec) -> Result<SentencePiece, String> {
        let map = match spec.charsmap.as_str() {
            "" => None,
            text => Some(CharsMap::new(decode(text)?)?),
        };
        let kept: Vec<&String> = spec.kept.iter().filter(|piece| !piece.is_empty()).collect();
        let kept = match kept.is_empty() || map.is_none() {
            true => None,
            false => Some(
                DoubleArrayAhoCorasickBuilder::new()
                    .match_kind(MatchKind::LeftmostLongest)
                    .build(kept)
                    .map_err(|e| format!("the user-defined pieces cannot be searched for: {e}"))?,
            ),
        };
        Ok(SentencePiece {
            map,
            add_dummy_prefix: spec.add_dummy_prefix,
            first_only: spec.first_only,
            suffix: spec.suffix,
            remove_extra_spaces: spec.remove_extra_whitespaces,
            escape: spec.escape_whitespaces,
            kept,
        })
    }

    /// `begins`: the text is the start of the whole input; `behind`: it goes on behind other text.
    pub fn apply(&self, text: &str, begins: bool, behind: bool) -> String {
        let mapped = self.mapped(text);
        let space = if self.escape { "▁" } else { " " };
        let mut rest = mapped.as_str();
        if self.remove_extra_spaces && !behind {
            rest = rest.trim_start_matches(' ');
        }
        let mut out = String::with_capacity(rest.len() + rest.len() / 2 + 3);
        if rest.is_empty() {
            return out;
        }
        let mark = self.add_dummy_prefix && !behind && (begins || !self.first_only);
        if mark && !self.suffix {
            out.push_str(space);
        }
        let mut after_space = self.remove_extra_spaces && !behind;
        for c in rest.chars() {
            match c {
                ' ' if after_space => {}
                ' ' => out.push_str(space),
                c => out.push(c),
            }
            after_space = self.remove_extra_spaces && c == ' ';
        }
        if self.remove_extra_spaces {
            out.truncate(out.trim_end_matches(space).len());
        }
        if mark && self.suffix {
            out.push_str(space);
        }
        out
    }

    /// A piece as it stands in rewritten text.
    pub fn as_written(&self, piece: &str) -> String {
        if self.escape {
            piece.replace(' ', "▁")
        } else {
            piece.to_owned()
        }
    }

    pub fn shrinkage(&self) -> Option<u32> {
        (self.map.is_none() && !self.remove_extra_spaces).then_some(1)
    }

    fn mapped(&self, text: &str) -> String {
        let Some(map) = &self.map else { return text.to_owned() };
        let mut out = String::with_capacity(text.len());
        let mut done = 0;
        for found in self.kept.iter().flat_map(|kept| kept.leftmost_find_iter(text)) {
            map.apply(&text[done..found.start()], &mut out);
            out.push_str(&text[found.start()..found.end()]);
            done = found.end();
        }
        map.apply(&text[done..], &mut out);
        out
    }
}

/// Strings of characters and what stands in their place.
struct CharsMap {
    units: Vec<u32>,
    replacements: Vec<u8>, // each ended by a zero byte
}

impl CharsMap {
    fn new(blob: Vec<u8>) -> Result<CharsMap, String> {
        let wrong = || "precompiled_charsmap is not whole".to_owned();
        let size = blob.get(..4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]) as usize).ok_or_else(wrong)?;
        let trie = blob.get(4..).and_then(|rest| rest.get(..size)).ok_or_else(wrong)?;
        let replacements = blob[4 + size..].to_vec();
        let units: Vec<u32> = trie.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
        if units.is_empty() || replacements.last() != Some(&0) || std::str::from_utf8(&replacements).is_err() {
            return Err(wrong());
        }
        Ok(CharsMap { units, replacements })
    }

    fn apply(&self, text: &str, out: &mut String) {
        let mut at = 0;
        while at < text.len() {
            let rest = &text[at..];
            match self.longest(rest.as_bytes()) {
                Some((length, replacement)) if rest.is_char_boundary(length) => {
                    out.push_str(replacement);
                    at += length;
                }
                _ => {
                    let c = rest.chars().next().unwrap_or('\0');
                    out.push(c);
                    at += c.len_utf8().max(1);
                }
            }
        }
    }

    /// The longest key with which the text begins: its bytes, and the text for it.
    fn longest(&self, text: &[u8]) -> Option<(usize, &str)> {
        let unit = |at: usize| self.units.get(at).copied().unwrap_or(0);
        let offset = |unit: u32| ((unit >> 10) << ((unit & (1 << 9)) >> 6)) as usize;
        let mut node = offset(unit(0));
        let mut found = None;
        for (i, &byte) in text.iter().enumerate() {
            node ^= byte as usize;
            let here = unit(node);
            if byte == 0 || here & (1 << 31 | 0xff) != u32::from(byte) {
                break;
            }
            node ^= offset(here);
            if here >> 8 & 1 == 1 {
                found = Some((i + 1, (unit(node) & !(1 << 31)) as usize));
            }
        }
        let (length, start) = found?;
        let rest = self.replacements.get(start..)?;
        let end = rest.iter().position(|&b| b == 0)?;
        Some((length, std::str::from_utf8(&rest[..end]).ok()?))
    }
}

mod base64_value {
    /// Standard base64 with padding, as it is written into the file beside this.
    pub fn decode(text: &str) -> Result<Vec<u8>, String> {
        let value = |c: u8| match c {
            b'A'..=b'Z' => Some(c - b'A'),
            b'a'..=b'z' => Some(c - b'a' + 26),
            b'0'..=b'9' => Some(c - b'0' + 52),
            b'+' => Some(62),
            b'/' => Some(63),
            _ => None,
        };
        let mut out = Vec::with_capacity(text.len() / 4 * 3);
        let (mut bits, mut held) = (0u32, 0u32);
        for c in text.trim_end_matches('=').bytes() {
            let six = value(c).ok_or("precompiled_charsmap is no base64")?;
            held = held << 6 | u32::from(six);
            bits += 6;
            if bits >= 8 {
                bits -= 8;
                out.push((held >> bits) as u8);
            }
        }
        Ok(out)
    }
}
