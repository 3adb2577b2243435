// schema_reader.h: the keywords of a schema become a formula.
//
// Schemas inside are single constraints `schema n`, read when they are needed, so that recursion costs nothing here.
// Drafts 4, 6, 7, 2019-09 and 2020-12; keywords that only describe (title, default, ...) and unknown ones are ignored,
// as the specification wants; `format` is checked for the formats of formats.h.
// Closing objects and arrays (SchemaOptions::closed) leaves out values and never adds one: where a schema is a
// condition (not, if, what a oneOf excludes, what maxContains counts) it is read as it is written.
// Threads: one at a time.
// Fails:   bad_request (a keyword's value is malformed) and unsupported (it cannot be honoured), both with the keyword
//          and the JSON pointer as field.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory_resource>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/incremental_free.h"
#include "espalier/grammar.h"
#include "grammar/automaton/stable_pool.h"
#include "grammar/characters/spelling.h"
#include "grammar/json_schema/formula.h"
#include "grammar/json_schema/number_text.h"
#include "grammar/json_schema/schema_document.h"

namespace espalier::grammar {

// Numbers for what constraints refer to.
template <class Value>
class Numbered {
 public:
  std::uint32_t number(const std::string& key, Value value) {
    const auto [place, fresh] = numbers_.try_emplace(key, static_cast<std::uint32_t>(values_.size()));
    if (fresh) values_.push_back(std::move(value));
    return place->second;
  }
  const Value& operator[](std::uint32_t number) const { return values_[number]; }
  std::size_t size() const { return values_.size(); }

 private:
  std::vector<Value> values_;
  std::unordered_map<std::string, std::uint32_t> numbers_;
};

// The same for texts, each of which is kept once. A schema may have a hundred thousand names: what is kept is freed in
// large pieces.
class NumberedTexts {
 public:
  std::uint32_t number(std::string_view text) {
    if (const auto known = numbers_.find(text); known != numbers_.end()) return known->second;
    const std::span<const char> kept = characters_.add(text);
    const auto number = static_cast<std::uint32_t>(texts_.size());
    numbers_.emplace(texts_.emplace_back(kept.data(), kept.size()), number);
    return number;
  }
  std::string_view operator[](std::uint32_t number) const { return texts_[number]; }
  std::size_t size() const { return texts_.size(); }
  std::size_t memory() const { return kEntry * texts_.size() + characters_.memory(); }  // bytes, about

 private:
  static constexpr std::size_t kEntry = 60;
  StablePool<char> characters_;
  std::pmr::monotonic_buffer_resource entries_;
  std::pmr::unordered_map<std::string_view, std::uint32_t> numbers_{&entries_};
  std::vector<std::string_view> texts_;
};

struct NameSet {  // what additionalProperties leaves out
  std::vector<std::uint32_t> names;
  std::vector<Expression> patterns;
  std::vector<std::uint32_t> sorted;  // the names, once it has a number: each name of a schema is looked for
};

// What reading and expanding a schema share: the stores of expressions and formulas, patterns, names.
struct SchemaTables {
  explicit SchemaTables(ExpressionStore& store) : spelling(store, Spelling::Kind::json), expressions(store) {}
  // False when there is no time left: formulas stop growing, and whoever asked for them looks at the store.
  bool goes_on() {
    if (expressions.spend() && !formulas.exhausted()) return true;
    expressions.exhaust();
    formulas.exhaust();
    return false;
  }
  std::uint32_t text(const std::string& s) { return texts.number(s); }
  std::uint32_t decimal(const Decimal& d) { return decimals.number(d.text(), d); }
  std::size_t memory() const { return formulas.memory() + texts.memory() + name_bytes; }
  Result<Expression> searched(std::string_view pattern);  // strings in which this matches somewhere (ECMA 262)

  std::uint32_t name_set(NameSet set) {
    set.sorted = set.names;
    std::ranges::sort(set.sorted);
    name_bytes += sizeof(NameSet) + 2 * set.names.size() * sizeof(set.names[0]);
    name_sets.push_back(std::move(set));
    return static_cast<std::uint32_t>(name_sets.size() - 1);
  }

