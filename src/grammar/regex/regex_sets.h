// regex_sets.h: the sets of a pattern's single characters, equal ones shared. Internal to regex.cpp.
//
// A set is made once for each way of writing it, and kept once for each content, so that neither time nor memory grows
// with repetition; what different sets may cost together is limited.
// Threads: one at a time. Fails: as regex.h says.
#pragma once

#include <array>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "grammar/characters/code_points.h"
#include "grammar/regex/regex.h"
#include "grammar/regex/regex_cursor.h"
#include "grammar/regex/regex_escapes.h"

namespace espalier::grammar {

// Builds the sets of a pattern and gives equal ones the same index.
class RegexSets {
 public:
  explicit RegexSets(RegexDialect dialect) : dialect_(dialect) {}
  RegexSets(const RegexSets&) = delete;
  RegexSets& operator=(const RegexSets&) = delete;

  // Indices into what take() gives; `at` is where the construct begins.
  Result<int> character(std::uint32_t c, const RegexFlags& flags, std::size_t at);
  Result<int> dot(const RegexFlags& flags, std::size_t at);
  Result<int> named(const RegexEscape& escape, const RegexFlags& flags, std::size_t at);
  Result<int> bracket(RegexCursor& cursor, const RegexFlags& flags);  // cursor behind '['

  std::vector<CodePointSet> take() { return std::move(sets_); }

 private:
  struct Bracket {
    bool negated = false;
    std::vector<CodePointRange> ranges;
    std::set<const CodePointSet*> named;
  };
  struct Item {  // one side of a range
    std::uint32_t character = 0;
    const CodePointSet* set = nullptr;  // instead of the character
  };
  struct Named {
    CodePointSet set;
    int index = -1;  // once it stands outside a bracket
  };
  struct ByContent {
    const std::vector<CodePointSet>* sets;
    bool operator()(int a, int b) const;
  };

  Result<Named*> find_named(const RegexEscape& escape, const RegexFlags& flags, std::size_t at);
  Result<CodePointSet> make_named(const RegexEscape& escape, const RegexFlags& flags, std::size_t at) const;
  Result<CodePointSet> perl_class(char letter, const RegexFlags& flags) const;
  Result<CodePointSet> fold(CodePointSet set, const RegexFlags& flags) const;

  Result<Bracket> parse_bracket(RegexCursor& cursor, const RegexFlags& flags);
  Result<> parse_items(RegexCursor& cursor, const RegexFlags& flags, Bracket& bracket, std::size_t start);
  Result<Item> parse_item(RegexCursor& cursor, const RegexFlags& flags, std::size_t start);
  Result<> add_range(Bracket& bracket, const Item& low, const Item& high, std::string_view text, std::size_t at) const;
  Result<CodePointSet> make_bracket(Bracket bracket, const RegexFlags& flags, std::size_t at);

  Result<> spend(std::size_t ranges, std::size_t at);
  Result<int> keep(CodePointSet set, std::size_t at);

  const RegexDialect dialect_;
  std::vector<CodePointSet> sets_;
  std::set<int, ByContent> by_content_{ByContent{&sets_}};
  std::unordered_map<std::uint64_t, int> characters_;              // by character and flags
  std::array<int, 2> dots_{-1, -1};                                // by dot_all
  std::map<std::string, Named> named_;                             // by letter, flags and name
  std::map<std::pair<unsigned, std::string_view>, int> brackets_;  // by flags and text
  std::size_t spent_ = 0;                                          // ranges handled
};

}  // namespace espalier::grammar
