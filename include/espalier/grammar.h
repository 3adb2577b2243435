// grammar.h: constraints on generated text, and what they say token by token.
//
// A Constraint is data: a kind and its text. A Grammar is a compiled one, through which any number of texts are
// followed. Compiling reads the constraint and works out almost nothing: states and token masks come into being where
// a text goes, and are shared by all texts of the grammar.
// Units:   masks are bitsets over token ids, bit i % 32 of word i / 32.
// Threads: a Grammar may be used by any number of threads.
// Fails:   compile(): bad_request with code grammar_invalid or grammar_too_complex, unsupported for what cannot be
//          honoured exactly; both name the place. A limit that is met while text is generated turns up as an Error of
//          the text that met it, code grammar_too_complex.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/error.h"
#include "espalier/types.h"

namespace espalier {

class Tokenizer;

namespace grammar {
class Grammar;  // a compiled constraint (grammar/grammar.h)
}

// What an output must satisfy: a kind, its text and options.
struct Constraint {
  enum class Kind {
    none,
    regex,           // text: the pattern; the whole output matches
    json_schema,     // text: the schema, JSON
    json_object,     // any JSON object
    ebnf,            // text: rules, start rule root
    lark,            // text: rules, start rule start
    choice,          // text: a JSON list of strings
    structural_tag,  // text: JSON
  };
  Kind kind = Kind::none;
  std::string text;
  bool flexible_whitespace = false;  // of JSON: none between tokens, or runs of bounded length
  // Which objects and arrays of a schema may have members that it does not mention.
  enum class Closed {
    as_written,  // all, as JSON Schema reads itself
    declared,    // not objects that list their properties, unless several schemas speak of one object (allOf, $ref ...)
    all,         // none that do not say so
  };
  Closed closed = Closed::as_written;
  // Of a structural tag: where its texts (not those of its schemas, patterns and rules) have the text of one of these
  // special tokens, that token comes. Free text may have those in `special_in_free_text`; other constraints have none.
  std::vector<TokenId> special = {}, special_in_free_text = {};

  bool operator==(const Constraint&) const = default;
};

// How large a constraint may be, and how much compiling and following it may take.
struct GrammarLimits {
  std::size_t text_bytes = 8u << 20;
  std::size_t nodes = 1'500'000;   // expressions; about 60 bytes each
  std::size_t memory = 96u << 20;  // bytes of all that it holds
  std::size_t states = 500'000;    // of the automaton; about 100 bytes each
  std::uint32_t nesting = 1000;    // rules open at once; text that would open more is not allowed
  std::chrono::milliseconds compile_time{1000};
  std::chrono::milliseconds wait_time{500};  // for others that take long to compile, before it begins
  // Of the thread's own time, for the first masks; those that take longer are left for later.
  std::chrono::milliseconds foresight_time{100};
  // Of all its masks and of reading, but for the first 10 ms of each.
  std::chrono::milliseconds step_time{500};
};

namespace grammar {

// What has happened to a constraint that may take long to compile, before it comes to it.
struct Waited {
  std::chrono::milliseconds for_others{0};  // in queues
  std::chrono::milliseconds altogether{0};  // since it was asked for: its own reading, too
};

}  // namespace grammar

}  // namespace espalier
