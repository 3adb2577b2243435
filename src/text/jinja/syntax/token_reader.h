// token_reader.h: the tokens of a template, one after the other. Internal to the parser.
//
// Fails: throws Failure with the token's line.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/syntax/lexer.h"

namespace espalier::jinja {

// Where a parser is in its tokens, the last of which is the end.
class TokenReader {
 public:
  explicit TokenReader(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& token() const { return tokens_[at_]; }
  const Token& look() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }  // the one behind it
  Token take();
  bool skip_symbol(std::string_view symbol);
  bool skip_name(std::string_view name);
  void expect_symbol(std::string_view symbol);
  std::string expect_name(std::string_view what);
  [[noreturn]] void syntax_error(const std::string& message) const;
  [[noreturn]] void unexpected() const;

 private:
  std::vector<Token> tokens_;
  std::size_t at_ = 0;
};

}  // namespace espalier::jinja
