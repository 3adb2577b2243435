// schema_grammar.h: a JSON Schema as an expression that reads exactly the values it allows.
//
// A value is read type by type: what a formula says of strings and numbers becomes one regular expression each; objects
// and arrays are read member by member, the formula of what is still to be satisfied being the state. Reading a member
// replaces every constraint by what is left of it and asks which schemas its value satisfies (`decide`): so allOf,
// anyOf, oneOf, not, if/then/else and dependencies all come out exact, and only what a text visits is ever worked out.
// A member is offered only when some valid document contains it.
//
// Written form: JSON without superfluous escapes in names and in strings with a pattern; members in the order in which
// the schema names them, as far as that order tells what comes next (schema_objects.cpp). Numbers under a bound or a
// factor have no exponent, integers no fraction.
// Threads: one at a time. The schema is looked at by make() only.
// Fails:   make(): as SchemaReader, and bad_request naming the innermost schema that no value satisfies, that has too
//          many ways, or that refers to itself without reading anything. Later never: the store is exhausted then.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/incremental_free.h"
#include "grammar/json_schema/schema_reader.h"

namespace espalier::grammar {

// The ExpressionSource of a schema: makes expressions of values as texts reach them.
class SchemaGrammar final : public ExpressionSource {
 public:
  static Result<std::unique_ptr<SchemaGrammar>> make(ExpressionStore& store, const Json& schema,
                                                     const SchemaOptions& options);

  Expression root() const { return root_; }

  Expression rule_body(Rule rule) override;
  Expression expand(std::uint32_t payload) override;
  Expression recall(std::uint32_t payload, std::string_view text) override;
  std::uint32_t least(std::uint32_t payload) override;
  std::uint32_t as_short(std::uint32_t payload) override;
  std::size_t memory() const override;

 private:
  using Kind = Demand::Kind;
  enum class Type : std::uint8_t { null, boolean, number, string, array, object };