  Spelling spelling;
  ExpressionStore& expressions;
  FormulaStore formulas;
  NumberedTexts texts;  // names and strings, as they are in memory
  Numbered<Decimal> decimals;
  std::unordered_map<std::uint32_t, std::vector<std::string>> spellings;  // of decimals, as the schema has them
  std::vector<NameSet> name_sets;
  std::size_t name_bytes = 0;
};

// In which order the members of objects may come.
enum class MemberOrder {
  declared,   // as the schema names them
  any,        // whatever order
  automatic,  // any for schemas that describe documents (SchemaReader::describes_documents), else declared
};

// How values are written: whitespace, order of members, whether objects are closed.
struct SchemaOptions {
  // Whitespace between tokens: none, or as JSON allows it in runs of bounded length.
  bool flexible_whitespace = false;
  Constraint::Closed closed = Constraint::Closed::as_written;
  MemberOrder order = MemberOrder::automatic;
  std::uint32_t most_space = 0xffffffff;  // bytes of whitespace at one place, where it is flexible
};

// Reads schemas into formulas, keyword by keyword.
class SchemaReader {
 public:
  SchemaReader(SchemaDocument& document, SchemaTables& tables, SchemaOptions options)
      : document_(document),
        tables_(tables),
        all_closed_(options.closed == Constraint::Closed::all),
        closes_(all_closed_ || (options.closed == Constraint::Closed::declared && !document.combines())) {}

  // Reads all schemas that can be reached. `about` is asked for an object that lives while the schema is read.
  template <class About>
  Result<> read_all(About about);
  Result<Formula> formula(SchemaNumber number, bool as_written = false);
  bool closes() const { return closes_; }
  // Whether a schema that was read so far relates members or whole schemas to one another (oneOf of objects, not, if,
  // dependencies, names, contents, formats of somebody's own): it describes documents whose order is not its own.
  bool describes_documents() const { return describes_documents_; }
  bool chooses() const { return chooses_; }                     // there was a oneOf, of whatever
  bool compares_items() const { return compares_items_; }       // what may follow an item depends on its value
  std::size_t memory() const { return formulas_.size() * 32; }  // bytes, about
  // A formula for exactly this value.
  Result<Formula> equal_to(const Json& value);
  // The same for a value that somebody has written; of several members of one name the last one counts. Numbers of
  // many hundred digits stand for their neighbours too, what is nested a thousand times for all arrays or objects.
  Formula equal_to_text(std::string_view json);

 private:
  struct Reading {  // one schema
    SchemaNumber number = 0;
    const Json& schema;
    bool as_written = false;  // nothing is closed
    std::vector<Formula> parts = {};

    const Json* find(const char* keyword) const {
      const auto found = schema.find(keyword);
      return found == schema.end() ? nullptr : &*found;
    }
  };
  // What a schema, or one that it applies to the same value, evaluates while the conditions hold (unevaluated.cpp).
  struct Evaluated {
    std::vector<Formula> conditions;
    NameSet names;
    bool all_members = false;
    std::uint32_t items = 0;  // the first ones
    bool all_items = false;
    std::vector<Formula> matching;    // items that satisfy one of these
    void add(const Evaluated& more);  // whatever its conditions
  };
  struct Branch {
    SchemaNumber schema = 0;
    std::optional<Formula> condition;
  };
  using Read = Result<> (SchemaReader::*)(Reading&, const Json& value);
  struct Keyword {
    std::string_view name;
    Read read;
    bool in_order = false;  // of the document: it decides the order of members
  };
  static const std::vector<Keyword>& keywords();

  Formula one(Demand::Kind kind, std::uint32_t a, std::uint32_t b = 0, std::uint32_t c = 0);
  Formula typed(std::uint32_t types, Formula formula);
  Formula equal_to_written(const std::string& number);
  Formula applied(const Reading& in, SchemaNumber number);
  Formula subschema(const Reading& in, const Json& value, std::string_view keyword, std::string_view token = {});
  // The same where it decides what else must hold.
  Formula condition(const Reading& in, const Json& value, std::string_view keyword, std::string_view token = {});
  Result<std::vector<Formula>> list(Reading& in, const Json& value, std::string_view keyword);
  Result<Expression> pattern(Reading& in, const std::string& source, std::string_view keyword);
  Result<std::uint32_t> count(Reading& in, const Json& value, std::string_view keyword);
  Result<Decimal> decimal(Reading& in, const Json& value, std::string_view keyword);
  Result<> flag_bound(Reading& in, const Json& value, std::string_view keyword, std::string_view bound,
                      Demand::Kind kind);
  Error refuse(const Reading& in, std::string_view keyword, std::string_view why) const;
  // `token`: of what the keyword has, the member at fault.
  Error malformed(const Reading& in, std::string_view keyword, std::string_view wanted,
                  std::optional<std::string_view> token = {}) const;

