//! Every other kind of tokenizer, through the library `tokenizers`.

use crate::decode::{DecodeKind, DecodePlan, TokenDecoder};
use crate::document::{self, DecoderSpec, Document};
use crate::vocabulary::{Token, Vocabulary, ADDED, ID_LIMIT, SPECIAL};
use std::sync::OnceLock;
use tokenizers::{AddedToken, Decoder, Tokenizer};

pub struct Library {
    tokenizer: Tokenizer,
    /// The same with special strings taken for plain text; made when first asked for.
    plain: OnceLock<Tokenizer>,
}

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
        Ok(Library { tokenizer, plain: OnceLock::new() })
    }

    pub fn encode(&self, text: &str, add_special: bool, parse_special: bool, out: &mut Vec<u32>) -> Result<(), String> {
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
        out.extend_from_slice(encoding.get_ids());
        Ok(())
    }

    pub fn decode(&self, ids: &[u32], skip_special: bool) -> Result<String, String> {
        self.tokenizer.decode(ids, skip_special).map_err(|e| e.to_string())
    }

    pub fn vocabulary(&self, document: Option<&Document>) -> Result<(Vocabulary, DecodePlan), String> {
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
                Token { id: *id, text, decoded_from: Some(decoded), flags }
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