  struct Shape {                       // what an object's formula says outright, member by member
    std::vector<std::uint32_t> names;  // in order
    IncrementallyFreed<std::unordered_map<std::uint32_t, std::size_t>> places;
    std::vector<Formula> values;  // by place: what its value must satisfy
    std::vector<bool> required;
    std::vector<std::uint32_t> required_places;
    bool contradicted = false;                  // `required` has names in another order
    bool optional = false;                      // some name may be left out, or no schema both lists and requires it
    bool apart = false;                         // no schema both lists and requires a name that must come
    bool closed = false;                        // names that the schema does not list cannot come
    std::vector<std::uint32_t> required_order;  // their places in the order of `required`
    std::vector<bool> asked;                    // by place: some schema wants the name, or its value, to be something
    std::vector<Formula> rest;                  // constraints on other names
    std::vector<Expression> patterns;           // that tell apart names that are not in `names`
    Expression other_names = ExpressionStore::nothing;
    // `required` has all names, in the same order.
    bool written_twice() const { return !contradicted && !optional && !required_places.empty(); }
    std::vector<std::vector<std::uint32_t>> endings;  // members that have completed such objects, the last ones first
  };
  // Names of an object that come in the order in which its schema has them.
  enum class Order : std::uint8_t {
    all,       // those that may be left out too; what was passed cannot come any more
    required,  // up to the last one that must come; behind it the names that are left come in any order
    none,
  };
  struct Container {  // an object or array of which some members have been read
    bool object = false, first = true;
    std::uint32_t shape = 0;  // of objects
    std::uint32_t place = 0;  // objects: names before it are not offered now; arrays: items read, up to `cap`
    Order order = Order::all;
    std::uint32_t seen = 0;     // of objects, where not all names are in order: the set of those that have come
    std::uint32_t cap = 0;      // of arrays
    std::uint32_t written = 0;  // values (of arrays whose items must differ) or names (schema_names.cpp) not to repeat
    std::uint32_t unknown = 0;  // those passed over in looking whether it can be completed: what they satisfy
    bool lasting = false;       // of objects: the names of `written` must not come again at all
    std::uint32_t min_left = 0, max_left = ExpressionStore::unbounded;
    Formula rest = FormulaStore::always;
    bool operator==(const Container&) const = default;
  };
  struct ContainerHash {
    std::size_t operator()(const Container& c) const;
  };
  struct Multiple {  // digits of a number of which the value so far, in units of the factor, leaves `remainder`
    std::uint32_t factor = 0, remainder = 0, fraction_digits = 0;
    enum class Phase : std::uint8_t { start, sign, zero, whole, fraction, zeros } phase = Phase::start;
    bool integers = false;                                       // written without fraction
    std::uint32_t least = 0, most = ExpressionStore::unbounded;  // digits that are still to come before the point
    bool operator==(const Multiple&) const = default;
  };
  struct MultipleHash {
    std::size_t operator()(const Multiple& m) const;
  };
  struct Member {
    Expression key = ExpressionStore::empty;  // behind its opening quote, up to the value
    Formula value = FormulaStore::always;
    Container next;
    bool recorded = false;  // what may follow depends on the value
    // Of a member that the schema does not list: the names that it may have, and the same as a word with its quote.
    Expression names = ExpressionStore::nothing, word = ExpressionStore::nothing;
  };
  struct Choice {
    Formula value = FormulaStore::always, rest = FormulaStore::always;
  };
  using UseChoice = std::function<bool(const Choice&)>;  // true: no more are wanted
  struct Entry {                                         // an object's member of which the name has been read
    std::uint32_t container = 0, place = 0;
    Formula rest = FormulaStore::always;
    bool value_read = false;  // and its value, which decides nothing
  };
  struct Ending {  // members that complete an object
    std::vector<std::uint32_t> places;
    std::optional<Formula> left;  // to be satisfied behind them, with values that complete it; if it is known
  };
  struct OpenName {  // an object's member under a name that the schema does not list, and that must not come again
    std::uint32_t container = 0;
    Formula rest = FormulaStore::always;
    Expression names = ExpressionStore::nothing;
  };
  struct ValueCount {  // of a formula: fewer than `enough`, or as many and maybe more
    std::uint64_t enough = 0, count = 0;
    int steps_left = 0;
  };
  struct ValueList {
    std::vector<std::string> texts;  // each value's JSON
    int steps_left = 0;
  };
  struct Outline {  // what a formula says of objects, whatever it says of alternatives
    IncrementallyFreed<std::unordered_map<std::uint32_t, std::vector<Formula>>> values;  // by name
    std::unordered_set<std::uint32_t> required;
    std::vector<Demand> general;  // on values under any name
    bool counts = false;          // members, or speaks of names
  };

  SchemaGrammar(ExpressionStore& store, SchemaDocument document, SchemaOptions options);
  Result<> open();
  Result<> read_all();
  Formula schema(SchemaNumber number);  // all that it says

  // schema_refusals.cpp: what is told of a schema that is refused as a whole
  struct Asked {
    SchemaNumber schema = 0;
    std::size_t made_before = 0;
  };
  class Asking {  // about a schema; once a limit is met, for good
   public:
    Asking(SchemaGrammar& grammar, std::optional<SchemaNumber> schema)
        : grammar_(grammar), counts_(schema && !grammar.limit_met()) {
      if (counts_) grammar_.asked_.push_back({*schema, grammar_.made()});
    }
    ~Asking() {
      if (counts_ && !grammar_.limit_met()) grammar_.asked_.pop_back();
    }
    Asking(const Asking&) = delete;
    Asking& operator=(const Asking&) = delete;

   private:
    SchemaGrammar& grammar_;
    const bool counts_;
  };
  std::size_t made() const { return store_.size() + formulas_.size(); }
  bool limit_met() const { return store_.exhausted() || formulas_.exhausted(); }
  std::optional<SchemaNumber> schema_in(Formula formula) const;
  Error too_complex() const;
  Error without_value();
  std::vector<SchemaNumber> needed_parts(SchemaNumber number);