  Result<> read_in_order(Reading& in, bool only_ref);
  Result<> read_ref(Reading& in, const Json& value);
  Result<> read_dynamic_ref(Reading& in, const Json& value);
  Result<> read_type(Reading& in, const Json& value);
  Result<> read_enum(Reading& in, const Json& value);
  Result<> read_const(Reading& in, const Json& value);
  Result<> read_properties(Reading& in, const Json& value);
  Result<> read_pattern_properties(Reading& in, const Json& value);
  Result<> read_additional_properties(Reading& in, const Json& value);
  Result<> read_property_names(Reading& in, const Json& value);
  Result<> read_required(Reading& in, const Json& value);
  Result<> read_dependent_required(Reading& in, const Json& value);
  Result<> read_dependent_schemas(Reading& in, const Json& value);
  Result<> read_dependencies(Reading& in, const Json& value);
  Result<std::vector<Formula>> required_names(Reading& in, const std::string& name, const Json& value,
                                              std::string_view keyword);
  void depend(Reading& in, const std::string& name, Formula then);
  Result<> read_min_properties(Reading& in, const Json& value);
  Result<> read_max_properties(Reading& in, const Json& value);
  Result<> read_prefix_items(Reading& in, const Json& value);
  Result<> read_items(Reading& in, const Json& value);
  Result<> read_additional_items(Reading& in, const Json& value);
  Result<> read_contains(Reading& in, const Json& value);
  Result<> read_draft3_only(Reading& in, std::string_view keyword, std::string_view instead);
  Result<> read_extends(Reading& in, const Json& value);
  Result<> read_disallow(Reading& in, const Json& value);
  Result<> read_min_items(Reading& in, const Json& value);
  Result<> read_max_items(Reading& in, const Json& value);
  Result<> read_unique_items(Reading& in, const Json& value);
  Result<> read_min_length(Reading& in, const Json& value);
  Result<> read_max_length(Reading& in, const Json& value);
  Result<> read_pattern(Reading& in, const Json& value);
  Result<> read_format(Reading& in, const Json& value);
  Result<> read_minimum(Reading& in, const Json& value);
  Result<> read_maximum(Reading& in, const Json& value);
  Result<> read_exclusive_minimum(Reading& in, const Json& value);
  Result<> read_exclusive_maximum(Reading& in, const Json& value);
  Result<> read_multiple_of(Reading& in, const Json& value);
  Result<> read_all_of(Reading& in, const Json& value);
  Result<> read_any_of(Reading& in, const Json& value);
  Result<> read_one_of(Reading& in, const Json& value);
  bool may_be_object(const Reading& in, const Json& schema);
  Result<> read_not(Reading& in, const Json& value);
  Result<> read_if(Reading& in, const Json& value);
  Result<> read_unevaluated_properties(Reading& in, const Json& value);
  Result<> read_unevaluated_items(Reading& in, const Json& value);
  void close(Reading& in);
  Result<NameSet> declared_names(Reading& in);
  Formula additional(NameSet others, Formula value);
  Result<std::vector<Evaluated>> evaluated_by(Reading& in);
  Result<> evaluate(Reading in, const std::vector<Formula>& conditions, bool root, std::vector<Evaluated>& found);
  Result<Evaluated> own_evaluation(Reading& in, bool root);
  Result<std::vector<Branch>> branches(Reading& in);
  Result<Formula> in_every_case(Reading& in, std::string_view keyword,
                                const std::function<Formula(const Evaluated&)>& rest);

  SchemaDocument& document_;
  SchemaTables& tables_;
  bool all_closed_ = false, closes_ = false;
  bool describes_documents_ = false, chooses_ = false;
  bool compares_items_ = false;
  bool reads_written_ =
      false;  // values, not a schema, whose spellings of numbers are ways in which they may be written
  IncrementallyFreed<std::unordered_map<std::uint64_t, Formula>>
      formulas_;                          // by number, and whether it is read as written
  std::vector<SchemaNumber> conditions_;  // that are to be read as written
  std::unordered_set<SchemaNumber> known_conditions_;
  std::unordered_map<std::string, Expression> patterns_;
  std::unordered_map<const Regex*, Expression> formats_;
};

template <class About>
Result<> SchemaReader::read_all(About about) {
  SchemaNumber number = 0;
  for (std::size_t condition = 0; tables_.goes_on();) {
    if (number < document_.size()) {
      const auto reading = about(number);
      ESP_CHECK(formula(number++));
    } else if (condition < conditions_.size()) {
      const auto reading = about(conditions_[condition]);
      ESP_CHECK(formula(conditions_[condition++], true));
    } else {
      break;
    }
  }
  return success();
}

}  // namespace espalier::grammar
