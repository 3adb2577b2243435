#include "grammar/rules/lark_terminals.h"

#include <fmt/format.h>

#include "base/json/json.h"  // in_quotes
#include "grammar/regex/regex.h"

namespace espalier::grammar {
namespace {

struct CommonTerminal {
  std::string_view name, pattern;
};

// ESCAPED_STRING is meant as "up to the first quote that is not escaped", which Lark's own pattern says with a lazy
// quantifier and look-behind. Letters are ASCII, as in Lark 1.
constexpr CommonTerminal kCommonTerminals[] = {
    {"CNAME", "[A-Za-z_][A-Za-z_0-9]*"},
    {"CR", "\\r"},
    {"DECIMAL", "[0-9]+\\.[0-9]*|\\.[0-9]+"},
    {"DIGIT", "[0-9]"},
    {"ESCAPED_STRING", "\"(?:[^\"\\\\\\n]|\\\\[^\\n])*\""},
    {"FLOAT", "[0-9]+[eE][+-]?[0-9]+|(?:[0-9]+\\.[0-9]*|\\.[0-9]+)(?:[eE][+-]?[0-9]+)?"},
    {"HEXDIGIT", "[a-fA-F0-9]"},
    {"INT", "[0-9]+"},
    {"LCASE_LETTER", "[a-z]"},
    {"LETTER", "[A-Za-z]"},
    {"LF", "\\n"},
    {"NEWLINE", "(?:\\r?\\n)+"},
    {"NUMBER", "(?:[0-9]+(?:\\.[0-9]*)?|\\.[0-9]+)(?:[eE][+-]?[0-9]+)?"},
    {"SIGNED_FLOAT", "[+-]?(?:[0-9]+[eE][+-]?[0-9]+|(?:[0-9]+\\.[0-9]*|\\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"},
    {"SIGNED_INT", "[+-]?[0-9]+"},
    {"SIGNED_NUMBER", "[+-]?(?:[0-9]+(?:\\.[0-9]*)?|\\.[0-9]+)(?:[eE][+-]?[0-9]+)?"},
    {"UCASE_LETTER", "[A-Z]"},
    {"WORD", "[A-Za-z]+"},
    {"WS", "[ \\t\\f\\r\\n]+"},
    {"WS_INLINE", "[ \\t]+"},
};

// The same error, placed in the grammar. The pattern is quoted as it was read, since the message counts its bytes.
Error placed(const Error& error, const RuleCursor& cursor, const std::string& pattern, std::size_t where) {
  const std::string sentence = fmt::format("in the regular expression {}: {}", in_quotes(pattern), error.message);
  switch (error.kind) {
    case Error::Kind::bad_request:
      return cursor.invalid(where, sentence);
    case Error::Kind::too_large:
      return cursor.too_complex(where, sentence);
    default:
      return {error.kind, cursor.place(where) + sentence, {}, error.code};
  }
}

std::string_view unsupported_assertion(RegexNode::Kind kind) {
  switch (kind) {
    case RegexNode::Kind::text_start:
      return "^ and \\A";
    case RegexNode::Kind::text_end:
      return "$, \\Z and \\z";
    case RegexNode::Kind::look_ahead:
      return "look-ahead";
    default:
      return {};
  }
}

// `nodes` are those of the regular expression before this one, as nodes of the RuleText.
int add_regex_node(RuleBuilder& builder, const Regex& regex, const RegexNode& node, const std::vector<int>& nodes) {
  std::vector<int> children;
  for (const int child : node.children) children.push_back(nodes[static_cast<std::size_t>(child)]);
  switch (node.kind) {
    case RegexNode::Kind::chars:
      return builder.chars(regex.sets[static_cast<std::size_t>(node.set)]);
    case RegexNode::Kind::concat:
      return builder.concat(children);
    case RegexNode::Kind::either:
      return builder.either(children);
    case RegexNode::Kind::repeat:
      return builder.repeat(children[0], {node.low, node.high});
    default:
      return builder.literal({});
  }
}

}  // namespace

Result<int> add_regex(RuleBuilder& builder, const RuleCursor& cursor, std::string_view pattern, std::string_view flags,
                      std::size_t where) {
  std::string inline_flags;
  for (const char flag : std::string_view("isx"))
    if (flags.find(flag) != std::string_view::npos) inline_flags.push_back(flag);
  std::string whole(pattern);
  if (!inline_flags.empty()) whole = fmt::format("(?{}){}", inline_flags, pattern);
  RegexOptions options;
  options.depth = builder.limits().depth;
  const auto regex = parse_regex(whole, options);
  if (!regex.ok()) return placed(regex.error(), cursor, whole, where);
  std::vector<int> nodes;
  for (const RegexNode& node : regex->nodes) {
    if (const std::string_view assertion = unsupported_assertion(node.kind); !assertion.empty())
      return cursor.unsupported(where, fmt::format("{} in a terminal's regular expression are not supported: "
                                                   "it matches within a longer text",
                                                   assertion));
    nodes.push_back(add_regex_node(builder, *regex, node, nodes));
  }
  return nodes[static_cast<std::size_t>(regex->root)];
}

Result<int> add_caseless(RuleBuilder& builder, const RuleCursor& cursor, std::string_view text, std::size_t where) {
  std::string pattern;
  for (const char c : text) {
    const bool plain = static_cast<unsigned char>(c) >= 0x80 || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
                       (c >= 'A' && c <= 'Z');
    pattern += plain ? std::string(1, c) : fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  }
  return add_regex(builder, cursor, pattern, "i", where);
}

std::optional<std::string_view> common_terminal(std::string_view name) {
  for (const CommonTerminal& terminal : kCommonTerminals)
    if (terminal.name == name) return terminal.pattern;
  return std::nullopt;
}

}  // namespace espalier::grammar
