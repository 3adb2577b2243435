// lark.cpp: parse_lark() of rule_text.h: the part of Lark that says which texts are meant, with llguidance's liberties.
//
//   rule: a b | c   TERMINAL: ...    one definition a line; a line that begins with | goes on with the one before, and
//                                    so does everything inside an open bracket
//   "..." "..."i "a".."z" /.../imsxu  literals, ranges, regular expressions
//   * + ? ~n ~n..m {m,n} (...) [...]  quantifiers, groups, optional parts
//   %import common.INT -> NUMBER     and %import common (INT, WS): the library's terminals
//   ?rule !rule rule.2 -> alias      accepted: they shape trees and break ties, which changes no language
//   // and # comments, %llguidance {}
//
// There is no lexer: the text is recognised character by character and a terminal is an expression like any other. A
// longest-match rule, priorities of terminals or keywords that are no names do not exist: `A: /a+/`, `start: A A`
// accepts "aa". That is why %ignore is refused: where white space may stand has to be said by the rules. Likewise
// unsupported: templates, options of rules ([lazy], [max_tokens=...]), special tokens, %json, & and ~ of terminals.
// Source: Lark's lark.lark and its documentation, llguidance's docs/syntax.md.
#include <fmt/format.h>

#include "base/json/json.h"  // in_quotes
#include "grammar/rules/lark_terminals.h"
#include "text/utf8.h"

namespace espalier::grammar {
namespace {

class LarkParser {
 public:
  LarkParser(std::string_view text, const RuleTextLimits& limits)
      : cursor_(text, RuleDialect::lark), builder_(cursor_, limits), body_(builder_, cursor_) {}
  LarkParser(const LarkParser&) = delete;  // its parts refer to each other
  LarkParser& operator=(const LarkParser&) = delete;

  Result<RuleText> parse();

 private:
  Result<> directive();
  Result<> import();
  Result<> import_list();
  Result<> import_one(std::string_view name, std::size_t name_at, std::string_view alias, std::size_t alias_at);
  Result<std::string_view> expect_name();

  Result<> definition();
  Result<> priority();
  Result<> expression();
  bool at_line_end() const;
  bool goes_on_in_next_line();

  Result<> element();
  Result<> operand();
  Result<> literal();
  Result<> range(const std::string& first, std::size_t where);
  Result<> regex();
  Result<> reference();
  Result<> quantifier();
  Result<> braces();
  Result<> alias();

