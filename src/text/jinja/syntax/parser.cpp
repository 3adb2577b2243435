#include "text/jinja/syntax/parser.h"

#include <algorithm>
#include <utility>

#include "text/jinja/failure.h"
#include "text/jinja/syntax/expression_parser.h"

namespace espalier::jinja {
namespace {

class Parser : public ExpressionParser {
 public:
  explicit Parser(std::vector<Token> tokens) : ExpressionParser(std::move(tokens)) {}

  Ast run() {
    ast_.body = body({});
    if (token().type != TokenType::end) unexpected();
    return std::move(ast_);
  }

 private:
  using Ends = std::initializer_list<std::string_view>;

  Statement& make(StatementKind kind, int line) {
    ast_.statements.push_back({.kind = kind, .line = line});
    return ast_.statements.back();
  }

  // Statements up to the tag that begins with one of `ends`; its block begin is already passed then.
  Body body(Ends ends) {
    const Level level(*this);
    Body all;
    for (;;) {
      switch (token().type) {
        case TokenType::data: {
          Statement& s = make(StatementKind::text, token().line);
          s.text = take().text;
          all.push_back(&s);
          break;
        }
        case TokenType::variable_begin: {
          Statement& s = make(StatementKind::print, take().line);
          s.expression = tuple(true);
          if (token().type != TokenType::variable_end) unexpected();
          take();
          all.push_back(&s);
          break;
        }
        case TokenType::block_begin: {
          take();
          const bool ended =
              std::any_of(ends.begin(), ends.end(), [&](std::string_view end) { return token().is_name(end); });
          if (ended) return all;
          statement(all);
          break;
        }
        default:
          if (ends.size() > 0)
            syntax_error("unexpected end of the template: {% " + std::string(*ends.begin()) + " %} is missing");
          return all;
      }
    }
  }

  void end_tag() {
    if (token().type != TokenType::block_end) unexpected();
    take();
  }

  // The body of a tag that ends with {% end %}.
  Body body_until(std::string_view end) {
    end_tag();
    Body all = body({end});
    take();
    return all;
  }

  void statement(Body& all) {
    const Token tag = token();
    if (tag.type != TokenType::name) syntax_error("a tag's name is expected after {%");
    take();
    constexpr std::pair<std::string_view, void (Parser::*)(Body&, int)> tags[] = {{"for", &Parser::for_loop},
                                                                                  {"if", &Parser::if_chain},
                                                                                  {"set", &Parser::assign},
                                                                                  {"macro", &Parser::macro},
                                                                                  {"call", &Parser::call_block},
                                                                                  {"filter", &Parser::filter_block},
                                                                                  {"with", &Parser::with},
                                                                                  {"block", &Parser::block},
                                                                                  {"generation", &Parser::generation},
                                                                                  {"autoescape", &Parser::autoescape},
                                                                                  {"print", &Parser::print},
                                                                                  {"break", &Parser::break_loop},
                                                                                  {"continue", &Parser::continue_loop}};
    for (const auto& [name, parse_tag] : tags) {
      if (tag.text != name) continue;
      (this->*parse_tag)(all, tag.line);
      return;
    }
    for (const char* other : {"include", "import", "from", "extends"}) {
      if (tag.text != other) continue;
      Statement& s = make(StatementKind::unavailable, tag.line);
      s.text = other;
      while (token().type != TokenType::block_end && token().type != TokenType::end) take();
      end_tag();
      all.push_back(&s);
      return;
    }
    throw Failure{Failure::Kind::syntax, "unknown tag '" + tag.text + "'", tag.line};
  }

  void for_loop(Body& all, int line) {
    Statement& s = make(StatementKind::for_loop, line);
    s.target = target(false, "in");
    if (!skip_name("in")) syntax_error("expected 'in'");
    s.expression = tuple(false, "recursive");
    if (skip_name("if")) s.condition = expression();
    s.recursive = skip_name("recursive");
    name_id("loop");
    ++loops_;
    end_tag();
    s.body = body({"endfor", "else"});
    --loops_;
    if (skip_name("else")) {
      end_tag();
      s.otherwise = body({"endfor"});
    }
    take();
    end_tag();
    all.push_back(&s);
  }

  void if_chain(Body& all, int line) {
    Statement& s = make(StatementKind::if_chain, line);
    for (;;) {
      const Expression* condition = tuple(false);
      end_tag();
      Body then = body({"elif", "else", "endif"});
      s.branches.emplace_back(condition, std::move(then));
      if (!skip_name("elif")) break;
    }
    if (skip_name("else")) {
      end_tag();
      s.branches.emplace_back(nullptr, body({"endif"}));
    }
    take();
    end_tag();
    all.push_back(&s);
  }