  // Of one type; values; what arrays and objects share (schema_grammar.cpp).
  Expression settled(Expression made);
  Formula restrict(Formula formula, Type type);
  Formula restrict_one(const Demand& demand, bool negated, Type type);
  Expression value(Formula formula);
  Expression body(Formula formula);
  Expression scalars(Formula formula);
  bool allows_truth(Formula formula, bool value);
  bool possible(Formula formula);
  bool possible(const Container& container);
  bool goes_deeper();
  bool search(const Container& container);
  std::uint32_t payload_of(const Container& container);
  Expression later(const Container& container);
  Expression awaiting(const Container& at, const Member& item);
  Expression expand(const Container& container);
  bool finished(Formula formula);
  std::vector<Choice> decide(Formula rest, Formula value);
  bool decide_each(Formula rest, Formula value, const UseChoice& use);

  // schema_strings.cpp
  std::optional<std::vector<std::uint32_t>> literals(Formula formula) const;
  // Whether it allows some of a list at most: the texts of these are paths of their own and no word.
  bool is_listed(Formula formula) const;
  bool excludes_text(Formula formula) const;
  Expression without_exclusions(Formula formula);
  Expression string_text(Formula formula);  // inside the quotes
  Expression string_part(Formula formula);
  Expression all_of_format(std::uint32_t partial_format);
  Expression one_of(std::span<const std::uint32_t> texts);  // of tables_.texts

  // schema_numbers.cpp
  Expression number_text(Formula formula);
  Expression number_part(Formula formula);

  // schema_multiples.cpp
  class MultiplesBetween;
  Expression multiple_of(std::uint32_t factor, bool integers);
  Expression multiple_between(std::uint32_t factor, bool integers, const std::optional<NumberBound>& low,
                              const std::optional<NumberBound>& high);
  void join_factors(std::vector<std::uint32_t>& factors);
  Factor factor_of(const Multiple& state) const;
  bool can_end(const Multiple& state) const;
  bool can_go_on(const Multiple& state) const;
  std::uint32_t least(const Multiple& state) const;
  Expression multiple(const Multiple& state);
  std::optional<Multiple> after_digit(Multiple state, Multiple::Phase phase, unsigned digit) const;
  Expression digit_steps(const Multiple& state, Multiple::Phase phase);
  Expression expand(const Multiple& state);

  // schema_arrays.cpp
  std::optional<Container> open_array(Formula formula);
  std::vector<Member> items(const Container& container);
  Formula at_item(Formula formula, std::uint32_t place, std::uint32_t written);
  bool search_array(const Container& array);

  // schema_unique_items.cpp
  bool speaks_of(Formula formula, Kind kind) const;
  std::uint32_t numbered(std::vector<Formula> sorted);
  std::uint32_t with_written(std::uint32_t set, Formula value);
  std::uint32_t with_unknown(const Member& item);
  std::uint64_t rivals(const Container& array, Formula value);
  bool can_differ(const Container& array, Formula more, std::uint64_t count);
  Formula leaving_others_theirs(const Member& item);
  bool search_unique(const Container& array);
  std::vector<Member> repeating_items(const Container& array);

  // schema_counts.cpp
  std::uint64_t count_values(Formula formula, std::uint64_t enough);
  std::uint64_t count_values(Formula formula, ValueCount& limits);
  Expression each_once(Expression strings);
  std::uint64_t count_scalars(Formula formula, std::uint64_t enough);
  std::optional<std::vector<Formula>> listed_values(Formula formula);
  bool list_values(Formula formula, ValueList& list);
  bool list_scalars(Formula formula, std::vector<std::string>& texts);
  std::optional<std::vector<std::string>> begun_with(const std::string& before, Formula value, ValueList& list);
  bool list_items(const Container& array, const std::string& begun, ValueList& list);
  bool list_objects(Formula objects, ValueList& list);
  bool list_members(Formula rest, std::span<const std::uint32_t> names, const std::string& begun, ValueList& list);
  std::optional<std::vector<std::uint32_t>> mentioned_names(Formula objects);
  bool takes_others(Formula rest);
  std::uint64_t count_arrays(const Container& array, ValueCount& limits);
  std::uint64_t count_objects(Formula objects, ValueCount& limits);
  std::uint64_t count_members(Formula rest, std::span<const std::uint32_t> names, ValueCount& limits);

