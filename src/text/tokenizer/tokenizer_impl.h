// tokenizer_impl.h: what a Tokenizer is made of. Internal to text.
#pragma once

#include <cstdint>
#include <memory>

#include "text/rust/tokenizer_ffi.h"
#include "text/tokenizer/tokenizer.h"
#include "text/tokenizer/tokenizer_config.h"

namespace espalier {

// Deletes a handle of the Rust library.
struct FreeTokenizer {
  void operator()(espalier_tokenizer* tokenizer) const { espalier_tokenizer_free(tokenizer); }
};

// The library's handle and the tables that are read from it once.
struct Tokenizer::Impl {
  std::unique_ptr<espalier_tokenizer, FreeTokenizer> core;
  espalier_table table{};  // points into core
  DecodeRules rules;
  SpecialTokens special;
  std::optional<TokenId> bos, eos, pad, unk;

  std::uint8_t flags(TokenId id) const {
    return id >= 0 && static_cast<std::size_t>(id) < table.tokens ? table.flags[id] : std::uint8_t{0};
  }

  struct MakeOptions {
    bool library_only = false;   // leave our own encoder out; tests compare the two
    bool literal_added = false;  // added tokens are spelled as the text that they stand for
  };
  static Result<std::shared_ptr<const Tokenizer>> make(std::string_view tokenizer_json, TokenizerConfig config,
                                                       MakeOptions options);
  static Result<std::shared_ptr<const Tokenizer>> make(std::string_view tokenizer_json, TokenizerConfig config) {
    return make(tokenizer_json, std::move(config), MakeOptions{});
  }
};

}  // namespace espalier