  void assign(Body& all, int line) {
    Target where = target(true);
    if (skip_symbol("=")) {
      Statement& s = make(StatementKind::assign, line);
      s.target = std::move(where);
      s.expression = tuple(true);
      end_tag();
      all.push_back(&s);
      return;
    }
    Statement& s = make(StatementKind::assign_block, line);
    s.target = std::move(where);
    s.expression = filters(nullptr, false);
    s.body = body_until("endset");
    end_tag();
    all.push_back(&s);
  }

  void parameters(Statement& s) {
    expect_symbol("(");
    while (!token().is_symbol(")")) {
      if (!s.parameters.empty()) expect_symbol(",");
      if (token().is_symbol(")")) break;
      Parameter p{.name = -1, .text = expect_name("a parameter's name")};
      p.name = name_id(p.text);
      if (skip_symbol("=")) {
        p.fallback = expression();
      } else if (!s.parameters.empty() && s.parameters.back().fallback) {
        syntax_error("a parameter without a default follows one with a default");
      }
      s.parameters.push_back(std::move(p));
    }
    expect_symbol(")");
  }

  // Loops around the definition do not count inside it.
  void macro_body(Statement& s, std::string_view end) {
    const int loops = std::exchange(loops_, 0);
    const std::size_t first = ast_.expressions.size();
    s.body = body_until(end);
    loops_ = loops;
    for (std::size_t i = first; i < ast_.expressions.size(); ++i) {
      const Expression& e = ast_.expressions[i];
      if (e.kind != ExpressionKind::name) continue;
      s.uses_varargs |= e.text == "varargs";
      s.uses_kwargs |= e.text == "kwargs";
      s.uses_caller |= e.text == "caller";
    }
    end_tag();
  }

  void macro(Body& all, int line) {
    Statement& s = make(StatementKind::macro, line);
    s.text = expect_name("the macro's name");
    s.target.name = name_id(s.text);
    parameters(s);
    macro_body(s, "endmacro");
    all.push_back(&s);
  }

  void call_block(Body& all, int line) {
    Statement& s = make(StatementKind::call_block, line);
    if (token().is_symbol("(")) parameters(s);
    s.expression = expression();
    if (s.expression->kind != ExpressionKind::call) syntax_error("{% call %} needs a call");
    macro_body(s, "endcall");
    all.push_back(&s);
  }

  void filter_block(Body& all, int line) {
    Statement& s = make(StatementKind::filter_block, line);
    s.expression = filters(nullptr, true);
    s.body = body_until("endfilter");
    end_tag();
    all.push_back(&s);
  }

  void with(Body& all, int line) {
    Statement& s = make(StatementKind::with, line);
    while (token().type != TokenType::block_end) {
      if (!s.bindings.empty()) expect_symbol(",");
      Target where = target(false);
      expect_symbol("=");
      s.bindings.emplace_back(std::move(where), expression());
    }
    s.body = body_until("endwith");
    end_tag();
    all.push_back(&s);
  }

  // A template that nobody extends shows its blocks where they stand.
  void block(Body& all, int line) {
    Statement& s = make(StatementKind::scope, line);
    expect_name("the block's name");
    while (skip_name("scoped") || skip_name("required")) {
    }
    s.body = body_until("endblock");
    if (token().type == TokenType::name) take();
    end_tag();
    all.push_back(&s);
  }

  // Hugging Face's mark around what the assistant says; it shows nothing itself.
  void generation(Body& all, int line) {
    Statement& s = make(StatementKind::scope, line);
    s.body = body_until("endgeneration");
    end_tag();
    all.push_back(&s);
  }

  void autoescape(Body& all, int line) {
    Statement& s = make(StatementKind::scope, line);
    expression();
    s.body = body_until("endautoescape");
    end_tag();
    all.push_back(&s);
  }

  void print(Body& all, int line) {
    while (token().type != TokenType::block_end) {
      Statement& s = make(StatementKind::print, line);
      s.expression = expression();
      all.push_back(&s);
      if (!skip_symbol(",")) break;
    }
    end_tag();
  }

  void loop_control(Body& all, int line, StatementKind kind) {
    if (loops_ == 0) syntax_error("break and continue are only possible in a loop");
    all.push_back(&make(kind, line));
    end_tag();
  }
  void break_loop(Body& all, int line) { loop_control(all, line, StatementKind::break_loop); }
  void continue_loop(Body& all, int line) { loop_control(all, line, StatementKind::continue_loop); }

  int loops_ = 0;
};

}  // namespace

Ast parse(std::string_view source) {
  if (source.size() > kLongestSource) throw Failure{Failure::Kind::syntax, "larger than the limit of 1 MiB", 0};
  return Parser(tokenize(source)).run();
}

NameId Ast::find_name(std::string_view name) const {
  const auto found = std::find(names.begin(), names.end(), name);
  return found == names.end() ? -1 : static_cast<NameId>(found - names.begin());
}

}  // namespace espalier::jinja
