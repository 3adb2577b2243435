// tokenizer.h: text to token ids and back, as the model's makers do it.
//
// Opened from a Hugging Face folder (tokenizer.json), from the bytes of such a file, or from the vocabulary of a GGUF
// file; all three become the same object and give the ids that the library `tokenizers` gives.
// Units:   lengths in bytes of UTF-8, counts in tokens.
// Threads: immutable after opening; any number of threads may use one.
// Fails:   opening: not_found or bad_file naming file and field; a folder is data from strangers and is never trusted.
//          encode(): bad_request for text that is not UTF-8. Decoding never fails: ids outside the vocabulary add
//          nothing.
// Costs:   encoding is linear in the text (src/text/tokenizer/tokenizer_bench.cpp); a file of the common kind (byte pair
// encoding)
//          is encoded by our own code, everything else by the library.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json/json.h"
#include "espalier/error.h"
#include "espalier/types.h"

namespace espalier {

struct GgufVocabulary;

// Bytes begin to end of a text.
struct TextRange {
  std::size_t begin = 0, end = 0;
  bool operator==(const TextRange&) const = default;
};

// What becomes of a text beside its own tokens.
struct EncodeOptions {
  bool add_special = true;    // put the model's begin and end tokens around the text, if it wants any
  bool parse_special = true;  // "<|im_end|>" in the text is that token; false: such strings are plain text
  bool continues = false;     // the text goes on behind other text: no blank is put before it, as some tokenizers do
  // Set: parse_special holds only for strings that stand as a whole inside one of these ranges, which are ascending
  // and do not overlap. What lies outside, or in part, never becomes a special token.
  std::optional<std::span<const TextRange>> own = std::nullopt;
};

// What of the tokens becomes text.
struct DecodeOptions {
  bool skip_special = false;                                    // leave special tokens out
  std::shared_ptr<const std::vector<TokenId>> shown = nullptr;  // but for these
};

// How tokens become text (a summary of tokenizer.json's decoder that needs no more than a look at each token).
struct DecodeRules {
  enum class Kind {
    bytes,    // tokens are bytes; broken UTF-8 becomes U+FFFD
    pieces,   // tokens are text, but for byte tokens: a run of them is text if it is valid UTF-8, else U+FFFD for each
    library,  // something else; only decode() knows
  } kind = Kind::bytes;
  std::size_t strip_start = 0, strip_stop = 0;  // spaces taken from the ends of the whole text, at most
  bool first_token_drops_marks = false;         // word marks of the first token vanish instead of becoming spaces
};

// Names as tokenizer_config.json has them ("bos_token", ...), with the tokens' text: what chat templates may use.
using SpecialTokens = std::vector<std::pair<std::string, std::string>>;

// Two texts as one, for models that read pairs.
struct EncodedPair {
  std::vector<TokenId> ids;
  int second_part = -1;                      // from there on tokens count as the second text's; -1: none does
  std::size_t second_begin = 0, second = 0;  // where the second text's own tokens stand
};

// Text to token ids and back.
class Tokenizer {
 public:
  // tokenizer.json or another form (text/tokenizer/tokenizer_files.h), with what tokenizer_config.json, special_tokens_map.json
  // and added_tokens.json say about special and added tokens.
  static Result<std::shared_ptr<const Tokenizer>> open_hf(const std::filesystem::path& folder);

  // `config` is the object of tokenizer_config.json, or null.
  static Result<std::shared_ptr<const Tokenizer>> from_json(std::string_view tokenizer_json,
                                                            const Json& config = nullptr);

  // Refuses what it cannot encode exactly (an unknown pre-tokenizer or model name) with a sentence that names it.
  static Result<std::shared_ptr<const Tokenizer>> from_gguf(const GgufVocabulary& vocabulary);

  ~Tokenizer();

  Result<std::vector<TokenId>> encode(std::string_view text, EncodeOptions options = {}) const;

  // Both texts with what stands around and between them. parse_special and own are of both.
  Result<EncodedPair> encode_pair(std::string_view first, std::string_view second, EncodeOptions options = {}) const;

  // The same text as the library's: the ends of the text may lose a space, and bytes that make no character are U+FFFD.
  std::string decode(std::span<const TokenId> ids, const DecodeOptions& options = {}) const;

  // Bounds from the length alone, so that a prompt can be refused before it is encoded. No text of `bytes` bytes has
  // fewer tokens than min_tokens (0 when the vocabulary gives no such bound), special tokens around it left out.
  std::size_t min_tokens(std::size_t bytes) const;
  // The same from a look at every byte (about 1 GB/s), which also bounds texts of vocabularies that lack some bytes.
  std::size_t min_tokens(std::string_view text) const;
  // An estimate from above: exact bound for byte-level vocabularies; others may pass it where normalisation expands
  // text.
  std::size_t max_tokens_estimate(std::size_t bytes) const;

  TokenId size() const;  // the largest id + 1; not every id below need be a token
  bool contains(TokenId id) const;
  std::string_view token_text(TokenId id) const;  // as the vocabulary writes it ("Ġthe", "▁the"); empty if none
  // What the token adds inside running text, as bytes that need not be whole characters; empty if none. Byte-level
  // spelling, byte tokens <0xNN> and word marks are resolved.
  std::string_view token_bytes(TokenId id) const;
  bool is_special(TokenId id) const;
  bool is_left_out(TokenId id, const DecodeOptions& options) const {
    if (!options.skip_special || !is_special(id)) return false;
    return options.shown == nullptr || std::ranges::find(*options.shown, id) == options.shown->end();
  }
  bool is_byte(TokenId id) const;  // a byte token <0xNN>
  std::optional<TokenId> find(std::string_view token_text) const;

  std::optional<TokenId> bos() const;
  std::optional<TokenId> eos() const;
  std::optional<TokenId> pad() const;
  std::optional<TokenId> unk() const;
  const SpecialTokens& special_tokens() const;
  const DecodeRules& decode_rules() const;

  struct Impl;  // for the module's own files
  explicit Tokenizer(std::unique_ptr<Impl> impl);

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace espalier
