//! The border to C++. Every function here is declared, with its contract, in tokenizer_ffi.h beside Cargo.toml.
//! Nothing may unwind across the border: a panic becomes an error like any other.

mod added_tokens;
mod bpe;
mod bytelevel;
mod character_class;
mod decode;
mod document;
mod library;
mod merge;
mod model;
mod native;
mod normalize;
mod pattern;
mod sentencepiece;
mod split;
mod strings;
mod trie;
mod unicode;
mod unigram;
mod vocabulary;

use decode::DecodePlan;
use document::{AddedToken, Document};
use std::cell::Cell;
use std::panic::{self, catch_unwind, AssertUnwindSafe};
use std::slice;
use std::sync::Once;
use vocabulary::Vocabulary;

enum Engine {
    Native(native::Native),
    Library(library::Library),
}

pub struct Tokenizer {
    engine: Engine,
    vocabulary: Vocabulary,
    plan: DecodePlan,
    longest: u32, // bytes of the longest token
    ends: String, // tokenizer.json's post_processor
}

impl Tokenizer {
    fn new(engine: Engine, vocabulary: Vocabulary, plan: DecodePlan, ends: String) -> Tokenizer {
        let bytes = |i| vocabulary.pieces.get(i).len().max(vocabulary.text.get(i).len());
        let longest = (0..vocabulary.len()).map(bytes).max().unwrap_or(0) as u32;
        Tokenizer { engine, vocabulary, plan, longest, ends }
    }

    /// `listed` are tokens that must be recognised in text whether or not the file lists them.
    fn parse(json: &[u8], listed: &[u8], options: ParseOptions) -> Result<Tokenizer, String> {
        let text = std::str::from_utf8(json).map_err(|e| format!("not UTF-8 at byte {}", e.valid_up_to()))?;
        let listed: Vec<AddedToken> = serde_json::from_slice(listed).map_err(|e| format!("listed tokens: {e}"))?;
        let mut document = serde_json::from_str::<Document>(text).ok();
        let missing = document.as_mut().map_or(Vec::new(), |d| d.add_missing(listed));
        let written = document.as_ref().and_then(|d| d.post_processor).map(|raw| raw.get());
        let ends = String::from(written.unwrap_or("null"));
        if let (false, Some(document)) = (options.library_only, &document) {
            if let Some(parts) = native::Native::from_document(document, options.literal_added)? {
                return Ok(Tokenizer::new(Engine::Native(parts.native), parts.vocabulary, parts.plan, ends));
            }
        }
        let library = library::Library::parse(json, missing)?;
        let (vocabulary, plan) = library.vocabulary(document.as_ref(), options.literal_added)?;
        Ok(Tokenizer::new(Engine::Library(library), vocabulary, plan, ends))
    }

    fn encode(&self, text: &[u8], how: &Encoding) -> Result<Vec<u32>, String> {
        let text =
            std::str::from_utf8(text).map_err(|e| format!("the text is not UTF-8 at byte {}", e.valid_up_to()))?;
        let mut ids = Vec::new();
        match &self.engine {
            Engine::Native(native) => native.encode(text, how, &mut ids)?,
            Engine::Library(library) => library.encode(text, how, &mut ids)?,
        }
        Ok(ids)
    }

    fn most_input_bytes(&self) -> u32 {
        match &self.engine {
            Engine::Native(native) => native.most_input_bytes(self.longest).unwrap_or(0),
            Engine::Library(_) => 0,
        }
    }

    fn min_tokens(&self, text: &[u8]) -> usize {
        match &self.engine {
            Engine::Native(native) => native.min_tokens(text, self.longest),
            Engine::Library(_) => 0,
        }
    }
}

struct ParseOptions {
    library_only: bool,
    literal_added: bool,
}

/// How a text is encoded; espalier_encoding of tokenizer_ffi.h.
#[derive(Clone)]
pub struct Encoding<'a> {
    pub add_special: bool,
    pub parse_special: bool,
    pub continues: bool,
    /// Where special strings are tokens; everywhere if None.
    pub own: Option<&'a [[usize; 2]]>,
}

#[repr(C)]
pub struct RawEncoding {
    add_special: bool,
    parse_special: bool,
    continues: bool,
    only_own: bool,
    own: *const [usize; 2],
    own_ranges: usize,
}

