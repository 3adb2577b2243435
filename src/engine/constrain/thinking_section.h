// thinking_section.h: where an output stands in its thinking, told by the texts of its tokens.
//
// The same marks as those that divide the reply (text/answer/answer_parser.h), found in the same bytes however the model
// cuts them into tokens. Behind blanks an output may begin with a mark of thinking; until that is known it is unsure.
// Thinking that has had its budget is closed: the tokens of its end come next, whatever the model would choose.
// Units:   tokens; bytes of their texts. Threads: one at a time. Fails: never.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "espalier/request.h"
#include "text/tokenizer/tokenizer.h"

namespace espalier {

// Follows one output through its thinking.
class ThinkingSection {
 public:
  ThinkingSection() = default;  // there is none
  // Both outlive it.
  ThinkingSection(const Thinking& thinking, const Tokenizer& tokenizer);

  enum class At { unsure, inside, over };
  At at() const { return at_; }
  explicit operator bool() const { return at_ != At::over; }
  bool left() const { return left_; }      // for a call of a tool: no constraint will follow
  bool opened() const { return opened_; }  // over with a token that the constraint reads

  void read(TokenId token);  // has come
  // Unsure: the token with which a mark of thinking goes on; -1: none.
  TokenId next_of_mark() const;
  // What must come now.
  std::span<const TokenId> forced() const { return forced_; }

 private:
  void read_start(std::string_view text, TokenId token);
  void read_inside(std::string_view text, TokenId token);
  void enter();
  void count();

  const Thinking* thinking_ = nullptr;
  const Tokenizer* tokenizer_ = nullptr;
  At at_ = At::over;
  std::string text_;           // unsure: all of it; inside: as much of its end as may belong to a mark
  std::size_t longest_ = 0;    // mark that is looked for inside, bytes
  std::size_t mark_read_ = 0;  // tokens of the mark of beginning that came, and nothing else
  bool only_mark_ = true;
  bool left_ = false, opened_ = false;
  bool counts_ = false;  // the budget
  int tokens_ = 0;       // of thinking
  std::span<const TokenId> forced_;
};

}  // namespace espalier
