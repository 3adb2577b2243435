// tokenizer_ffi.h: the C border of the Rust library in this folder. Private to the text module; use
// text/tokenizer/tokenizer.h and text/unicode_class.h.
//
// Ownership: blocks and handles made there are given back with the matching *_free, from any thread. Pointers inside
//            espalier_table belong to the tokenizer.
// Threads:   a tokenizer never changes; any number of threads may use it.
// Fails:     a null handle or `false`, with a sentence in *error (which then must be freed; it is not written
//            otherwise).
//            Panics of the library are caught and come back this way too.
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct espalier_tokenizer;

// Bytes that somebody else owns.
struct espalier_slice {
  const uint8_t* data;
  size_t size;
};

// Bytes that the library allocated, to be freed by it.
struct espalier_buffer {
  uint8_t* data;
  size_t size;
};

// Token ids that the library allocated, to be freed by it.
struct espalier_ids {
  uint32_t* data;
  size_t size;
};

// The whole vocabulary. String i of a block reaches from ends[i - 1] (0 for the first) to ends[i].
struct espalier_table {
  size_t tokens;  // the largest id + 1
  const uint8_t* text;
  const uint32_t* text_ends;
  const uint8_t* pieces;  // the bytes that a token contributes inside running text
  const uint32_t* piece_ends;
  const uint8_t* flags;  // ESPALIER_TOKEN_*
  uint32_t decode_kind;  // 0 bytes, 1 pieces, 2 only by espalier_tokenizer_decode
  uint32_t strip_start;  // spaces taken from the start of the whole text, at most
  uint32_t strip_stop;
  uint32_t first_token_drops_marks;  // the first token's word marks disappear
  uint32_t most_input_bytes;         // that can end in one token; 0 when there is no bound
  uint32_t is_native;                // encoded by our own code, not the library's
};

enum {
  ESPALIER_TOKEN_PRESENT = 1,
  ESPALIER_TOKEN_SPECIAL = 2,
  ESPALIER_TOKEN_ADDED = 4,
  ESPALIER_TOKEN_BYTE = 8,
};

enum {
  ESPALIER_LIBRARY_ONLY = 1,  // keep our own encoder out, to compare the two
  ESPALIER_LITERAL_ADDED = 2  // the strings of added tokens are text already, whatever the decoder does
};
// `listed` is a JSON array of tokens in the form of tokenizer.json's "added_tokens"; those that the file does not list
// are added.
espalier_tokenizer* espalier_tokenizer_parse(espalier_slice json, espalier_slice listed, uint32_t options,
                                             espalier_buffer* error);
void espalier_tokenizer_free(espalier_tokenizer* tokenizer);
espalier_table espalier_tokenizer_table(const espalier_tokenizer* tokenizer);

// tokenizer.json's post_processor, which says what stands around texts; "null" without one. Lives as long as the tokenizer.
espalier_slice espalier_tokenizer_ends(const espalier_tokenizer* tokenizer);

// How a text is encoded.
struct espalier_encoding {
  bool add_special;    // the tokens around a text
  bool parse_special;  // special strings in the text are those tokens
  bool continues;      // the text goes on behind other text: no word mark is put before it
  bool only_own;       // parse_special holds inside the ranges `own` alone; elsewhere such strings are text
  const size_t* own;   // begin and end of each, in bytes, ascending, not overlapping
  size_t own_ranges;
};
bool espalier_tokenizer_encode(const espalier_tokenizer* tokenizer, espalier_slice text,
                               const espalier_encoding* encoding, espalier_ids* out, espalier_buffer* error);
// No encoding of `text` is shorter, special tokens around it left out; 0 when there is no bound.
size_t espalier_tokenizer_min_tokens(const espalier_tokenizer* tokenizer, espalier_slice text);
bool espalier_tokenizer_decode(const espalier_tokenizer* tokenizer, const uint32_t* ids, size_t size, bool skip_special,
                               espalier_buffer* out, espalier_buffer* error);
int64_t espalier_tokenizer_find(const espalier_tokenizer* tokenizer, espalier_slice text);  // -1: no such token

void espalier_buffer_free(espalier_buffer buffer);
void espalier_ids_free(espalier_ids ids);

// Facts about a Unicode character; no flags for what is none.
enum {
  ESPALIER_ALPHABETIC = 1,
  ESPALIER_NUMERIC = 2,
  ESPALIER_SPACE = 4,
  ESPALIER_UPPER = 8,
  ESPALIER_LOWER = 16,
  ESPALIER_PRINTABLE = 32,
};
uint32_t espalier_unicode_properties(uint32_t code_point);
// Writes the one to three characters that `code_point` becomes (0 lower case, 1 upper, 2 title) and returns how many.
uint32_t espalier_unicode_convert(uint32_t code_point, uint32_t to_case, uint32_t* out);

// Sets of characters as pairs of numbers, both included. A class is named as in \p{...}; its pairs are ascending.
bool espalier_character_class(espalier_slice name, espalier_ids* out, espalier_buffer* error);
// Adds all that differs by simple case folding alone. `size` numbers, two a range, in any order; so is the result.
bool espalier_case_closure(const uint32_t* ranges, size_t size, espalier_ids* out, espalier_buffer* error);

#ifdef __cplusplus
}
#endif