impl RawEncoding {
    unsafe fn encoding(&self) -> Encoding<'_> {
        let own = if self.own_ranges == 0 { &[] } else { slice::from_raw_parts(self.own, self.own_ranges) };
        Encoding {
            add_special: self.add_special,
            parse_special: self.parse_special,
            continues: self.continues,
            own: (self.only_own && self.parse_special).then_some(own),
        }
    }
}

#[repr(C)]
pub struct Slice {
    data: *const u8,
    size: usize,
}

impl Slice {
    unsafe fn bytes<'a>(&self) -> &'a [u8] {
        if self.size == 0 {
            return &[];
        }
        slice::from_raw_parts(self.data, self.size)
    }
}

/// A block that C++ gives back with espalier_buffer_free.
#[repr(C)]
pub struct Buffer {
    data: *mut u8,
    size: usize,
}

impl Buffer {
    fn new(bytes: Vec<u8>) -> Buffer {
        let bytes = bytes.into_boxed_slice();
        let size = bytes.len();
        Buffer { data: Box::into_raw(bytes).cast(), size }
    }
}

#[repr(C)]
pub struct Ids {
    data: *mut u32,
    size: usize,
}

impl Ids {
    fn new(ids: Vec<u32>) -> Ids {
        let ids = ids.into_boxed_slice();
        let size = ids.len();
        Ids { data: Box::into_raw(ids).cast(), size }
    }
}

#[repr(C)]
pub struct Table {
    tokens: usize,
    text: *const u8,
    text_ends: *const u32,
    pieces: *const u8,
    piece_ends: *const u32,
    flags: *const u8,
    decode_kind: u32,
    strip_start: u32,
    strip_stop: u32,
    first_token_drops_marks: u32,
    most_input_bytes: u32,
    is_native: u32,
}

/// The library must not write to the terminal: what panics here is reported as an error instead.
fn silence_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !GUARDED.get() {
                usual(info);
            }
        }));
    });
}

thread_local! {
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

fn guarded<T>(work: impl FnOnce() -> Result<T, String>, error: *mut Buffer) -> Option<T> {
    silence_panics();
    GUARDED.set(true);
    let outcome = catch_unwind(AssertUnwindSafe(work));
    GUARDED.set(false);
    let outcome = outcome.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
        Err(format!("the tokenizer library failed: {}", text.unwrap_or("no reason given")))
    });
    match outcome {
        Ok(value) => Some(value),
        Err(message) => {
            // SAFETY: the caller passes a place for the message (tokenizer_ffi.h).
            unsafe { error.write(Buffer::new(message.into_bytes())) };
            None
        }
    }
}

/// # Safety
/// As tokenizer_ffi.h says; this holds for all functions below.
#[no_mangle]
pub unsafe extern "C" fn espalier_tokenizer_parse(
    json: Slice,
    listed: Slice,
    options: u32,
    error: *mut Buffer,
) -> *mut Tokenizer {
    let options = ParseOptions { library_only: options & 1 != 0, literal_added: options & 2 != 0 };
    guarded(|| Tokenizer::parse(json.bytes(), listed.bytes(), options), error)
        .map_or(std::ptr::null_mut(), |t| Box::into_raw(Box::new(t)))
}

/// # Safety
/// See above.
#[no_mangle]
pub unsafe extern "C" fn espalier_tokenizer_free(tokenizer: *mut Tokenizer) {
    if !tokenizer.is_null() {
        drop(Box::from_raw(tokenizer));
    }
}

/// # Safety
/// See above.
#[no_mangle]
pub unsafe extern "C" fn espalier_tokenizer_table(tokenizer: *const Tokenizer) -> Table {
    let all = &*tokenizer;
    let vocabulary = &all.vocabulary;
    Table {
        tokens: vocabulary.len(),
        text: vocabulary.text.bytes().as_ptr(),
        text_ends: vocabulary.text.ends().as_ptr(),
        pieces: vocabulary.pieces.bytes().as_ptr(),
        piece_ends: vocabulary.pieces.ends().as_ptr(),
        flags: vocabulary.flags.as_ptr(),
        decode_kind: all.plan.kind as u32,
        strip_start: all.plan.strip_start,
        strip_stop: all.plan.strip_stop,
        first_token_drops_marks: all.plan.first_token_drops_marks as u32,
        most_input_bytes: all.most_input_bytes(),
        is_native: matches!(all.engine, Engine::Native(_)) as u32,
    }
}

