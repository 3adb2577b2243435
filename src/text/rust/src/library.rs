//! Every other kind of tokenizer, through the library `tokenizers`.

use crate::added_tokens::{AddedTokens, Part};
use crate::decode::{DecodeKind, DecodePlan, TokenDecoder};
use crate::document::{self, DecoderSpec, Document};
use crate::normalize::Normalizer;
use crate::vocabulary::{Token, Vocabulary, ADDED, ID_LIMIT, SPECIAL};
use crate::Encoding;
use std::sync::OnceLock;
use tokenizers::{AddedToken, Decoder, Tokenizer};

pub struct Library {
    tokenizer: Tokenizer,
    /// The same with special strings taken for plain text; made when first asked for.
    plain: OnceLock<Tokenizer>,
    /// To find special tokens in some parts of a text alone; made when first asked for.
    added: OnceLock<Result<AddedTokens, String>>,
}

/// What a text that goes on behind other text is encoded behind: tokenizers put no word mark after a line's end.
const BEFORE: &str = "\n";

impl Library {
    pub fn parse(json: &[u8], missing: Vec<document::AddedToken>) -> Result<Library, String> {
        let mut tokenizer = Tokenizer::from_bytes(json).map_err(|e| e.to_string())?;
        tokenizer.with_padding(None);
        tokenizer.with_truncation(None).map_err(|e| e.to_string())?;
        let added = missing.into_iter().map(|t| AddedToken {
            content: t.content,
            single_word: t.single_word,
            lstrip: t.lstrip,
            rstrip: t.rstrip,
            normalized: t.normalized,
            special: t.special,
        });
        tokenizer.add_tokens(added.collect::<Vec<_>>()).map_err(|e| e.to_string())?;
        Ok(Library { tokenizer, plain: OnceLock::new(), added: OnceLock::new() })
    }

    pub fn encode(&self, text: &str, how: &Encoding, out: &mut Vec<u32>) -> Result<(), String> {
        let Some(own) = how.own else {
            let ids = match how.continues && !text.is_empty() {
                true => self.encode_behind(text, how.parse_special)?,
                false => self.encode_plain(text, how.add_special, how.parse_special)?,
            };
            out.extend(ids);
            return Ok(());
        };
        let (before, after) = if how.add_special { self.around()? } else { Default::default() };
        out.extend(before);
        self.added()?.split_own(text, own, |found| {
            match found {
                Part::Token(id) => out.push(id),
                Part::Text(0, end) if how.continues => out.extend(self.encode_behind(&text[..end], false)?),
                Part::Text(start, end) => out.extend(self.encode_plain(&text[start..end], false, false)?),
            }
            Ok(())
        })?;
        out.extend(after);
        Ok(())
    }

    /// As behind other text, where the ids of both together tell which are the text's; else as by itself.
    fn encode_behind(&self, text: &str, parse_special: bool) -> Result<Vec<u32>, String> {
        let before = self.encode_plain(BEFORE, false, parse_special)?;
        let both = self.encode_plain(&format!("{BEFORE}{text}"), false, parse_special)?;
        match both.strip_prefix(before.as_slice()) {
            Some(ids) if !before.is_empty() => Ok(ids.to_vec()),
            _ => self.encode_plain(text, false, parse_special),
        }
    }

    /// The ids put around a text.
    fn around(&self) -> Result<(Vec<u32>, Vec<u32>), String> {
        let alone = self.encode_plain("a", false, true)?;
        let whole = self.encode_plain("a", true, true)?;
        let at = (0..=whole.len().saturating_sub(alone.len())).find(|&i| whole[i..].starts_with(&alone)).unwrap_or(0);
        Ok((whole[..at].to_vec(), whole[(at + alone.len()).min(whole.len())..].to_vec()))
    }

    fn added(&self) -> Result<&AddedTokens, String> {
        let made = self.added.get_or_init(|| {
            let mut known: Vec<_> = self.tokenizer.get_added_tokens_decoder().into_iter().collect();
            known.sort_by_key(|(id, _)| *id);
            let listed = known.into_iter().map(|(_, t)| document::AddedToken {
                id: None,
                content: t.content,
                single_word: t.single_word,
                lstrip: t.lstrip,
                rstrip: t.rstrip,
                normalized: false,
                special: t.special,
            });
            AddedTokens::new(
                listed.collect(),
                false,
                |text| self.tokenizer.token_to_id(text),
                0,
                &Normalizer::default(),
            )
        });
        made.as_ref().map_err(String::clone)
    }

    fn encode_plain(&self, text: &str, add_special: bool, parse_special: bool) -> Result<Vec<u32>, String> {
        let tokenizer = if parse_special {
            &self.tokenizer
        } else {
            self.plain.get_or_init(|| {
                let mut copy = self.tokenizer.clone();
                copy.set_encode_special_tokens(true);
                copy
            })
        };
        let encoding = tokenizer.encode_fast(text, add_special).map_err(|e| e.to_string())?;
        Ok(encoding.get_ids().to_vec())
    }

    pub fn decode(&self, ids: &[u32], skip_special: bool) -> Result<String, String> {
        self.tokenizer.decode(ids, skip_special).map_err(|e| e.to_string())
    }

    pub fn vocabulary(
        &self,
        document: Option<&Document>,
        literal_added: bool,
    ) -> Result<(Vocabulary, DecodePlan), String> {
        let texts = self.tokenizer.get_vocab(true);
        let added = self.tokenizer.get_added_vocabulary();
        let decoded: Vec<(&String, u32, String)> =
            texts.iter().map(|(text, &id)| (text, id, self.tokenizer.id_to_token(id).unwrap_or_default())).collect();
        if let Some((text, id, _)) = decoded.iter().find(|(_, id, _)| *id >= ID_LIMIT) {
            return Err(format!("token {text:?} has id {id}, beyond the limit of {}", ID_LIMIT - 1));
        }
        let tokens: Vec<Token> = decoded
            .iter()
            .map(|(text, id, decoded)| {
                let is_added = added.get_added_tokens_decoder().contains_key(id);
                let flags =
                    if is_added { ADDED } else { 0 } | if added.is_special_token(decoded) { SPECIAL } else { 0 };
                Token { id: *id, text, decoded_from: Some(decoded), literal: literal_added && is_added, flags }
            })
            .collect();
        let decoder = self.token_decoder(document);
        let vocabulary = match decoder.plan.kind {
            DecodeKind::Library => Vocabulary::build(&tokens, |token| (self.piece(token), false)),
            _ => Vocabulary::new(&tokens, &decoder),
        }?;
        Ok((vocabulary, decoder.plan))
    }

    fn token_decoder(&self, document: Option<&Document>) -> TokenDecoder {
        let spec = document.and_then(|d| d.decoder).and_then(|raw| serde_json::from_str::<DecoderSpec>(raw.get()).ok());
        spec.as_ref().and_then(TokenDecoder::from_spec).unwrap_or_else(TokenDecoder::library)
    }

    /// What `token` adds to the text when it follows another one.
    fn piece(&self, token: &str) -> Vec<u8> {
        let Some(decoder) = self.tokenizer.get_decoder() else { return format!(" {token}").into_bytes() };
        match decoder.decode(vec!["a".into(), token.into()]) {
            Ok(text) => text.strip_prefix('a').unwrap_or(&text).as_bytes().to_vec(),
            Err(_) => token.as_bytes().to_vec(),
        }
    }
}