  RuleCursor cursor_;
  RuleBuilder builder_;
  RuleBody body_;
};

Result<RuleText> LarkParser::parse() {
  ESP_CHECK(cursor_.check_text(builder_.limits()));
  for (;;) {
    cursor_.skip_blanks(true);
    if (cursor_.at_end()) break;
    const std::size_t where = cursor_.offset();
    ESP_CHECK(cursor_.peek() == '%' ? directive() : definition());
    ESP_CHECK(builder_.within_limits(where));
  }
  return builder_.finish("start");
}

bool LarkParser::at_line_end() const {
  return cursor_.at_end() || cursor_.peek() == '\n' || cursor_.peek() == '\r';
}

Result<std::string_view> LarkParser::expect_name() {
  cursor_.skip_blanks(false);
  const std::string_view name = cursor_.take_name();
  if (name.empty()) return cursor_.invalid(cursor_.offset(), "a name is expected here");
  return name;
}

// --- Directives

Result<> LarkParser::directive() {
  const std::size_t where = cursor_.offset();
  cursor_.take("%");
  const std::string_view word = cursor_.take_name();
  if (word == "import") {
    ESP_CHECK(import());
    cursor_.skip_blanks(false);
    return at_line_end() ? success() : cursor_.unexpected();
  }
  if (word == "ignore")
    return cursor_.unsupported(where,
                               "%ignore is not supported: write what may be ignored into the rules, where it may stand "
                               "(for instance: pair: KEY WS? \":\" WS? value)");
  cursor_.skip_blanks(false);
  if (word == "llguidance" && cursor_.take("{}")) return success();  // people put it first to say whose Lark it is
  return cursor_.unsupported(where, fmt::format("%{} is not supported", word));
}

Result<> LarkParser::import() {
  cursor_.skip_blanks(false);
  const std::size_t where = cursor_.offset();
  const std::string_view library = cursor_.take_name();
  if (library != "common")
    return cursor_.unsupported(where, "only the terminals of the library `common` can be imported");
  if (!cursor_.take(".")) return import_list();
  const std::size_t name_at = cursor_.offset();
  ESP_TRY(const std::string_view name, expect_name());
  cursor_.skip_blanks(false);
  if (!cursor_.take("->")) return import_one(name, name_at, name, name_at);
  cursor_.skip_blanks(false);
  const std::size_t alias_at = cursor_.offset();
  ESP_TRY(const std::string_view alias, expect_name());
  return import_one(name, name_at, alias, alias_at);
}

Result<> LarkParser::import_list() {
  cursor_.skip_blanks(false);
  if (!cursor_.take("("))
    return cursor_.invalid(cursor_.offset(), "'.' and a name or a list in (...) is expected here");
  do {
    cursor_.skip_blanks(true);
    const std::size_t where = cursor_.offset();
    ESP_TRY(const std::string_view name, expect_name());
    ESP_CHECK(import_one(name, where, name, where));
    cursor_.skip_blanks(true);
  } while (cursor_.take(","));
  if (!cursor_.take(")")) return cursor_.invalid(cursor_.offset(), "',' or ')' is expected here");
  return success();
}

Result<> LarkParser::import_one(std::string_view name, std::size_t name_at, std::string_view alias,
                                std::size_t alias_at) {
  const auto pattern = common_terminal(name);
  if (!pattern)
    return cursor_.unsupported(name_at, fmt::format("the terminal common.{} is not among those we have", name));
  ESP_TRY(const int rule, builder_.define(alias, alias_at));
  ESP_TRY(const int body, add_regex(builder_, cursor_, *pattern, {}, name_at));
  builder_.set_body(rule, body);
  return success();
}

// --- Definitions

Result<> LarkParser::definition() {
  while (cursor_.take("?") || cursor_.take("!")) continue;
  const std::size_t where = cursor_.offset();
  const std::string_view name = cursor_.take_name();
  if (name.empty()) return cursor_.invalid(where, "a definition is expected here: a name, then a colon");
  if (cursor_.peek() == '{') return cursor_.unsupported(where, "templates are not supported");
  if (cursor_.peek() == '[')
    return cursor_.unsupported(where, "options of rules (capture, lazy, max_tokens, ...) are not supported");
  ESP_CHECK(priority());
  cursor_.skip_blanks(false);
  if (!cursor_.take(":"))
    return cursor_.invalid(cursor_.offset(), fmt::format("a colon is expected after {}", in_quotes(name)));
  ESP_TRY(const int rule, builder_.define(name, where));
  ESP_CHECK(expression());
  ESP_TRY(const int body, body_.finish());
  builder_.set_body(rule, body);
  return success();
}

// Whatever it is: there are none.
Result<> LarkParser::priority() {
  if (!cursor_.take(".")) return success();
  if (!cursor_.take("-")) cursor_.take("+");
  if (!cursor_.take_digits().empty()) return success();
  return cursor_.invalid(cursor_.offset(), "a number is expected here, the priority of what is defined");
}

Result<> LarkParser::expression() {
  for (;;) {
    cursor_.skip_blanks(body_.in_group());
    if (at_line_end() && !goes_on_in_next_line()) return success();
    const std::size_t where = cursor_.offset();
    ESP_CHECK(element());
    ESP_CHECK(builder_.within_limits(where));
  }
}

bool LarkParser::goes_on_in_next_line() {
  cursor_.skip_blanks(true);
  return cursor_.peek() == '|';
}

Result<> LarkParser::element() {
  const std::size_t where = cursor_.offset();
  switch (const char c = cursor_.peek()) {
    case '(':
    case '[':
      cursor_.skip(1);
      return body_.open(c, where);
    case ')':
    case ']':
      cursor_.skip(1);
      return body_.close(c, where);
    case '|':
      cursor_.skip(1);
      body_.next_alternative();
      return success();
    case '-':
      return alias();
    case '*':
    case '+':
    case '?':
    case '~':
      return quantifier();
    case '{':
      return braces();
    default:
      return operand();
  }
}

Result<> LarkParser::operand() {
  const std::size_t where = cursor_.offset();
  switch (cursor_.peek()) {
    case '"':
      return literal();
    case '/':
      return regex();
    case '<':
      return cursor_.unsupported(where, "references to tokens, <...>, are not supported");
    case '%':
      return cursor_.unsupported(where, "%json, %regex and the like in a rule are not supported");
    case '@':
      return cursor_.unsupported(where, "references to other grammars, @..., are not supported");
    case '&':
      return cursor_.unsupported(where, "the intersection of terminals, &, is not supported");
    default:
      return reference();
  }
}

Result<> LarkParser::reference() {
  const std::size_t where = cursor_.offset();
  const std::string_view name = cursor_.take_name();
  if (name.empty()) return body_.in_group() && cursor_.peek() == ':' ? body_.unclosed() : cursor_.unexpected();
  body_.add(builder_.reference(name, where));
  return success();
}

Result<> LarkParser::literal() {
  const std::size_t where = cursor_.offset();
  ESP_TRY(std::string text, cursor_.take_literal());
  if (cursor_.take("i")) {
    ESP_TRY(const int node, add_caseless(builder_, cursor_, text, where));
    body_.add(node);
    return success();
  }
  cursor_.skip_blanks(false);
  if (cursor_.take("..")) return range(text, where);
  body_.add(builder_.literal(std::move(text)));
  return success();
}

Result<> LarkParser::range(const std::string& first, std::size_t where) {
  cursor_.skip_blanks(false);
  if (cursor_.peek() != '"') return cursor_.invalid(cursor_.offset(), "a literal is expected after ..");
  ESP_TRY(const std::string last, cursor_.take_literal());
  if (count_characters(first) != 1 || count_characters(last) != 1)
    return cursor_.invalid(where, "a range goes from one character to one character");
  const std::uint32_t low = utf8_step(first).character, high = utf8_step(last).character;
  if (high < low) return cursor_.invalid(where, "this range goes downwards");
  body_.add(builder_.chars(CodePointSet(low, high)));
  return success();
}

Result<> LarkParser::regex() {
  const std::size_t where = cursor_.offset();
  cursor_.skip(1);
  bool over_lines = false;
  while (cursor_.peek() != '/') {
    if (cursor_.peek() == '\\') cursor_.skip(1);
    if (cursor_.at_end()) return cursor_.invalid(where, "this regular expression is not closed with /");
    over_lines = over_lines || cursor_.peek() == '\n';
    cursor_.skip(1);
  }
  const std::string_view pattern = cursor_.since(where + 1);
  cursor_.skip(1);
  const std::size_t flags_at = cursor_.offset();
  while (std::string_view("imsxu").find(cursor_.peek()) != std::string_view::npos) cursor_.skip(1);
  const std::string_view flags = cursor_.since(flags_at);
  if (over_lines && flags.find('x') == std::string_view::npos)
    return cursor_.invalid(where, "this regular expression is not closed with / on its line");
  ESP_TRY(const int node, add_regex(builder_, cursor_, pattern, flags, where));
  body_.add(node);
  return success();
}

Result<> LarkParser::quantifier() {
  const std::size_t where = cursor_.offset();
  RepeatCounts counts{0, RuleNode::kUnbounded};
  if (cursor_.take("~")) {
    cursor_.skip_blanks(false);
    ESP_TRY(counts.low, cursor_.take_count());
    counts.high = counts.low;
    cursor_.skip_blanks(false);
    if (cursor_.take("..")) {
      cursor_.skip_blanks(false);
      ESP_TRY(counts.high, cursor_.take_count());
    }
    if (counts.high < counts.low) return cursor_.invalid(where, "this range of repetitions goes downwards");
  } else if (cursor_.take("+")) {
    counts.low = 1;
  } else if (cursor_.take("?")) {
    counts.high = 1;
  } else {
    cursor_.take("*");
  }
  return body_.repeat(counts, where);
}

// llguidance's {m,n}; a name in its place makes it the use of a template.
Result<> LarkParser::braces() {
  const std::size_t where = cursor_.offset();
  std::size_t ahead = 1;
  while (cursor_.peek(ahead) == ' ') ++ahead;
  const char next = cursor_.peek(ahead);
  if (next != ',' && (next < '0' || next > '9')) return cursor_.unsupported(where, "templates are not supported");
  ESP_TRY(const RepeatCounts counts, cursor_.take_counts());
  return body_.repeat(counts, where);
}

Result<> LarkParser::alias() {
  if (!cursor_.take("->")) return cursor_.unexpected();
  ESP_CHECK(expect_name());
  cursor_.skip_blanks(body_.in_group());
  const char next = cursor_.peek();
  if (!at_line_end() && next != '|' && next != ')' && next != ']') return cursor_.unexpected();
  return success();
}

}  // namespace

Result<RuleText> parse_lark(std::string_view text, const RuleTextLimits& limits) {
  return LarkParser(text, limits).parse();
}

}  // namespace espalier::grammar