/// # Safety
/// See above.
#[no_mangle]
pub unsafe extern "C" fn espalier_tokenizer_ends(tokenizer: *const Tokenizer) -> Slice {
    let ends = &(*tokenizer).ends;
    Slice { data: ends.as_ptr(), size: ends.len() }
}

/// # Safety
/// See above.
#[no_mangle]
pub unsafe extern "C" fn espalier_tokenizer_encode(
    tokenizer: *const Tokenizer,
    text: Slice,
    encoding: *const RawEncoding,
    out: *mut Ids,
    error: *mut Buffer,
) -> bool {
    let how = (*encoding).encoding();
    let Some(ids) = guarded(|| (*tokenizer).encode(text.bytes(), &how), error) else {
        return false;
    };
    out.write(Ids::new(ids));
    true
}

/// # Safety
/// See above.
#[no_mangle]
pub unsafe extern "C" fn espalier_tokenizer_min_tokens(tokenizer: *const Tokenizer, text: Slice) -> usize {
    (*tokenizer).min_tokens(text.bytes())
}

/// # Safety
/// See above.
#[no_mangle]
pub unsafe extern "C" fn espalier_tokenizer_decode(
    tokenizer: *const Tokenizer,
    ids: *const u32,
    size: usize,
    skip_special: bool,
    out: *mut Buffer,
    error: *mut Buffer,
) -> bool {
    let ids = if size == 0 { &[] } else { slice::from_raw_parts(ids, size) };
    let decode = || match &(*tokenizer).engine {
        Engine::Library(library) => library.decode(ids, skip_special),
        Engine::Native(_) => Err("a tokenizer of the common kind is decoded from its table".into()),
    };
    let Some(text) = guarded(decode, error) else { return false };
    out.write(Buffer::new(text.into_bytes()));
    true
}

/// # Safety
/// See above.
#[no_mangle]
pub unsafe extern "C" fn espalier_tokenizer_find(tokenizer: *const Tokenizer, text: Slice) -> i64 {
    let id = std::str::from_utf8(text.bytes()).ok().and_then(|text| (*tokenizer).vocabulary.find(text));
    id.map_or(-1, i64::from)
}

/// # Safety
/// See above.
#[no_mangle]
pub unsafe extern "C" fn espalier_buffer_free(buffer: Buffer) {
    if !buffer.data.is_null() {
        drop(Box::from_raw(std::ptr::slice_from_raw_parts_mut(buffer.data, buffer.size)));
    }
}

/// # Safety
/// See above.
#[no_mangle]
pub unsafe extern "C" fn espalier_ids_free(ids: Ids) {
    if !ids.data.is_null() {
        drop(Box::from_raw(std::ptr::slice_from_raw_parts_mut(ids.data, ids.size)));
    }
}

#[no_mangle]
pub extern "C" fn espalier_unicode_properties(code_point: u32) -> u32 {
    char::from_u32(code_point).map_or(0, unicode::properties)
}

/// # Safety
/// See above.
#[no_mangle]
pub unsafe extern "C" fn espalier_unicode_convert(code_point: u32, case: u32, out: *mut u32) -> u32 {
    let Some(c) = char::from_u32(code_point) else {
        out.write(code_point);
        return 1;
    };
    let (converted, n) = unicode::convert(c, case);
    for (i, c) in converted[..n].iter().enumerate() {
        out.add(i).write(*c as u32);
    }
    n as u32
}

/// # Safety
/// See above.
#[no_mangle]
pub unsafe extern "C" fn espalier_character_class(name: Slice, out: *mut Ids, error: *mut Buffer) -> bool {
    let Some(ranges) = guarded(|| character_class::by_name(name.bytes()), error) else { return false };
    out.write(Ids::new(ranges));
    true
}

/// # Safety
/// See above.
#[no_mangle]
pub unsafe extern "C" fn espalier_case_closure(
    ranges: *const u32,
    size: usize,
    out: *mut Ids,
    error: *mut Buffer,
) -> bool {
    let ranges = if size == 0 { &[] } else { slice::from_raw_parts(ranges, size) };
    let Some(closure) = guarded(|| Ok(character_class::case_closure(ranges)), error) else { return false };
    out.write(Ids::new(closure));
    true
}
