//! The alphabet of byte-level vocabularies: each byte is written as one printable character (GPT-2's table).

use std::sync::LazyLock;

static CHAR_OF_BYTE: LazyLock<[char; 256]> = LazyLock::new(|| {
    let mut table = ['\0'; 256];
    let mut next = 256;
    for byte in 0..=255u8 {
        let printable = matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
        table[byte as usize] = if printable {
            byte as char
        } else {
            next += 1;
            char::from_u32(next - 1).unwrap()
        };
    }
    table
});

static BYTE_OF_CHAR: LazyLock<[Option<u8>; 324]> = LazyLock::new(|| {
    let mut table = [None; 324];
    for (byte, &c) in CHAR_OF_BYTE.iter().enumerate() {
        table[c as usize] = Some(byte as u8);
    }
    table
});

pub fn char_of(byte: u8) -> char {
    CHAR_OF_BYTE[byte as usize]
}

/// The bytes that a token of a byte-level vocabulary stands for; None when it has a character outside the alphabet.
pub fn bytes_of(token: &str) -> Option<Vec<u8>> {
    token.chars().map(|c| BYTE_OF_CHAR.get(c as usize).copied().flatten()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_its_own_character() {
        let text: String = (0..=255u8).map(char_of).collect();
        assert_eq!(bytes_of(&text).unwrap(), (0..=255u8).collect::<Vec<_>>());
        assert_eq!(char_of(b' '), 'Ġ');
        assert_eq!(bytes_of("▁"), None);
    }
}
