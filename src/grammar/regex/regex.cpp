#include "grammar/regex/regex.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "grammar/regex/regex_cursor.h"
#include "grammar/regex/regex_escapes.h"
#include "grammar/regex/regex_group_head.h"
#include "grammar/regex/regex_sets.h"
#include "text/utf8.h"

namespace espalier::grammar {
namespace {

constexpr int kMostRepetitions = 1'000'000'000;

class RegexParser {
 public:
  RegexParser(std::string_view pattern, const RegexOptions& options)
      : options_(options), python_(options.dialect == RegexDialect::python), cursor_(pattern), sets_(options.dialect) {
    groups_.push_back({});
  }

  Result<Regex> run() {
    while (!cursor_.done()) ESP_CHECK(step());
    if (groups_.size() > 1) return regex_malformed("a missing ) for the group", groups_.back().start);
    ESP_TRY(const int root, finish_alternatives());
    return Regex{std::move(nodes_), sets_.take(), root};
  }

 private:
  using Kind = RegexNode::Kind;
  enum class Last { nothing, anchor, atom, repeat };  // what a quantifier would repeat
  struct Bounds {
    int low, high;
  };

  struct Group {
    std::size_t start = 0;  // of the parenthesis
    RegexGroupHead head;
    RegexFlags outer;        // hold again behind the group
    std::vector<int> items;  // of the alternative that is being read
    std::vector<int> alternatives;
    Last last = Last::nothing;
  };

  Result<> step() {
    const std::size_t at = cursor_.at();
    if (flags_.verbose && skip_verbose()) return success();
    if (cursor_.take("\\")) return escape(at);
    if (cursor_.take("(")) return open(at);
    if (cursor_.take(")")) return close(at);
    if (cursor_.take("|")) return next_alternative();
    if (cursor_.take("^")) return line_anchor(Kind::text_start, at);
    if (cursor_.take("$")) return line_anchor(Kind::text_end, at);
    if (cursor_.take("[")) return add_set(sets_.bracket(cursor_, flags_), at);
    if (cursor_.take(".")) return add_set(sets_.dot(flags_, at), at);
    ESP_TRY(const auto bounds, quantifier());
    if (bounds) return repeat(*bounds, at);
    return add_set(sets_.character(cursor_.take_character(), flags_, at), at);
  }

  bool skip_verbose() {
    const auto space = [](char c) { return c == ' ' || (c >= '\t' && c <= '\r'); };
    if (cursor_.next_is(space)) {
      cursor_.take_byte();
      return true;
    }
    if (!cursor_.take("#")) return false;
    const std::size_t line = std::min(cursor_.rest().find('\n'), cursor_.rest().size());
    cursor_.go_to(cursor_.at() + line);
    return true;
  }

  // ---- what matches by itself

  Result<> add_item(RegexNode node, Last last, std::size_t at) {
    ESP_TRY(const int index, add_node(std::move(node), at));
    groups_.back().items.push_back(index);
    groups_.back().last = last;
    return success();
  }

  Result<int> add_node(RegexNode node, std::size_t at) {
    if (nodes_.size() >= options_.nodes)
      return regex_too_complex(fmt::format("more than {} parts", options_.nodes), at);
    nodes_.push_back(std::move(node));
    return static_cast<int>(nodes_.size()) - 1;
  }

  Result<> add_set(Result<int> set, std::size_t at) {
    if (!set.ok()) return std::move(set).error();
    return add_item({.kind = Kind::chars, .set = *set, .children = {}}, Last::atom, at);
  }

  Result<> escape(std::size_t at) {
    ESP_TRY(const RegexEscape escape, parse_regex_escape(cursor_, options_.dialect, false));
    switch (escape.kind) {
      case RegexEscape::Kind::text_start:
        return add_item({.kind = Kind::text_start, .children = {}}, Last::anchor, at);
      case RegexEscape::Kind::text_end:
        return add_item({.kind = Kind::text_end, .children = {}}, Last::anchor, at);
      case RegexEscape::Kind::set:
        return add_set(sets_.named(escape, flags_, at), at);
      case RegexEscape::Kind::character:
        break;
    }
    return add_set(sets_.character(escape.character, flags_, at), at);
  }

  Result<> line_anchor(Kind kind, std::size_t at) {
    // Within (?m) they are the ends of lines, which depends on the characters before or behind them.
    if (flags_.multi_line)
      return regex_unsupported(fmt::format("{} with the flag m", kind == Kind::text_start ? '^' : '$'), at);
    return add_item({.kind = kind, .children = {}}, Last::anchor, at);
  }

  // ---- quantifiers

