// vocabulary_json.h: a vocabulary of another form, written as the tokenizer.json that says the same. Internal to text.
//
// The parts that all forms share, and one function for each kind of model. What tokenizer.json cannot say is written in
// kinds of our own, which src/text/rust reads (document.rs, model.rs).
// Threads: pure functions. Fails: bad_file naming the metadata key.
#pragma once

#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "espalier/error.h"
#include "text/vocabulary/gguf_vocabulary.h"
#include "text/vocabulary/json_text.h"

namespace espalier {

// Two tokens that join, as tokenizer.json has it.
struct Merge {
  std::string_view left, right;
};

GgufTokenType type_of(const GgufVocabulary& v, std::size_t id);
// The token's string as tokenizer.json has it. Files use empty strings for ids that stand for nothing; two of them would
// clash.
std::string name_of(const GgufVocabulary& v, std::size_t id);
std::string word_piece_name(const GgufVocabulary& v, std::size_t id);
std::string longest_match_name(const GgufVocabulary& v, std::size_t id);

// Bytes in the alphabet of byte-level vocabularies.
std::string byte_level_spelling(std::string_view bytes);

Result<std::vector<Merge>> listed_merges(const GgufVocabulary& v);
// Every way to cut a token in two tokens, ordered by the score of the whole.
std::vector<Merge> merges_by_score(const GgufVocabulary& v);

void write_merges(JsonText& json, const std::vector<Merge>& merges);
// `but`: ids that are left out.
void write_vocabulary(JsonText& json, const GgufVocabulary& v, const std::unordered_set<std::size_t>& but = {});
void write_scores(JsonText& json, const GgufVocabulary& v);
void write_unknown(JsonText& json, const GgufVocabulary& v);
// Control, unknown and user-defined tokens.
void write_added_tokens(JsonText& json, const GgufVocabulary& v);

// Which tokens stand around a text unless the file says otherwise.
struct UsualEnds {
  bool bos = false, eos = false, sep = false;
};
Result<> write_post_processor(JsonText& json, const GgufVocabulary& v, UsualEnds usual);

Result<std::string> byte_level_json(
    const GgufVocabulary& v);  // pairs of bytes, cut by the pattern of tokenizer.ggml.pre
Result<std::string> character_level_json(const GgufVocabulary& v);  // pairs of characters, spaces as word marks
Result<std::string> unigram_json(const GgufVocabulary& v);          // the most likely cut
Result<std::string> word_piece_json(const GgufVocabulary& v);       // BERT
Result<std::string> whitespace_json(const GgufVocabulary& v);       // pairs of characters within words
Result<std::string> longest_match_json(const GgufVocabulary& v);    // RWKV
Result<std::string> scored_cut_json(const GgufVocabulary& v);       // PLaMo 2

}  // namespace espalier
