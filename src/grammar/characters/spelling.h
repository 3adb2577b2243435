// spelling.h: characters and patterns over characters become expressions over bytes.
//
// Two spellings: plain UTF-8, and the inside of a JSON string (between its quotes), where each character is written in
// one way only: as it is where JSON allows that, else by its short escape, else as \u00xx with digits of either case.
// free_json_text() has the other ways too (\/ and any \uXXXX, surrogates only in pairs). A third is no text at all:
// each character as the number of its kind, one byte (character_kinds.h).
// Threads: as the store. Fails: unsupported for an anchor or look-ahead under a large repetition; otherwise never.
// Source:  the splitting of ranges of characters into ranges of bytes is Thompson's, as in RE2 and utf8-ranges.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "espalier/error.h"
#include "grammar/automaton/expression.h"
#include "grammar/characters/character_kinds.h"
#include "grammar/characters/code_points.h"
#include "grammar/regex/regex.h"

namespace espalier::grammar {

// Turns sets of characters and parsed patterns into expressions over bytes, in one spelling.
class Spelling {
 public:
  enum class Kind { plain, json };
  Spelling(ExpressionStore& store, Kind kind);
  Spelling(ExpressionStore& store, const CharacterKinds& kinds);  // for the sets that they tell apart

  Expression character(const CodePointSet& set);
  Expression any_character() const { return any_; }
  Expression text(std::string_view utf8);                      // Requires: UTF-8
  Expression any_of(std::span<const std::string_view> texts);  // Requires: UTF-8

  Result<Expression> whole(const Regex& regex);   // texts that it matches from end to end
  Result<Expression> search(const Regex& regex);  // texts that have a match anywhere
  // Its matches, as they stand at the start of a text or behind something. Requires: it does not look ahead or at the
  // end.
  Result<Expression> match(const Regex& regex, bool at_start);

 private:
  struct Reading {  // what a pattern needs to know about itself
    const Regex& regex;
    std::vector<Expression> plain;               // of nodes that only match characters
    std::vector<bool> looks;                     // nodes that look ahead or at the text's ends
    std::vector<bool> starts;                    // nodes that look at its start
    std::unordered_map<int, Expression> sets;    // by regex.sets
    Expression rest = ExpressionStore::nothing;  // any text
  };
  Reading prepare(const Regex& regex);
  Expression plain(Reading& reading, const RegexNode& node);
  Result<Expression> read(const Reading& reading, int index, Expression tail, bool at_start);
  Result<Expression> read_concat(const Reading& reading, std::span<const int> parts, Expression tail, bool at_start);
  Result<Expression> read_repeat(const Reading& reading, const RegexNode& node, Expression tail, bool at_start);

  Alphabet alphabet() const { return kind_ == Kind::plain ? Alphabet::plain : Alphabet::json; }

  ExpressionStore& store_;
  Kind kind_ = Kind::plain;
  const CharacterKinds* kinds_ = nullptr;
  Expression any_ = ExpressionStore::nothing;
};

// The text as it stands between the quotes of a JSON string. Requires: UTF-8.
std::string spelled(std::string_view utf8);

// Every text inside a JSON string once: as Spelling has it, with the digits of \u00xx in lower case. For counting.
Expression each_json_text_once(ExpressionStore& store);

// Any character inside a JSON string, and any text of low..high of them, in every way that JSON can write it.
Expression free_json_character(ExpressionStore& store);
Expression free_json_text(ExpressionStore& store, std::uint32_t low, std::uint32_t high);

// What flexible whitespace allows between the tokens of JSON: at most 16 blanks and two lines' ends, indented by at
// most 64 blanks each; `most` bytes of it.
Expression json_space(ExpressionStore& store, std::uint32_t most = ExpressionStore::unbounded);

}  // namespace espalier::grammar
