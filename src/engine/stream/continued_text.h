// continued_text.h: the tokens of a text that grows by literals and by what a model generated.
//
// What was generated stays as the tokens that came; literals that follow each other are encoded as one. So token
// boundaries stand only behind what was generated, and where settle() is told that what follows changes none before.
// Where a stop string cut a token in two, what is left of it becomes part of the literal that follows.
// Units:   bytes of text, tokens. Copies share what was settled before share().
// Threads: one at a time. Fails: never by itself; the caller encodes, and says how that failed.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer/tokenizer.h"

namespace espalier {

// A text as token ids, up to the last boundary, and the literal behind it that is not encoded yet.
class ContinuedText {
 public:
  void add_literal(std::string_view text) { pending_ += text; }
  // How generated tokens became text.
  struct Shown {
    bool skip_special = true;
    bool constrained = false;  // then with all blanks (engine/text_stream.h)
    bool cut = false;          // a stop string ended it, and its text is not in the text
  };
  // `ids` gave `text`; the end token is not among them.
  void add_generated(const Tokenizer& tokenizer, std::span<const TokenId> ids, std::string_view text, Shown shown);

  // What is still to be encoded, and how; then settle() takes its tokens.
  const std::string& pending() const { return pending_; }
  EncodeOptions encode_options() const { return {.add_special = size() == 0, .continues = bytes_ > 0}; }
  void settle(std::span<const TokenId> ids) { settle(ids, pending_.size()); }
  void settle(std::span<const TokenId> ids, std::size_t bytes);  // of the first so many of them

  std::size_t size() const { return shared_->size() + own_.size(); }  // tokens, without what is pending
  std::size_t bytes() const { return bytes_ + pending_.size(); }
  std::vector<TokenId> tokens() const;
  void share();  // before it is copied
  // Forgets what lies behind the last boundary at or before this byte; bytes() tells where that is.
  void rewind(std::size_t bytes);

 private:
  struct Boundary {
    std::size_t bytes, tokens;
  };
  void append(std::span<const TokenId> ids, std::size_t bytes);

  std::shared_ptr<const std::vector<TokenId>> shared_ = std::make_shared<const std::vector<TokenId>>();
  std::vector<TokenId> own_;  // behind the shared ones
  std::vector<Boundary> boundaries_;
  std::size_t bytes_ = 0;  // of the settled tokens' text
  std::string pending_;
};

}  // namespace espalier
