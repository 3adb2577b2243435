//! How ids become text: what each token contributes, and the few rules that look beyond a single token.

use crate::bytelevel;
use crate::document::{DecoderSpec, PatternSpec, PrependScheme};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum DecodeKind {
    /// Tokens are bytes; the whole is made valid UTF-8 by replacing each broken part with U+FFFD.
    Bytes = 0,
    /// Tokens are text, except byte tokens: a run of those is text if the run is valid UTF-8, else U+FFFD for each byte.
    Pieces = 1,
    /// Anything else: only the library knows.
    Library = 2,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DecodePlan {
    pub kind: DecodeKind,
    pub byte_tokens: bool,
    /// Spaces taken from the start and the end of the whole text, at most so many.
    pub strip_start: u32,
    pub strip_stop: u32,
    /// The first token loses its word marks instead of showing them as spaces.
    pub first_token_drops_marks: bool,
}

/// A plan together with what it does to a single token.
pub struct TokenDecoder {
    pub plan: DecodePlan,
    replacements: Vec<(String, String)>,
}

impl TokenDecoder {
    pub fn library() -> Self {
        Self::of(DecodeKind::Library)
    }

    fn of(kind: DecodeKind) -> Self {
        let plan =
            DecodePlan { kind, byte_tokens: false, strip_start: 0, strip_stop: 0, first_token_drops_marks: false };
        TokenDecoder { plan, replacements: Vec::new() }
    }

    /// None when the decoder does something that is not described by a DecodePlan.
    pub fn from_spec(spec: &DecoderSpec) -> Option<Self> {
        let steps = match spec {
            DecoderSpec::Sequence { decoders } => decoders.iter().collect(),
            single => vec![single],
        };
        if matches!(steps[..], [DecoderSpec::ByteLevel {}]) {
            return Some(Self::of(DecodeKind::Bytes));
        }
        let mut decoder = Self::of(DecodeKind::Pieces);
        let mut fused = false;
        for step in &steps {
            decoder.add_step(step, &mut fused, steps.len() == 1)?;
        }
        Some(decoder)
    }

    fn add_step(&mut self, step: &DecoderSpec, fused: &mut bool, alone: bool) -> Option<()> {
        let plan = &mut self.plan;
        match step {
            // The order replace, bytes, fuse, strip is the only one in which each rule can be applied on its own.
            DecoderSpec::Replace { pattern: PatternSpec::String(from), content }
                if !from.is_empty() && !plan.byte_tokens && !*fused =>
            {
                self.replacements.push((from.clone(), content.clone()));
            }
            DecoderSpec::ByteFallback {} if !plan.byte_tokens && !*fused => plan.byte_tokens = true,
            DecoderSpec::Fuse {} => *fused = true,
            DecoderSpec::Strip { content: ' ', start, stop }
                if *fused && plan.strip_start == 0 && plan.strip_stop == 0 =>
            {
                plan.strip_start = *start;
                plan.strip_stop = *stop;
            }
            DecoderSpec::Metaspace { replacement: '▁', prepend_scheme, add_prefix_space: None } if alone => {
                plan.first_token_drops_marks = *prepend_scheme != Some(PrependScheme::Never);
                self.replacements.push(("▁".into(), " ".into()));
            }
            _ => return None,
        }
        Some(())
    }

    /// The bytes that `token` contributes inside running text, and whether it is a byte token.
    pub fn piece(&self, token: &str) -> (Vec<u8>, bool) {
        if self.plan.kind == DecodeKind::Bytes {
            return (bytelevel::bytes_of(token).unwrap_or_else(|| token.as_bytes().to_vec()), false);
        }
        let mut text = token.to_owned();
        for (from, to) in &self.replacements {
            text = text.replace(from, to);
        }
        if self.plan.byte_tokens {
            if let Some(byte) = byte_token(&text) {
                return (vec![byte], true);
            }
        }
        (text.into_bytes(), false)
    }
}

/// The byte of a token written `<0x41>`.
pub fn byte_token(token: &str) -> Option<u8> {
    let inner = token.strip_prefix("<0x")?.strip_suffix('>')?;
    if inner.len() != 2 || !inner.is_char_boundary(2) {
        return None;
    }
    u8::from_str_radix(inner, 16).ok()
}
