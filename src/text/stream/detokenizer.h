// detokenizer.h: the text of a growing list of tokens, piece by piece.
//
// Order:   push(id)* finish()
// Every piece is whole UTF-8. While the text so far ends in U+FFFD or in an unfinished character, everything new is
//          held back, for the next token may complete it; but no more than kMostHeld tokens long, unless it is an
//          unfinished character.
// The pieces together are Tokenizer::decode() of all ids, or, behind other tokens, what decoding both adds to decoding
//          those: a decoder that takes the first blank of a text takes none in its middle. A character that the tokens
//          before left unfinished is shown whole when it is completed, and not at all when it is not.
//          One exception no streaming can avoid: a run of byte tokens of which some made a character and were shown,
//          and which then turns out not to be UTF-8 as a whole, shows U+FFFD for the broken bytes alone.
// Costs:   amortised O(1) a token (kinds `bytes` and `pieces`; `library` decodes a window of a few tokens each time).
//          Of the tokens before only the first and the last few are looked at.
// Threads: one at a time. Fails: never; ids outside the vocabulary add nothing.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer/tokenizer.h"

namespace espalier {

// Text out of tokens as they come.
class IncrementalDetokenizer {
 public:
  static constexpr int kMostHeld = 8;

  // Requires: the tokenizer outlives this object. `before`: tokens that the text follows.
  explicit IncrementalDetokenizer(const Tokenizer& tokenizer, DecodeOptions options = {},
                                  std::span<const TokenId> before = {});

  // Before the first push: nothing is taken off the ends of the text, wherever it stands. What a constraint read is
  // then what is shown.
  void keep_blanks();

  std::string push(TokenId id);
  std::string finish();  // what was held back

 private:
  bool counts(TokenId id) const;
  void begin_behind(std::span<const TokenId> before);
  std::span<const TokenId> end_that_matters(std::span<const TokenId> before) const;
  void add_bytes(std::string_view bytes);
  void add_piece(TokenId id);
  void add_run_byte(char byte);
  void end_run();
  void add_text(std::string_view text);
  std::string push_window(TokenId id);
  std::string release();

  const Tokenizer* tokenizer_;
  DecodeOptions options_;
  std::string ready_;           // whole characters, not yet handed out
  std::string unfinished_;      // bytes that begin a character
  std::size_t inherited_ = 0;   // of them, those of the tokens before
  bool run_broken_ = false;     // the current run of byte tokens cannot become UTF-8 any more
  bool first_ = true;           // no token yet
  std::size_t to_strip_ = 0;    // spaces still to be taken from the start of the text
  std::size_t strip_stop_ = 0;  // and from its end
  int held_ = 0;                // tokens since something was handed out

  std::vector<TokenId> window_;  // kind `library`: the tokens that the next one may still change the text of
  std::string window_text_;      // what window_[0, window_shown_) decodes to
  std::size_t window_shown_ = 0;
};

// What decoding `before` and `ids` adds to decoding `before`, as the pieces above give it.
std::string decoded_behind(const Tokenizer& tokenizer, std::span<const TokenId> before, std::span<const TokenId> ids,
                           DecodeOptions options = {});

}  // namespace espalier
