#include "grammar/characters/spelling.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "base/json/json.h"
#include "base/json/json_text.h"

namespace espalier::grammar {
namespace {

constexpr int kUnrolled = 8;  // repetitions of something that looks at the text's ends, at most

using Bytes = std::array<unsigned, 4>;

int encoded(std::uint32_t character, Bytes& out) {
  std::string text;
  append_utf8(text, character);
  for (std::size_t i = 0; i < text.size(); ++i) out[i] = static_cast<unsigned char>(text[i]);
  return static_cast<int>(text.size());
}

// Characters low..high whose encodings are `size` bytes long, as alternatives of ranges byte by byte.
void add_range(ExpressionStore& store, std::uint32_t low, std::uint32_t high, int size,
               std::vector<Expression>& alternatives) {
  for (int i = 1; i < size; ++i) {
    const std::uint32_t mask = (1u << (6 * i)) - 1;
    if ((low & ~mask) == (high & ~mask)) continue;
    if ((low & mask) != 0) {
      add_range(store, low, low | mask, size, alternatives);
      return add_range(store, (low | mask) + 1, high, size, alternatives);
    }
    if ((high & mask) != mask) {
      add_range(store, low, (high & ~mask) - 1, size, alternatives);
      return add_range(store, high & ~mask, high, size, alternatives);
    }
  }
  Bytes from{}, to{};
  encoded(low, from);
  encoded(high, to);
  Expression sequence = ExpressionStore::empty;
  for (int i = size; i-- > 0;) {
    const auto at = static_cast<std::size_t>(i);
    sequence = store.concat(store.bytes(ByteSet::range(from[at], to[at])), sequence);
  }
  alternatives.push_back(sequence);
}

Expression utf8(ExpressionStore& store, const CodePointSet& set) {
  constexpr std::array<std::uint32_t, 4> kLast{0x7f, 0x7ff, 0xffff, 0x10ffff};
  std::vector<Expression> alternatives;
  for (const CodePointRange& range : set.ranges()) {
    std::uint32_t first = 0;
    for (int size = 1; size <= 4; ++size) {
      const std::uint32_t last = kLast[static_cast<std::size_t>(size - 1)];
      const std::uint32_t low = std::max(range.low, first), high = std::min(range.high, last);
      if (low <= high) add_range(store, low, high, size, alternatives);
      first = last + 1;
    }
  }
  return store.either(std::move(alternatives));
}

Expression hex_digit(ExpressionStore& store, unsigned value) {
  ByteSet set;
  set.add(static_cast<unsigned char>("0123456789abcdef"[value]));
  set.add(static_cast<unsigned char>("0123456789ABCDEF"[value]));
  return store.bytes(set);
}

// The characters that JSON does not allow as they are.
const CodePointSet& escaped() {
  static const CodePointSet set = [] {
    CodePointSet all(0, 0x1f);
    all.add('"');
    all.add('\\');
    return all;
  }();
  return set;
}

Expression escape_of(ExpressionStore& store, std::uint32_t character) {
  switch (character) {
    case '"':
      return store.text("\\\"");
    case '\\':
      return store.text("\\\\");
    case '\b':
      return store.text("\\b");
    case '\f':
      return store.text("\\f");
    case '\n':
      return store.text("\\n");
    case '\r':
      return store.text("\\r");
    case '\t':
      return store.text("\\t");
    default:
      return store.concat({store.text("\\u00"), hex_digit(store, character >> 4), hex_digit(store, character & 15)});
  }
}

Expression json_character(ExpressionStore& store, const CodePointSet& set) {
  std::vector<Expression> ways{utf8(store, set.without(escaped()))};
  const CodePointSet special = set.intersect(escaped());
  for (const CodePointRange& range : special.ranges()) {
    for (std::uint32_t c = range.low; c <= range.high; ++c) ways.push_back(escape_of(store, c));
  }
  return store.either(std::move(ways));
}

}  // namespace

Spelling::Spelling(ExpressionStore& store, Kind kind) : store_(store), kind_(kind) {
  any_ = character(CodePointSet::all());
  store_.set_any_character(alphabet(), any_);
}

Spelling::Spelling(ExpressionStore& store, const CharacterKinds& kinds) : store_(store), kinds_(&kinds) {
  any_ = character(CodePointSet::all());
}

Expression Spelling::character(const CodePointSet& set) {
  if (kinds_ != nullptr) return store_.bytes(kinds_->of(set));
  const Expression one = kind_ == Kind::plain ? utf8(store_, set) : json_character(store_, set);
  store_.set_characters(alphabet(), one);
  return one;
}

Expression Spelling::text(std::string_view utf8_text) {
  if (kind_ == Kind::plain) return store_.text(utf8_text);
  Expression result = ExpressionStore::empty;
  std::size_t end = utf8_text.size();
  for (std::size_t i = utf8_text.size(); i-- > 0;) {
    const auto byte = static_cast<unsigned char>(utf8_text[i]);
    if (byte >= 0x20 && byte != '"' && byte != '\\') continue;
    result = store_.concat({escape_of(store_, byte), store_.text(utf8_text.substr(i + 1, end - i - 1)), result});
    end = i;
  }
  return store_.concat(store_.text(utf8_text.substr(0, end)), result);
}

Expression Spelling::any_of(std::span<const std::string_view> texts) {
  const auto as_is = [&](std::string_view text) { return kind_ == Kind::plain || spelled(text) == text; };
  std::vector<std::string_view> alike;
  std::vector<Expression> ways;
  for (const std::string_view one : texts) {
    if (as_is(one))
      alike.push_back(one);
    else
      ways.push_back(text(one));
  }
  ways.push_back(store_.any_of(std::move(alike)));
  return store_.either(std::move(ways));
}

Expression Spelling::plain(Reading& reading, const RegexNode& node) {
  using Node = RegexNode::Kind;
  const auto child = [&](int c) { return reading.plain[static_cast<std::size_t>(c)]; };
  switch (node.kind) {
    case Node::chars: {
      const auto [known, fresh] = reading.sets.try_emplace(node.set, ExpressionStore::nothing);
      if (fresh) known->second = character(reading.regex.sets[static_cast<std::size_t>(node.set)]);
      return known->second;
    }
    case Node::concat: {
      Expression all = ExpressionStore::empty;
      for (std::size_t c = node.children.size(); c-- > 0;) all = store_.concat(child(node.children[c]), all);
      return all;
    }
    case Node::either: {
      std::vector<Expression> ways;
      for (const int c : node.children) ways.push_back(child(c));
      return store_.either(std::move(ways));
    }
    case Node::repeat: {
      const bool open = node.high == RegexNode::kUnbounded;
      return store_.repeat(child(node.children[0]), static_cast<std::uint32_t>(node.low),
                           open ? ExpressionStore::unbounded : static_cast<std::uint32_t>(node.high));
    }
    default:
      return ExpressionStore::empty;
  }
}

Spelling::Reading Spelling::prepare(const Regex& regex) {
  Reading reading{regex,
                  std::vector<Expression>(regex.nodes.size(), ExpressionStore::nothing),
                  std::vector<bool>(regex.nodes.size()),
                  std::vector<bool>(regex.nodes.size()),
                  {},
                  store_.star(any_)};
  using Node = RegexNode::Kind;
  for (std::size_t i = 0; i < regex.nodes.size(); ++i) {
    const RegexNode& node = regex.nodes[i];
    const auto any_child = [&](const std::vector<bool>& flags) {
      return std::ranges::any_of(node.children, [&](int child) { return flags[static_cast<std::size_t>(child)]; });
    };
    reading.starts[i] = node.kind == Node::text_start || any_child(reading.starts);
    reading.looks[i] =
        reading.starts[i] || node.kind == Node::text_end || node.kind == Node::look_ahead || any_child(reading.looks);
    if (!reading.looks[i]) reading.plain[i] = plain(reading, regex.nodes[i]);
  }
  return reading;
}

Result<Expression> Spelling::whole(const Regex& regex) {
  const Reading reading = prepare(regex);
  return read(reading, regex.root, ExpressionStore::empty, true);
}

Result<Expression> Spelling::search(const Regex& regex) {
  const Reading reading = prepare(regex);
  ESP_TRY(const Expression at_start, read(reading, regex.root, reading.rest, true));
  ESP_TRY(const Expression inside, read(reading, regex.root, reading.rest, false));
  if (at_start == inside) return store_.concat(reading.rest, inside);
  return store_.either(at_start, store_.concat({any_, reading.rest, inside}));
}

Result<Expression> Spelling::match(const Regex& regex, bool at_start) {
  const Reading reading = prepare(regex);
  return read(reading, regex.root, ExpressionStore::empty, at_start);
}

// The node's matches, each followed by what `tail` reads up to the text's end. `at_start`: nothing stands before.
Result<Expression> Spelling::read(const Reading& reading, int index, Expression tail, bool at_start) {
  using Node = RegexNode::Kind;
  const auto at = static_cast<std::size_t>(index);
  if (!reading.looks[at]) return store_.concat(reading.plain[at], tail);
  const RegexNode& node = reading.regex.nodes[at];
  switch (node.kind) {
    case Node::text_start:
      return at_start ? tail : ExpressionStore::nothing;
    case Node::text_end:
      return store_.nullable(tail) ? ExpressionStore::empty : ExpressionStore::nothing;
    case Node::look_ahead: {
      ESP_TRY(const Expression ahead, read(reading, node.children[0], reading.rest, at_start));
      return store_.both(tail, node.negative ? store_.negation(ahead) : ahead);
    }
    case Node::either: {
      std::vector<Expression> ways;
      for (const int child : node.children) {
        ESP_TRY(const Expression way, read(reading, child, tail, at_start));
        ways.push_back(way);
      }
      return store_.either(std::move(ways));
    }
    case Node::repeat:
      return read_repeat(reading, node, tail, at_start);
    default:
      return read_concat(reading, node.children, tail, at_start);
  }
}

Result<Expression> Spelling::read_concat(const Reading& reading, std::span<const int> parts, Expression tail,
                                         bool at_start) {
  // How far the text's start can still be where the reading is: past a part that must match something it is not.
  std::size_t reach = 0;
  const auto skippable = [&](int part) {
    const auto at = static_cast<std::size_t>(part);
    return reading.looks[at] || store_.nullable(reading.plain[at]);
  };
  while (reach < parts.size() && skippable(parts[reach])) ++reach;
  for (std::size_t i = parts.size(); i-- > 0;) {
    const bool may_start = at_start && i <= reach;
    const auto at = static_cast<std::size_t>(parts[i]);
    if (!may_start || i == 0 || !reading.starts[at]) {
      ESP_TRY(tail, read(reading, parts[i], tail, may_start));
      continue;
    }
    // Whether this part begins the text depends on what the parts before it match.
    const bool before_is_empty = std::ranges::all_of(parts.first(i), [&](int part) {
      const auto kind = reading.regex.nodes[static_cast<std::size_t>(part)].kind;
      return kind == RegexNode::Kind::look_ahead || kind == RegexNode::Kind::text_start;
    });
    if (!before_is_empty) {
      return Error{
          Error::Kind::unsupported, "regex: ^ behind something that may match nothing is not supported", {}, {}};
    }
    ESP_TRY(tail, read(reading, parts[i], tail, true));
  }
  return tail;
}

Result<Expression> Spelling::read_repeat(const Reading& reading, const RegexNode& node, Expression tail,
                                         bool at_start) {
  if (node.high == RegexNode::kUnbounded || node.high > kUnrolled) {
    return Error{Error::Kind::unsupported,
                 fmt::format("regex: ^, $ or a look-ahead inside a repetition is supported up to {} times", kUnrolled),
                 {},
                 {}};
  }
  Expression result = node.low == 0 ? tail : ExpressionStore::nothing;
  for (int count = std::max(node.low, 1); count <= node.high; ++count) {
    const std::vector<int> copies(static_cast<std::size_t>(count), node.children[0]);
    ESP_TRY(const Expression way, read_concat(reading, copies, tail, at_start));
    result = store_.either(result, way);
  }
  return result;
}

std::string spelled(std::string_view utf8_text) {
  const auto is_escaped = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == '"' || c == '\\'; };
  if (std::ranges::none_of(utf8_text, is_escaped)) return std::string(utf8_text);
  const std::string quoted = Json(utf8_text).dump();
  return quoted.substr(1, quoted.size() - 2);
}

