// lexer.h: a template's source as tokens, white space already handled as Hugging Face asks for: trim_blocks and
// lstrip_blocks are on, one newline at the end of the source is dropped.
// Threads: pure function. Fails: throws Failure of kind syntax with the line.
// Source:  the documentation of Jinja 3.1, and its behaviour where that is silent (lexer_test in jinja_test.cpp).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace espalier::jinja {

// The kinds of token: data, delimiters, names, literals, symbols.
enum class TokenType {
  data,
  variable_begin,
  variable_end,
  block_begin,
  block_end,
  name,
  string,
  integer,
  big_integer,
  real,
  symbol,
  end
};

// A token with its line and what it says.
struct Token {
  TokenType type = TokenType::end;
  int line = 0;
  std::string text{};  // data and strings: the text; symbols: as written; numbers: digits
  std::int64_t integer = 0;
  double real = 0;

  bool is_symbol(std::string_view s) const { return type == TokenType::symbol && text == s; }
  bool is_name(std::string_view s) const { return type == TokenType::name && text == s; }
};

std::vector<Token> tokenize(std::string_view source);

}  // namespace espalier::jinja
