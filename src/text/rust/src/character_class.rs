//! Sets of characters that Unicode names, and their closure under case. Ranges are pairs of numbers, both included.

use regex_syntax::hir::{Class, ClassUnicode, ClassUnicodeRange, HirKind};
use std::sync::OnceLock;

const LONGEST_NAME: usize = 100; // Unicode's longest, with a property before it, is about half of that

/// The class that `\p{name}` would be, in ascending order.
pub fn by_name(name: &[u8]) -> Result<Vec<u32>, String> {
    // Checked here because the name becomes part of a pattern: nothing in it may end the braces.
    let plain = |b: &u8| b.is_ascii_alphanumeric() || b"_- =".contains(b);
    if name.is_empty() || name.len() > LONGEST_NAME || !name.iter().all(plain) {
        return Err(unknown(name));
    }
    if is_surrogates(name) {
        return Ok(Vec::new());
    }
    let pattern = format!(r"\p{{{}}}", String::from_utf8_lossy(name));
    let parsed = regex_syntax::parse(&pattern).map_err(|_| unknown(name))?;
    match parsed.kind() {
        HirKind::Class(Class::Unicode(class)) => Ok(bounds(class)),
        HirKind::Class(Class::Bytes(_)) => Ok(Vec::new()), // how the library writes a class that is empty
        // A class of one character arrives as that character.
        HirKind::Literal(literal) => {
            Ok(String::from_utf8_lossy(&literal.0).chars().flat_map(|c| [c as u32; 2]).collect())
        }
        _ => Err(unknown(name)),
    }
}

/// The one category that the library leaves out, having no characters for it.
fn is_surrogates(name: &[u8]) -> bool {
    let loose = |b: &u8| !b"_- ".contains(b);
    let name: Vec<u8> = name.iter().copied().filter(loose).map(|b| b.to_ascii_lowercase()).collect();
    let value = name.strip_prefix(b"gc=").or(name.strip_prefix(b"generalcategory=")).unwrap_or(&name);
    value == b"cs" || value == b"surrogate"
}

fn unknown(name: &[u8]) -> String {
    let shown = &name[..name.len().min(LONGEST_NAME)];
    format!("Unicode has no class named \"{}\"", String::from_utf8_lossy(shown))
}

fn bounds(class: &ClassUnicode) -> Vec<u32> {
    class.iter().flat_map(|r| [r.start() as u32, r.end() as u32]).collect()
}

/// The ranges and every character that differs from one of theirs by (simple) case alone. They may come in any order
/// and overlap; so may those of the result. Takes time by the number of ranges, not by how wide they are.
pub fn case_closure(ranges: &[u32]) -> Vec<u32> {
    let table = case_table();
    let mut out = ranges.to_vec();
    for range in ranges.chunks_exact(2) {
        let first = table.partition_point(|entry| entry.0 < range[0]);
        for (_, others) in table[first..].iter().take_while(|entry| entry.0 <= range[1]) {
            for &other in others.iter().filter(|&&c| c < range[0] || c > range[1]) {
                out.extend([other, other]);
            }
        }
    }
    out
}

/// Every character that has a case, with the others that it stands for, ascending.
fn case_table() -> &'static [(u32, Vec<u32>)] {
    static TABLE: OnceLock<Vec<(u32, Vec<u32>)>> = OnceLock::new();
    TABLE.get_or_init(|| {
        // What a character folds to, and what folds to it, has one of these properties.
        let cased = by_name(b"Changes_When_Casemapped").into_iter().chain(by_name(b"Changes_When_Casefolded"));
        let mut characters: Vec<u32> =
            cased.flatten().collect::<Vec<u32>>().chunks_exact(2).flat_map(|r| r[0]..=r[1]).collect();
        characters.sort_unstable();
        characters.dedup();
        let entry = |c: u32| Some((c, others(char::from_u32(c)?)));
        characters.into_iter().filter_map(entry).filter(|(_, others)| !others.is_empty()).collect()
    })
}

fn others(c: char) -> Vec<u32> {
    let mut class = ClassUnicode::new([ClassUnicodeRange::new(c, c)]);
    class.case_fold_simple();
    let all = class.iter().flat_map(|r| r.start() as u32..=r.end() as u32);
    all.filter(|&other| other != c as u32).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_case_table_has_every_character_that_the_library_folds() {
        for c in '\0'..=char::MAX {
            let listed = case_table().binary_search_by_key(&(c as u32), |entry| entry.0);
            assert_eq!(listed.map_or(Vec::new(), |i| case_table()[i].1.clone()), others(c), "{c:?}");
        }
    }
}