Expression each_json_text_once(ExpressionStore& store) {
  std::vector<Expression> ways{utf8(store, CodePointSet::all().without(escaped()))};
  for (const CodePointRange& range : escaped().ranges()) {
    for (std::uint32_t c = range.low; c <= range.high; ++c) {
      std::string text;
      append_utf8(text, c);
      ways.push_back(store.text(spelled(text)));
    }
  }
  return store.star(store.either(std::move(ways)));
}

Expression free_json_character(ExpressionStore& store) {
  const auto range = [&](char from, char to) {
    return ByteSet::range(static_cast<unsigned char>(from), static_cast<unsigned char>(to));
  };
  const ByteSet digit = range('0', '9');
  const auto hex = [&](const ByteSet& set) { return store.bytes(set); };
  const Expression any_hex = hex(digit | range('a', 'f') | range('A', 'F'));
  const ByteSet d = ByteSet::of('d') | ByteSet::of('D');
  const Expression not_d = hex((digit | range('a', 'f') | range('A', 'F')) - d);
  const ByteSet high_half = range('8', '9') | range('a', 'b') | range('A', 'B');
  const ByteSet low_half = range('c', 'f') | range('C', 'F');
  const Expression two = store.repeat(any_hex, 2, 2), three = store.repeat(any_hex, 3, 3);
  const Expression lone = store.either(store.concat(not_d, three), store.concat({hex(d), hex(range('0', '7')), two}));
  const Expression pair = store.concat({hex(d), hex(high_half), two, store.text("\\u"), hex(d), hex(low_half), two});
  ByteSet shorts;
  for (const char c : std::string_view("\"\\/bfnrt")) shorts.add(static_cast<unsigned char>(c));
  const Expression unicode = store.concat(store.bytes(ByteSet::of('u')), store.either(lone, pair));
  const Expression escape = store.concat(store.bytes(ByteSet::of('\\')), store.either(store.bytes(shorts), unicode));
  const Expression raw = utf8(store, CodePointSet::all().without(escaped()));
  return store.either(raw, escape);
}

Expression free_json_text(ExpressionStore& store, std::uint32_t low, std::uint32_t high) {
  return store.repeat(free_json_character(store), low, high);
}

Expression json_space(ExpressionStore& store, std::uint32_t most) {
  const ByteSet blanks = ByteSet::of(' ') | ByteSet::of('\t'), breaks = ByteSet::of('\r') | ByteSet::of('\n');
  const Expression blank = store.bytes(blanks);
  const Expression line =
      store.concat({store.optional(store.text("\r")), store.text("\n"), store.repeat(blank, 0, 64)});
  const Expression all = store.concat(store.repeat(blank, 0, 16), store.repeat(line, 0, 2));
  if (most >= 16 + 2 * (2 + 64)) return all;
  return store.both(all, store.repeat(store.bytes(blanks | breaks), 0, most));
}

}  // namespace espalier::grammar