  // schema_objects.cpp
  std::vector<Container> open_objects(Formula formula);
  std::vector<Container> ways_in_order(Formula formula);
  std::vector<Container> open_ways(const std::vector<Formula>& formulas);
  std::vector<Formula> alternatives(Formula formula);
  std::vector<Formula> choices_of(Formula formula);
  bool add_choices(Formula formula, std::vector<Formula>& choices);
  void collect_names(Formula formula, Shape& shape);
  static void require(Shape& shape, std::uint32_t name);
  Container open_object(Formula formula);
  std::span<const Formula> conjuncts(const Formula& formula) const;
  std::uint32_t shape_of(Formula formula);
  void collect_values(Formula formula, Shape& shape);
  void tell_other_names_apart(Formula formula, Shape& shape);
  Order order_of(const Shape& shape) const;
  bool has_two_orders(const Shape& shape) const;
  std::uint32_t required_first(std::uint32_t number);
  static bool contradict(const Shape& a, const Shape& b);
  std::vector<Member> members(const Container& container, std::vector<Entry>& entries, std::vector<Expression>& bodies,
                              bool& may_close);
  Member named_member(const Container& at, std::uint32_t place, const Choice& choice);
  void named_members(const Container& at, std::uint32_t place, Formula rest, std::vector<Member>& out);
  void other_members(const Container& at, Formula rest, std::vector<Member>& out);
  Formula at_member(Formula formula, std::uint32_t name);
  Formula at_other_member(Formula formula, const std::vector<Expression>& patterns, std::uint64_t matched);
  Formula pass_name(Formula formula, std::uint32_t name);
  bool name_matches(std::uint32_t name, Expression pattern);
  bool in_name_set(std::uint32_t name, const NameSet& set);
  bool seen(const Container& object, std::uint32_t place) const;
  std::uint32_t with_seen(std::uint32_t set, std::uint32_t place);
  Container in_order(Container object) const;
  bool waits(const Container& object) const;
  Expression name_pattern(Formula formula);  // names that satisfy it
  Expression key_text(std::uint32_t name);

  // schema_names.cpp: names that the schema does not list and that must not come twice
  bool counts_members(Formula formula);
  bool remembers_names(const Container& at, Formula rest);
  std::optional<Rule> name_rule(Rule rule) const;
  void open_members(const Container& at, Formula rest, std::vector<Expression>& bodies);
  Expression open_member(const Container& at, Formula rest, const Member& like);
  Expression after_open_name(OpenName open, std::optional<std::string_view> text);
  Container with_name(const Container& at, Container next, bool settles, std::string_view text);
  Container with_unknown_name(const Container& at, Formula rest, const Member& way);
  static Container without_needless_names(Container object);
  Expression unwritten(Expression names, const Container& at);
  std::uint64_t names_left(const Container& at, Expression names, std::uint64_t enough);
  bool enough_names(const Container& at, const std::vector<Member>& ways);

