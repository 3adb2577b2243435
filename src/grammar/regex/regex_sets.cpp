#include "grammar/regex/regex_sets.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "text/unicode_class.h"

namespace espalier::grammar {
namespace {

// A class like \w has some 750 ranges. This is room for thousands of different ones, and some 30 MiB.
constexpr std::size_t kMostRanges = 4'000'000;

unsigned case_bits(const RegexFlags& flags) {
  return (flags.ignore_case ? 1u : 0u) | (flags.ascii ? 2u : 0u);
}

CodePointSet set_of_ranges(std::vector<CodePointRange> ranges) {
  const auto lower = [](const CodePointRange& a, const CodePointRange& b) { return a.low < b.low; };
  std::sort(ranges.begin(), ranges.end(), lower);
  CodePointSet set;
  for (const CodePointRange& range : ranges) set.add(range.low, range.high);
  return set;
}

Result<CodePointSet> unicode_set(std::string_view name) {
  ESP_TRY(const std::vector<CharacterRange> ranges, unicode_class(name));
  CodePointSet set;
  for (const CharacterRange& range : ranges) set.add(range.low, range.high);
  return set;
}

// What Python's str.isspace() knows and Unicode does not: the four separators of ASCII.
Result<CodePointSet> python_space() {
  ESP_TRY(CodePointSet set, unicode_set("White_Space"));
  set.add(0x1c, 0x1f);
  return set;
}

// str.isalnum() or '_'.
Result<CodePointSet> python_word() {
  ESP_TRY(CodePointSet set, unicode_set("L"));
  ESP_TRY(const CodePointSet numbers, unicode_set("N"));
  set.add(numbers);
  set.add('_');
  return set;
}

// Made once a process: each takes a tenth of a millisecond and most patterns have some.
const Result<CodePointSet>& unicode_perl_class(char letter) {
  static const Result<CodePointSet> digit = unicode_set("Nd");
  static const Result<CodePointSet> space = python_space();
  static const Result<CodePointSet> word = python_word();
  return letter == 'd' ? digit : letter == 's' ? space : word;
}

CodePointSet ascii_perl_class(char letter) {
  if (letter == 'd') return {'0', '9'};
  if (letter == 's') return set_of_ranges({{'\t', '\r'}, {' ', ' '}});
  return set_of_ranges({{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}});
}

// WhiteSpace and LineTerminator of ECMA 262.
Result<CodePointSet> ecma_space() {
  ESP_TRY(CodePointSet set, unicode_set("Zs"));
  set.add('\t', '\r');
  set.add(0x2028, 0x2029);
  set.add(0xFEFF);
  return set;
}

CodePointSet fold_ascii(CodePointSet set) {
  const CodePointSet upper = set.intersect({'A', 'Z'});
  const CodePointSet lower = set.intersect({'a', 'z'});
  for (const CodePointRange& range : upper.ranges()) set.add(range.low + 0x20, range.high + 0x20);
  for (const CodePointRange& range : lower.ranges()) set.add(range.low - 0x20, range.high - 0x20);
  return set;
}

// Python takes the i's with and without a dot for one letter; simple folding keeps them apart.
void join_turkic(CodePointSet& set) {
  constexpr std::array<std::uint32_t, 4> letters{'I', 'i', 0x130, 0x131};
  const auto has = [&set](std::uint32_t c) { return set.contains(c); };
  if (std::any_of(letters.begin(), letters.end(), has))
    for (const std::uint32_t letter : letters) set.add(letter);
}

// Unicode does not tell "Greek" from "GREEK" or "White_Space" from "whitespace"; equal names are looked up once.
std::string loose_name(std::string_view name) {
  std::string out;
  for (const char c : name)
    if (c != '_' && c != '-' && c != ' ') out.push_back(c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c);
  return out;
}

}  // namespace

bool RegexSets::ByContent::operator()(int a, int b) const {
  const auto& left = (*sets)[static_cast<std::size_t>(a)].ranges();
  const auto& right = (*sets)[static_cast<std::size_t>(b)].ranges();
  const auto lower = [](const CodePointRange& x, const CodePointRange& y) {
    return x.low != y.low ? x.low < y.low : x.high < y.high;
  };
  return std::lexicographical_compare(left.begin(), left.end(), right.begin(), right.end(), lower);
}

Result<> RegexSets::spend(std::size_t ranges, std::size_t at) {
  spent_ += ranges;
  if (spent_ > kMostRanges) return regex_too_complex("the classes are too large together, as of the one", at);
  return success();
}

Result<int> RegexSets::keep(CodePointSet set, std::size_t at) {
  ESP_CHECK(spend(set.ranges().size(), at));
  sets_.push_back(std::move(set));
  const auto [place, fresh] = by_content_.insert(static_cast<int>(sets_.size()) - 1);
  if (!fresh) sets_.pop_back();
  return *place;
}

Result<int> RegexSets::character(std::uint32_t c, const RegexFlags& flags, std::size_t at) {
  const std::uint64_t key = std::uint64_t{case_bits(flags)} << 32 | c;
  if (const auto known = characters_.find(key); known != characters_.end()) return known->second;
  ESP_TRY(CodePointSet set, fold({c, c}, flags));
  ESP_TRY(const int index, keep(std::move(set), at));
  characters_.emplace(key, index);
  return index;
}

Result<int> RegexSets::dot(const RegexFlags& flags, std::size_t at) {
  int& index = dots_[flags.dot_all ? 1 : 0];
  if (index >= 0) return index;
  CodePointSet ends;
  if (!flags.dot_all) ends.add('\n');
  if (!flags.dot_all && dialect_ == RegexDialect::ecma) {
    ends.add('\r');
    ends.add(0x2028, 0x2029);
  }
  ESP_TRY(index, keep(ends.complement(), at));
  return index;
}

Result<int> RegexSets::named(const RegexEscape& escape, const RegexFlags& flags, std::size_t at) {
  ESP_TRY(Named * named, find_named(escape, flags, at));
  if (named->index < 0) {
    ESP_TRY(named->index, keep(named->set, at));
  }
  return named->index;
}

Result<RegexSets::Named*> RegexSets::find_named(const RegexEscape& escape, const RegexFlags& flags, std::size_t at) {
  std::string key = loose_name(escape.name);
  key.push_back(escape.letter);
  key.push_back(static_cast<char>('0' + case_bits(flags) + (escape.negated ? 4u : 0u)));
  if (const auto known = named_.find(key); known != named_.end()) return &known->second;
  ESP_TRY(CodePointSet set, make_named(escape, flags, at));
  ESP_CHECK(spend(set.ranges().size(), at));
  return &named_.emplace(std::move(key), Named{std::move(set)}).first->second;
}

Result<CodePointSet> RegexSets::make_named(const RegexEscape& escape, const RegexFlags& flags, std::size_t at) const {
  auto set = escape.letter == 'p' ? unicode_set(escape.name) : perl_class(escape.letter, flags);
  if (!set.ok() && set.error().kind == Error::Kind::bad_request) return regex_malformed(set.error().message, at);
  if (!set.ok()) return set;
  // Python asks whether the character as it is belongs to \w and the like; those classes ignore case as they are.
  const bool folds = escape.letter == 'p' || dialect_ == RegexDialect::ecma;
  if (folds) set = fold(std::move(set).value(), flags);
  if (!set.ok() || !escape.negated) return set;
  return set->complement();
}

Result<CodePointSet> RegexSets::perl_class(char letter, const RegexFlags& flags) const {
  if (dialect_ == RegexDialect::python && !flags.ascii) return unicode_perl_class(letter);
  if (dialect_ == RegexDialect::ecma && letter == 's') return ecma_space();
  return ascii_perl_class(letter);
}

Result<CodePointSet> RegexSets::fold(CodePointSet set, const RegexFlags& flags) const {
  if (!flags.ignore_case) return set;
  if (flags.ascii) return fold_ascii(std::move(set));
  std::vector<CharacterRange> given;
  for (const CodePointRange& range : set.ranges()) given.push_back({range.low, range.high});
  ESP_TRY(const std::vector<CharacterRange> closure, case_closure(given));
  std::vector<CodePointRange> ranges;
  for (const CharacterRange& range : closure) ranges.push_back({range.low, range.high});
  CodePointSet out = set_of_ranges(std::move(ranges));
  if (dialect_ == RegexDialect::python) join_turkic(out);
  return out;
}

Result<int> RegexSets::bracket(RegexCursor& cursor, const RegexFlags& flags) {
  const std::size_t start = cursor.at() - 1;
  ESP_TRY(Bracket bracket, parse_bracket(cursor, flags));
  const std::pair key(case_bits(flags), cursor.since(start));
  if (const auto known = brackets_.find(key); known != brackets_.end()) return known->second;
  ESP_TRY(CodePointSet set, make_bracket(std::move(bracket), flags, start));
  ESP_TRY(const int index, keep(std::move(set), start));
  brackets_.emplace(key, index);
  return index;
}

Result<RegexSets::Bracket> RegexSets::parse_bracket(RegexCursor& cursor, const RegexFlags& flags) {
  const std::size_t start = cursor.at() - 1;
  Bracket bracket{.negated = cursor.take("^"), .ranges = {}, .named = {}};
  // Python takes a ']' that comes first for itself, ECMA for the end.
  bool first = dialect_ == RegexDialect::python;
  while (first || !cursor.take("]")) {
    ESP_CHECK(parse_items(cursor, flags, bracket, start));
    first = false;
  }
  return bracket;
}

// One item, or the range that it begins.
Result<> RegexSets::parse_items(RegexCursor& cursor, const RegexFlags& flags, Bracket& bracket, std::size_t start) {
  const std::size_t at = cursor.at();
  ESP_TRY(const Item low, parse_item(cursor, flags, start));
  const bool range = cursor.next_is('-') && !cursor.next_is(']', 1);
  if (!range) {
    if (low.set != nullptr) {
      bracket.named.insert(low.set);
    } else {
      bracket.ranges.push_back({low.character, low.character});
    }
    return success();
  }
  cursor.take("-");
  ESP_TRY(const Item high, parse_item(cursor, flags, start));
  return add_range(bracket, low, high, cursor.since(at), at);
}

Result<RegexSets::Item> RegexSets::parse_item(RegexCursor& cursor, const RegexFlags& flags, std::size_t start) {
  if (cursor.done()) return regex_malformed("a class that does not end, begun", start);
  const std::size_t at = cursor.at();
  if (!cursor.take("\\")) return Item{.character = cursor.take_character()};
  ESP_TRY(const RegexEscape escape, parse_regex_escape(cursor, dialect_, true));
  if (escape.kind == RegexEscape::Kind::character) return Item{.character = escape.character};
  ESP_TRY(const Named* named, find_named(escape, flags, at));
  return Item{.set = &named->set};
}

Result<> RegexSets::add_range(Bracket& bracket, const Item& low, const Item& high, std::string_view text,
                              std::size_t at) const {
  const bool between_characters = low.set == nullptr && high.set == nullptr;
  if (between_characters ? low.character > high.character : dialect_ == RegexDialect::python)
    return regex_malformed(fmt::format("bad class range {}", text), at);
  if (between_characters) {
    bracket.ranges.push_back({low.character, high.character});
    return success();
  }
  // Annex B of ECMA 262: with a class at either side the dash stands for itself.
  bracket.ranges.push_back({'-', '-'});
  for (const Item& item : {low, high}) {
    if (item.set != nullptr) bracket.named.insert(item.set);
    if (item.set == nullptr) bracket.ranges.push_back({item.character, item.character});
  }
  return success();
}

Result<CodePointSet> RegexSets::make_bracket(Bracket bracket, const RegexFlags& flags, std::size_t at) {
  std::size_t ranges = bracket.ranges.size();
  for (const CodePointSet* named : bracket.named) ranges += named->ranges().size();
  ESP_CHECK(spend(ranges, at));
  ESP_TRY(CodePointSet set, fold(set_of_ranges(std::move(bracket.ranges)), flags));
  for (const CodePointSet* named : bracket.named) set.add(*named);
  return bracket.negated ? set.complement() : set;
}

}  // namespace espalier::grammar