  // Empty when none stands here; a brace that begins none is a character.
  Result<std::optional<Bounds>> quantifier() {
    constexpr int unbounded = RegexNode::kUnbounded;
    if (cursor_.take("*")) return std::optional(Bounds{0, unbounded});
    if (cursor_.take("+")) return std::optional(Bounds{1, unbounded});
    if (cursor_.take("?")) return std::optional(Bounds{0, 1});
    const std::size_t start = cursor_.at();
    if (!cursor_.take("{")) return std::optional<Bounds>();
    const auto low = number();
    const bool comma = cursor_.take(",");
    const auto high = comma ? number() : low;
    // ECMA wants a first number; Python takes {,5} and even {,}.
    if ((!low && (!python_ || !comma)) || !cursor_.take("}")) {
      cursor_.go_to(start);
      return std::optional<Bounds>();
    }
    if (std::max(low.value_or(0), high.value_or(0)) > kMostRepetitions)
      return regex_malformed(fmt::format("more than {} repetitions", kMostRepetitions), start);
    const Bounds bounds{static_cast<int>(low.value_or(0)), high ? static_cast<int>(*high) : unbounded};
    if (high && bounds.high < bounds.low)
      return regex_malformed(
          fmt::format("the quantifier {} with its numbers the wrong way round", cursor_.since(start)), start);
    return std::optional(bounds);
  }

  std::optional<std::int64_t> number() {
    if (!cursor_.next_is(is_regex_digit)) return std::nullopt;
    std::int64_t value = 0;
    while (cursor_.next_is(is_regex_digit))
      value = std::min<std::int64_t>(value * 10 + (cursor_.take_byte() - '0'), kMostRepetitions + 1);
    return value;
  }

  Result<> repeat(const Bounds& bounds, std::size_t at) {
    Group& group = groups_.back();
    if (group.last == Last::nothing || group.last == Last::anchor)
      return regex_malformed("nothing to repeat for the quantifier", at);
    if (group.last == Last::repeat) return regex_malformed("a quantifier behind a quantifier", at);
    const bool lazy = cursor_.take("?");  // the same language
    if (python_ && !lazy && cursor_.take("+"))
      return regex_unsupported(fmt::format("the possessive quantifier {}", cursor_.since(at)), at);
    const int child = group.items.back();
    group.items.pop_back();
    return add_item({.kind = Kind::repeat, .low = bounds.low, .high = bounds.high, .children = {child}}, Last::repeat,
                    at);
  }

  // ---- groups

  Result<> open(std::size_t at) {
    ESP_TRY(const RegexGroupHead head, parse_regex_group_head(cursor_, flags_, options_));
    if (head.kind == RegexGroupHead::Kind::comment) return success();
    if (head.kind == RegexGroupHead::Kind::global_flags) return global_flags(head.flags, at);
    if (python_ && !head.name.empty() && !names_.insert(head.name).second)
      return regex_malformed(fmt::format("a second group named {}", head.name), at);
    if (groups_.size() > static_cast<std::size_t>(options_.depth))
      return regex_too_complex(fmt::format("more than {} groups inside each other", options_.depth), at);
    groups_.push_back({at, head, flags_, {}, {}, Last::nothing});
    flags_ = head.flags;
    return success();
  }

  Result<> global_flags(const RegexFlags& flags, std::size_t at) {
    const Group& group = groups_.back();
    if (groups_.size() > 1 || !group.items.empty() || !group.alternatives.empty())
      return regex_malformed("flags for the whole pattern that do not begin it", at);
    flags_ = flags;
    return success();
  }

  Result<> close(std::size_t at) {
    if (groups_.size() == 1) return regex_malformed("a ) that closes no group", at);
    ESP_TRY(const int inside, finish_alternatives());
    const Group closed = std::move(groups_.back());
    groups_.pop_back();
    flags_ = closed.outer;
    if (closed.head.kind == RegexGroupHead::Kind::look_ahead)
      return add_item({.kind = Kind::look_ahead, .negative = closed.head.negative, .children = {inside}}, Last::atom,
                      at);
    groups_.back().items.push_back(inside);
    groups_.back().last = Last::atom;
    return success();
  }

  Result<> next_alternative() {
    ESP_TRY(const int alternative, finish_alternative());
    groups_.back().alternatives.push_back(alternative);
    groups_.back().last = Last::nothing;
    return success();
  }

  Result<int> finish_alternative() { return joined(Kind::concat, std::exchange(groups_.back().items, {})); }

  Result<int> finish_alternatives() {
    ESP_CHECK(next_alternative());
    return joined(Kind::either, std::exchange(groups_.back().alternatives, {}));
  }

  Result<int> joined(Kind kind, std::vector<int> children) {
    if (children.size() == 1) return children.front();
    return add_node({.kind = children.empty() ? Kind::empty : kind, .children = std::move(children)}, cursor_.at());
  }

  const RegexOptions& options_;
  const bool python_;
  RegexCursor cursor_;
  RegexFlags flags_;
  RegexSets sets_;
  std::vector<RegexNode> nodes_;
  std::vector<Group> groups_;  // those open; the first is the pattern itself
  std::set<std::string_view> names_;
};

std::optional<std::size_t> first_broken_byte(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Step step = utf8_step(text.substr(at));
    if (!step.valid) return at;
    at += step.length;
  }
  return std::nullopt;
}

}  // namespace

Result<Regex> parse_regex(std::string_view pattern, const RegexOptions& options) {
  if (pattern.size() > options.bytes)
    return regex_too_complex(fmt::format("a pattern of more than {} bytes goes on", options.bytes), options.bytes);
  if (const auto broken = first_broken_byte(pattern)) return regex_malformed("a pattern that is not UTF-8", *broken);
  return RegexParser(pattern, options).run();
}

}  // namespace espalier::grammar
