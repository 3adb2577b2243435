//! Facts about characters that the standard library of Rust knows and that of C++ does not.

/// Whether Python's repr() would show `c` as it is: assigned, and no control, format or separator character.
pub fn is_printable(c: char) -> bool {
    if c.is_ascii() {
        return matches!(c, ' '..='~');
    }
    // Within a string, escape_debug leaves combining marks alone and escapes just the unprintable.
    let mut text = String::with_capacity(5);
    text.push('a');
    text.push(c);
    text.escape_debug().nth(1) == Some(c)
}

/// The characters that `c` becomes; `case` is 0 for lower, 1 for upper, 2 for title.
pub fn convert(c: char, case: u32) -> ([char; 3], usize) {
    let mut out = ['\0'; 3];
    let mut n = 0;
    let mut fill = |chars: &mut dyn Iterator<Item = char>| {
        for c in chars.take(3) {
            out[n] = c;
            n += 1;
        }
    };
    match case {
        0 => fill(&mut c.to_lowercase()),
        1 => fill(&mut c.to_uppercase()),
        _ => match title(c) {
            Some(single) => fill(&mut std::iter::once(single)),
            // The title form of a character with a long upper form is its first letter followed by small ones.
            None => {
                let mut upper = c.to_uppercase();
                fill(&mut upper.by_ref().take(1));
                fill(&mut upper.flat_map(char::to_lowercase));
            }
        },
    }
    (out, n)
}

/// Characters whose title form is a character of its own.
fn title(c: char) -> Option<char> {
    match c as u32 {
        0x01C4..=0x01CC => char::from_u32(0x01C5 + (c as u32 - 0x01C4) / 3 * 3),
        0x01F1..=0x01F3 => Some('\u{01F2}'),
        0x10D0..=0x10FA | 0x10FD..=0x10FF => Some(c), // Georgian has no title case
        // Greek vowels with a written-below iota: the capital with the iota beside it is one character.
        0x1F80..=0x1FAF => char::from_u32(c as u32 | 8),
        0x1FB3 | 0x1FC3 | 0x1FF3 => char::from_u32(c as u32 + 9),
        0x1FBC | 0x1FCC | 0x1FFC => Some(c),
        _ => None,
    }
}

pub const ALPHABETIC: u32 = 1;
pub const NUMERIC: u32 = 2;
pub const SPACE: u32 = 4;
pub const UPPER: u32 = 8;
pub const LOWER: u32 = 16;
pub const PRINTABLE: u32 = 32;

pub fn properties(c: char) -> u32 {
    use unicode_categories::UnicodeCategories;
    // Python counts letters only, not every alphabetic mark, and four separators that Unicode does not call space.
    let space = c.is_whitespace() || matches!(c, '\u{1c}'..='\u{1f}');
    let flags = [
        (c.is_letter(), ALPHABETIC),
        (c.is_numeric(), NUMERIC),
        (space, SPACE),
        (c.is_uppercase(), UPPER),
        (c.is_lowercase(), LOWER),
        (is_printable(c), PRINTABLE),
    ];
    flags.iter().filter(|(holds, _)| *holds).map(|(_, bit)| bit).sum()
}
