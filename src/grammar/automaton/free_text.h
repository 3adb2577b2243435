// free_text.h: text without form, up to words that end it or that it must not have, as expressions.
//
// Units:   characters are code points. Threads: as the store. Fails: never; as the store beyond its limits.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/automaton/expression.h"

namespace espalier::grammar {

// Builds the expression of text that goes on until one of some words, or without some words.
class FreeText {
 public:
  using Words = std::vector<std::string>;  // UTF-8, none empty where nothing else is said
  struct Way {                             // what goes on from a word in the text
    std::string begin;
    Expression rest = ExpressionStore::nothing;  // behind it
  };

  FreeText(ExpressionStore& store, Expression any_character);

  Expression any_of(const Words& words);  // these may be empty
  // Text in which none of the words occurs.
  Expression without(const Words& words, std::uint32_t most_characters = ExpressionStore::unbounded);
  // The same up to one of the ends, and with it: nothing of what comes before is where an end begins.
  Expression up_to_end(const Words& ends, const Words& excluded, std::uint32_t most_characters);

  struct Dispatch {
    std::vector<Way> ways;
    Words triggers;  // each way begins with one
    Words excluded;  // neither the text between the ways nor the triggers have these
    bool begin_with_way = false, only_one = false;
  };
  // Where a trigger first occurs in free text, one of the ways that begin with it goes on from there.
  Expression dispatch(const Dispatch& in);

 private:
  Expression containing(const Words& words);
  Words begun_ends(const std::string& end, const Words& ends);
  Expression up_to_trigger(const Dispatch& in, const std::string& trigger, Expression earlier);
  Expression whole(const Way& way);

  ExpressionStore& store_;
  Expression any_character_, something_;
};

}  // namespace espalier::grammar
