#include "text/jinja/syntax/token_reader.h"

#include "text/jinja/failure.h"

namespace espalier::jinja {

Token TokenReader::take() {
  Token taken = tokens_[at_];
  if (at_ + 1 < tokens_.size()) ++at_;
  return taken;
}

bool TokenReader::skip_symbol(std::string_view symbol) {
  if (!token().is_symbol(symbol)) return false;
  take();
  return true;
}

bool TokenReader::skip_name(std::string_view name) {
  if (!token().is_name(name)) return false;
  take();
  return true;
}

void TokenReader::expect_symbol(std::string_view symbol) {
  if (!skip_symbol(symbol)) syntax_error("expected '" + std::string(symbol) + "'");
}

std::string TokenReader::expect_name(std::string_view what) {
  if (token().type != TokenType::name) syntax_error("expected " + std::string(what));
  return take().text;
}

void TokenReader::syntax_error(const std::string& message) const {
  throw Failure{Failure::Kind::syntax, message, token().line};
}

void TokenReader::unexpected() const {
  switch (token().type) {
    case TokenType::end:
      syntax_error("unexpected end of the template");
    case TokenType::variable_end:
      syntax_error("unexpected '}}'");
    case TokenType::block_end:
      syntax_error("unexpected '%}'");
    default:
      syntax_error("unexpected '" + token().text.substr(0, 40) + "'");
  }
}

}  // namespace espalier::jinja