  // schema_entries.cpp: which names may come, and whether an object can be completed
  Outline outline(Formula formula);
  bool can_come(const Container& at, std::uint32_t place, Formula rest, const Outline& outline,
                const std::optional<Ending>& ending);
  bool comes_before(const Container& at, std::uint32_t place, const Outline& outline, const Ending& ending);
  bool passes_unnoticed(std::uint32_t name, Formula wanted, const Outline& outline);
  Expression expand(const Entry& entry);
  bool search_object(const Container& object);
  bool search_members(const Container& object);
  bool leads_on(const Container& at, Formula rest, const Member& way);
  std::vector<std::uint32_t> left_required(const Container& object) const;
  std::optional<Formula> completes(const Container& object, std::span<const std::uint32_t> places, int& tries);
  bool search_endings(const Container& object, std::span<const std::uint32_t> required);
  std::optional<Ending> ending_of(const Container& object);
  std::optional<Ending> ending_with_rest(const Container& object);
  void keep_ending(const Container& object, Ending ending);

  // schema_lengths.cpp
  std::uint32_t least(const Container& at) const;

  ExpressionStore& store_;
  SchemaDocument document_;  // empty once the grammar is made
  SchemaOptions options_;
  SchemaTables tables_;
  SchemaReader reader_;
  FormulaStore& formulas_;
  std::optional<Error> error_;
  std::vector<Asked> asked_;  // each for the one before it
  bool too_deep_ = false;
  bool as_written_ = false;  // closing gave way
  Expression root_ = ExpressionStore::nothing;
  Expression space_ = ExpressionStore::empty;
  Expression any_text_, quote_, free_character_, free_text_;
  Expression each_text_once_ = ExpressionStore::nothing;  // made when it is needed
  Expression colon_, quote_and_colon_;                    // with the space around: words

  IncrementallyFreed<std::unordered_map<std::uint64_t, Formula>> restricted_;
  std::unordered_set<std::uint64_t> restricting_;
  IncrementallyFreed<std::unordered_map<Formula, Expression>> bodies_, strings_, numbers_;
  IncrementallyFreed<std::unordered_map<Formula, bool>> possible_, finished_;
  std::unordered_map<Formula, ValueCount> value_counts_;
  std::unordered_set<Formula> asking_;
  std::unordered_set<std::uint32_t> searching_;
  bool assumed_ = false;  // an answer under way rests on one that was not known yet
  IncrementallyFreed<std::vector<Shape>> shapes_;
  std::size_t shape_bytes_ = 0;
  IncrementallyFreed<std::unordered_map<Formula, std::uint32_t>> shapes_of_;
  std::unordered_map<std::uint32_t, std::uint32_t> required_first_;  // shapes with those names first, by shape
  bool any_order_ = false;
  IncrementallyFreed<std::vector<std::vector<std::uint64_t>>>
      seen_sets_;  // bits by place; places beyond the end have not come
  std::unordered_multimap<std::uint64_t, std::uint32_t> seen_numbers_;  // by hash
  std::vector<std::vector<Formula>> written_sets_;                      // ascending; of unknown items with repetitions
  std::map<std::vector<Formula>, std::uint32_t> written_numbers_;
  // Values of which some array's items may have to leave one to others, so that all can differ.
  std::set<Formula> scarce_values_;
  std::vector<Container> containers_;
  IncrementallyFreed<std::unordered_map<Container, std::uint32_t, ContainerHash>> container_numbers_;
  IncrementallyFreed<std::unordered_map<std::uint32_t, bool>> container_possible_;
  IncrementallyFreed<std::unordered_map<std::uint32_t, Ending>> endings_;  // of containers
  std::vector<Entry> entries_;
  std::vector<OpenName> open_names_;
  std::vector<Expression> name_rules_;  // their bodies
  std::unordered_map<Expression, Rule> name_rules_of_;
  std::unordered_map<Formula, bool> counts_members_;
  IncrementallyFreed<std::unordered_map<std::uint64_t, std::vector<Choice>>> decided_;
  std::vector<Multiple> multiples_;
  std::unordered_map<Multiple, std::uint32_t, MultipleHash> multiple_numbers_;
  IncrementallyFreed<std::unordered_map<std::uint32_t, Expression>> key_texts_;
  IncrementallyFreed<std::unordered_map<std::uint64_t, bool>> name_matches_;
};

}  // namespace espalier::grammar
