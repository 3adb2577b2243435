//! All tokens by id: their strings, what they decode to, and what kind they are.

use crate::decode::TokenDecoder;
use crate::strings::{Index, StringTable};

pub const PRESENT: u8 = 1; // the id stands for a token
pub const SPECIAL: u8 = 2; // left out of text when special tokens are skipped
pub const ADDED: u8 = 4; // recognised in text before the model sees it
pub const BYTE: u8 = 8; // stands for one byte that need not be a character

/// Ids at or above this are refused: tables are as long as the largest id, and a file must not choose our memory.
pub const ID_LIMIT: u32 = 1 << 22;

pub struct Vocabulary {
    pub text: StringTable,
    pub pieces: StringTable,
    pub flags: Vec<u8>,
    index: Index,
}

/// A token as the builders hand it over: its string, and the string that decoding starts from where that differs.
pub struct Token<'a> {
    pub id: u32,
    pub text: &'a str,
    pub decoded_from: Option<&'a str>,
    /// The string is text already: the decoder leaves it alone.
    pub literal: bool,
    pub flags: u8,
}

impl Vocabulary {
    /// Later tokens with the id of an earlier one replace it.
    pub fn new(tokens: &[Token], decoder: &TokenDecoder) -> Result<Self, String> {
        Self::build(tokens, |text| decoder.piece(text))
    }

    pub fn build(tokens: &[Token], piece: impl Fn(&str) -> (Vec<u8>, bool)) -> Result<Self, String> {
        let size = tokens.iter().map(|t| t.id as usize + 1).max().unwrap_or(0);
        if size > ID_LIMIT as usize {
            return Err(format!("token id {} is beyond the limit of {}", size - 1, ID_LIMIT - 1));
        }
        let mut of_id: Vec<Option<&Token>> = vec![None; size];
        for token in tokens {
            of_id[token.id as usize] = Some(token);
        }
        let mut all = Vocabulary {
            text: StringTable::default(),
            pieces: StringTable::default(),
            flags: Vec::new(),
            index: Index::with_capacity(size),
        };
        for (id, token) in of_id.iter().enumerate() {
            let Some(token) = token else {
                all.text.push(b"");
                all.pieces.push(b"");
                all.flags.push(0);
                continue;
            };
            let (bytes, is_byte) = match token.literal {
                true => (token.text.as_bytes().to_vec(), false),
                false => piece(token.decoded_from.unwrap_or(token.text)),
            };
            all.text.push(token.text.as_bytes());
            all.pieces.push(&bytes);
            all.flags.push(PRESENT | token.flags | if is_byte { BYTE } else { 0 });
            all.index.insert(id as u32, &all.text);
        }
        Ok(all)
    }

    pub fn find(&self, text: &str) -> Option<u32> {
        self.index.get(text.as_bytes(), &self.text).filter(|&id| self.flags[id as usize] & PRESENT != 0)
    }

    pub fn len(&self) -> usize {
        self.flags.len()
    }
}
