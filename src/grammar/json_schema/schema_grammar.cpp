#include "grammar/json_schema/schema_grammar.h"

#include <fmt/format.h>

#include <algorithm>

#include "grammar/automaton/hashing.h"
#include "grammar/json_schema/schema_steps.h"
#include "grammar/json_schema/written_value.h"

namespace espalier::grammar {
namespace {

constexpr std::size_t kMostChoices = 4096;  // ways in which one member can satisfy what is left
constexpr std::size_t kDeepest = 1500;      // questions within questions: each has a few calls on the stack

}  // namespace

std::size_t SchemaGrammar::ContainerHash::operator()(const Container& c) const {
  std::uint64_t hash = c.object + c.first * 2u + c.lasting * 4u + 8u * static_cast<std::uint64_t>(c.order);
  for (const std::uint32_t field :
       {c.shape, c.place, c.seen, c.cap, c.written, c.unknown, c.min_left, c.max_left, c.rest}) {
    hash = mix(hash, field);
  }
  return hash;
}

SchemaGrammar::SchemaGrammar(ExpressionStore& store, SchemaDocument document, SchemaOptions options)
    : store_(store),
      document_(std::move(document)),
      options_(options),
      tables_(store),
      reader_(document_, tables_, options),
      formulas_(tables_.formulas) {
  any_text_ = store.star(tables_.spelling.any_character());
  quote_ = store.text("\"");
  free_character_ = free_json_character(store);
  free_text_ = store.star(free_character_);
  seen_sets_.emplace_back();
  written_sets_.emplace_back();
  written_numbers_.emplace(std::vector<Formula>(), 0);
  colon_ = store.text(":");
  quote_and_colon_ = store.text("\":");
  if (!options.flexible_whitespace) return;
  const Expression space = json_space(store, options.most_space), colon = store.concat({space, colon_, space});
  space_ = store.lexeme(space);
  colon_ = store.lexeme(colon);
  quote_and_colon_ = store.lexeme(store.concat(quote_, colon));
}

Result<std::unique_ptr<SchemaGrammar>> SchemaGrammar::make(ExpressionStore& store, const Json& schema,
                                                           const SchemaOptions& options) {
  ESP_TRY(SchemaDocument document, SchemaDocument::open(schema, [&] { return store.spend(); }));
  std::unique_ptr<SchemaGrammar> grammar(new SchemaGrammar(store, std::move(document), options));
  store.add_source(*grammar);
  ESP_CHECK(grammar->open());
  return grammar;
}

Result<> SchemaGrammar::open() {
  ESP_CHECK(read_all());
  if (reader_.compares_items()) store_.set_records();
  any_order_ =
      options_.order == MemberOrder::any || (options_.order == MemberOrder::automatic && reader_.describes_documents());
  // Nobody asked for declared objects to be closed: where that would leave nothing (alternatives of a oneOf that then
  // let in the same), they are as they are written.
  const bool gives_way = options_.closed == Constraint::Closed::declared && reader_.closes();
  as_written_ = gives_way && !possible(schema(0)) && !error_ && !limit_met();
  if (as_written_) {
    ESP_CHECK(reader_.formula(0, true));
    ESP_CHECK(read_all());
  }
  const Formula root = schema(0);
  const bool any = possible(root);
  if (error_) return *error_;
  if (limit_met()) return too_complex();
  if (!any) return without_value();
  document_ = SchemaDocument();  // all of it has become formulas
  root_ = value(root);
  return success();
}

// All schemas that can be reached are read now, so that what is refused is refused before anything is generated.
Result<> SchemaGrammar::read_all() {
  return reader_.read_all([this](SchemaNumber number) { return Asking(*this, number); });
}

Formula SchemaGrammar::schema(SchemaNumber number) {
  return formulas_.one({Kind::schema, number, as_written_ ? 1u : 0u, 0});
}

std::size_t SchemaGrammar::memory() const {
  constexpr std::size_t kEntry = 48;  // of a table, with what it is kept in
  const std::size_t entries = restricted_.size() + bodies_.size() + strings_.size() + numbers_.size() +
                              possible_.size() + finished_.size() + container_possible_.size() +
                              container_numbers_.size() + endings_.size() + decided_.size() + key_texts_.size() +
                              name_matches_.size();
  return tables_.memory() + reader_.memory() + entries * kEntry + containers_.size() * sizeof(Container) +
         entries_.size() * sizeof(Entry) + shape_bytes_;
}

// ---- what a formula says of one type

Formula SchemaGrammar::restrict(Formula formula, Type type) {
  const std::uint64_t key = (std::uint64_t{formula} << 3) | static_cast<std::uint64_t>(type);
  if (const auto known = restricted_.find(key); known != restricted_.end()) return known->second;
  const Formula result =
      formulas_.map(formula, [&](const Demand& c, bool negated) { return restrict_one(c, negated, type); });
  restricted_.emplace(key, result);
  return result;
}

Formula SchemaGrammar::restrict_one(const Demand& c, bool negated, Type type) {
  if (!tables_.goes_on()) return FormulaStore::never;
  const auto keep = [&](bool concerned) {
    const Formula self = concerned ? formulas_.one(c) : FormulaStore::always;
    return negated ? formulas_.no(self) : self;
  };
  switch (c.kind) {
    case Kind::schema: {
      const std::uint64_t key = ((std::uint64_t{c.a} * 2 + c.b) << 3) | static_cast<std::uint64_t>(type);
      const Asking asking(*this, c.a);
      if (!goes_deeper()) return FormulaStore::never;
      if (!restricting_.insert(key).second) {
        const std::string place =
            document_.size() > 0 ? document_.pointer(c.a) : std::string();  // when it is asked for
        error_ = bad_request(fmt::format("JSON schema: {} refers to itself without reading anything", place), place,
                             "grammar_invalid");
        return FormulaStore::never;
      }
      const auto read = reader_.formula(c.a, c.b == 1);
      const Formula inner = read.ok() ? restrict(*read, type) : FormulaStore::never;
      if (!read.ok()) error_ = read.error();
      restricting_.erase(key);
      return negated ? formulas_.no(inner) : inner;
    }
    case Kind::type: {
      static constexpr std::uint32_t kBits[] = {kNull, kBoolean, kNumber, kString, kArray, kObject};
      return formulas_.one({Kind::type,
                            (c.a & kBits[static_cast<int>(type)]) == kBits[static_cast<int>(type)]
                                ? std::uint32_t{kAnyType}
                                : c.a & kBits[static_cast<int>(type)],
                            0, 0});
    }
    case Kind::is_true:
      return keep(type == Type::boolean);
    case Kind::equals:
      return keep(type == (c.b == 1 ? Type::number : Type::string));
    case Kind::length:
    case Kind::matches:
      return keep(type == Type::string);
    case Kind::at_least:
    case Kind::at_most:
    case Kind::multiple:
      return keep(type == Type::number);
    case Kind::property:
    case Kind::pattern:
    case Kind::additional:
    case Kind::names:
    case Kind::required:
    case Kind::min_members:
    case Kind::max_members:
      if (c.kind == Kind::property && type == Type::object && !negated) return formulas_.named(c);
      return keep(type == Type::object);
    default:
      return keep(type == Type::array);
  }
}

// ---- values

Expression SchemaGrammar::rule_body(Rule rule) {
  if (const auto name = name_rule(rule)) return name_rules_[*name];
  return settled(body(rule));
}

// Where formulas have met their limit, what was made of them is incomplete; nobody must take it for an answer.
Expression SchemaGrammar::settled(Expression made) {
  if (formulas_.exhausted()) store_.exhaust();
  return made;
}

Expression SchemaGrammar::value(Formula formula) {
  const bool nested =
      restrict(formula, Type::array) != FormulaStore::never || restrict(formula, Type::object) != FormulaStore::never;
  return nested ? store_.call(formula) : body(formula);
}

Expression SchemaGrammar::body(Formula formula) {
  if (const auto known = bodies_.find(formula); known != bodies_.end()) return known->second;
  std::vector<Expression> ways{scalars(formula)};
  if (const auto array = open_array(formula); array && possible(*array)) {
    ways.push_back(store_.concat(store_.text("["), later(*array)));
  }
  for (const Container& object : open_objects(restrict(formula, Type::object))) {
    if (possible(in_order(object))) ways.push_back(store_.concat(store_.text("{"), later(object)));
  }
  return bodies_[formula] = store_.either(std::move(ways));
}

Expression SchemaGrammar::scalars(Formula formula) {
  std::vector<Expression> ways;
  if (restrict(formula, Type::null) != FormulaStore::never) ways.push_back(store_.text("null"));
  for (const bool one : {false, true}) {
    if (allows_truth(formula, one)) ways.push_back(store_.text(one ? "true" : "false"));
  }
  const Formula of_number = restrict(formula, Type::number);
  ways.push_back(is_listed(of_number) ? number_text(of_number) : store_.lexeme(number_text(of_number)));
  const Formula of_string = restrict(formula, Type::string);
  if (of_string != FormulaStore::never) {
    const Expression inside = string_text(of_string);
    const Expression closed = store_.concat(inside, quote_);
    const Expression like = store_.concat(without_exclusions(of_string), quote_);
    const Expression word = is_listed(of_string) ? closed : store_.lexeme(closed, like);
    if (store_.possible(inside)) ways.push_back(store_.concat(quote_, word));
  }
  std::erase_if(ways, [&](Expression e) { return !store_.possible(e); });
  return store_.either(std::move(ways));
}

bool SchemaGrammar::allows_truth(Formula formula, bool value) {
  const Formula truth = restrict(formula, Type::boolean);
  return formulas_.map(truth, [&](const Demand&, bool negated) { return constant(value != negated); }) !=
         FormulaStore::never;
}

bool SchemaGrammar::possible(Formula formula) {
  if (formula == FormulaStore::never) return false;
  if (formula == FormulaStore::always) return true;
  if (const auto known = possible_.find(formula); known != possible_.end()) return known->second;
  const Asking asking(*this, schema_in(formula));
  if (!goes_deeper() || !asking_.insert(formula).second) {
    assumed_ = true;
    return false;
  }
  const bool outer = std::exchange(assumed_, false);
  bool result = scalars(formula) != ExpressionStore::nothing;
  if (!result) {
    const auto array = open_array(formula);
    result = array && possible(*array);
  }
  if (!result&& restrict(formula, Type::object) != FormulaStore::never) {
    const auto objects = open_objects(restrict(formula, Type::object));
    result = std::ranges::any_of(objects, [&](const Container& object) { return possible(in_order(object)); });
  }
  asking_.erase(formula);
  const bool outermost = asking_.empty() && searching_.empty();
  if (result || !assumed_ || outermost) possible_[formula] = result;
  assumed_ = !outermost && (outer || (assumed_ && !result));
  return result;
}

// Whether one more question within others fits the stack; else the schema is too complex.
bool SchemaGrammar::goes_deeper() {
  if (asking_.size() + searching_.size() + restricting_.size() < kDeepest) return true;
  too_deep_ = too_deep_ || !limit_met();
  store_.exhaust();
  formulas_.exhaust();
  return false;
}

bool SchemaGrammar::possible(const Container& container) {
  const std::uint32_t number = payload_of(container) / kPayloads;
  if (const auto known = container_possible_.find(number); known != container_possible_.end()) return known->second;
  if (!goes_deeper() || !searching_.insert(number).second) {
    assumed_ = true;
    return false;
  }
  const bool outer = std::exchange(assumed_, false);
  const bool result = search(container);
  searching_.erase(number);
  const bool outermost = asking_.empty() && searching_.empty();
  if (result || !assumed_ || outermost) container_possible_[number] = result;
  assumed_ = !outermost && (outer || (assumed_ && !result));
  return result;
}

bool SchemaGrammar::search(const Container& container) {
  if (store_.exhausted()) return false;
  if (!container.object)
    return speaks_of(container.rest, Kind::unique) ? search_unique(container) : search_array(container);
  return search_object(container);
}

// ---- what arrays and objects share

std::uint32_t SchemaGrammar::payload_of(const Container& container) {
  const auto [place, fresh] = container_numbers_.try_emplace(container, static_cast<std::uint32_t>(containers_.size()));
  if (fresh) containers_.push_back(container);
  return place->second * kPayloads + kContainer;
}

Expression SchemaGrammar::later(const Container& container) {
  return store_.later(payload_of(container), false, false);
}

Expression SchemaGrammar::expand(std::uint32_t payload) {
  if (payload % kPayloads == kMultiple) return expand(Multiple(multiples_[payload / kPayloads]));
  if (payload % kPayloads == kEntry) return settled(expand(Entry(entries_[payload / kPayloads])));
  if (payload % kPayloads == kOpenName) return settled(after_open_name(open_names_[payload / kPayloads], std::nullopt));
  return settled(expand(Container(containers_[payload / kPayloads])));
}

// What follows an item whose value counts. Of more values than a token can hold items one more is nothing.
Expression SchemaGrammar::awaiting(const Container& at, const Member& item) {
  constexpr std::uint64_t kMany = 64;
  const bool alike = item.next.rest == at.rest && item.next.place == at.place;
  return store_.awaiting(payload_of(item.next), !alike || count_values(item.value, kMany) < kMany);
}

// What follows an item, now that its value is known, or a name.
Expression SchemaGrammar::recall(std::uint32_t payload, std::string_view text) {
  if (payload % kPayloads == kOpenName) return settled(after_open_name(open_names_[payload / kPayloads], text));
  Container next = containers_[payload / kPayloads];
  next.written = with_written(next.written, reader_.equal_to_text(last_value(text)));
  return settled(possible(next) ? later(next) : ExpressionStore::nothing);
}

Expression SchemaGrammar::expand(const Container& at) {
  bool may_close = false;
  std::vector<Member> ways;
  std::vector<Entry> entries;
  std::vector<Expression> bodies;
  if (at.object) {
    ways = members(at, entries, bodies, may_close);
  } else {
    may_close = at.min_left == 0 && finished(at.rest);
    if (at.max_left > 0) ways = items(at);
  }
  for (const Member& way : ways) {
    if (!tables_.goes_on()) return ExpressionStore::nothing;
    if (!possible(way.value)) continue;
    Container next = in_order(way.next);
    next.unknown = with_unknown(way);
    if (!possible(next)) continue;
    const Formula wanted = at.object ? way.value : leaving_others_theirs(way);
    const Expression behind = way.recorded ? awaiting(at, way) : later(way.next);
    const Expression read = store_.concat(way.recorded ? store_.call(wanted) : value(wanted), behind);
    bodies.push_back(store_.concat(way.key, read));
  }
  for (const Entry& entry : entries) {
    if (!tables_.goes_on()) return ExpressionStore::nothing;
    entries_.push_back(entry);
    const auto payload = static_cast<std::uint32_t>(entries_.size() - 1) * kPayloads + kEntry;
    const Expression key = key_text(shapes_[at.shape].names[entry.place]);
    const Expression read = entry.value_read ? value(shapes_[at.shape].values[entry.place]) : ExpressionStore::empty;
    bodies.push_back(store_.concat({key, read, store_.later(payload, false, false)}));
  }
  const Expression separator = at.first ? ExpressionStore::empty : store_.concat(store_.text(","), space_);
  const Expression open_name = at.object ? quote_ : ExpressionStore::empty;  // all names have it
  const Expression more = store_.concat({separator, open_name, store_.either(std::move(bodies))});
  const Expression close = may_close ? store_.text(at.object ? "}" : "]") : ExpressionStore::nothing;
  return store_.concat(space_, store_.either(more, close));
}

bool SchemaGrammar::finished(Formula formula) {
  if (formula == FormulaStore::always) return true;
  const auto [known, fresh] = finished_.try_emplace(formula, false);
  if (!fresh) return known->second;
  return finished_[formula] = formulas_.map(formula, [](const Demand& c, bool negated) {
    bool holds = true;
    if (c.kind == Kind::required) holds = false;
    if (c.kind == Kind::min_members || c.kind == Kind::min_items) holds = c.a == 0;
    if (c.kind == Kind::contains) holds = c.b == 0;
    return constant(holds != negated);
  }) == FormulaStore::always;
}

// The ways in which the value of a member can satisfy schemas, each with what is then left to satisfy.
std::vector<SchemaGrammar::Choice> SchemaGrammar::decide(Formula rest, Formula value) {
  const std::uint64_t key = (std::uint64_t{rest} << 32) | value;
  if (const auto known = decided_.find(key); known != decided_.end()) return known->second;
  const bool outer = std::exchange(assumed_, false);
  std::vector<Choice> found;
  decide_each(rest, value, [&](const Choice& choice) {
    found.push_back(choice);
    if (found.size() > kMostChoices) store_.exhaust();
    return false;
  });
  const bool certain = !assumed_;
  assumed_ |= outer;
  std::vector<Choice> merged;
  for (const Choice& choice : found) {
    const auto same = std::ranges::find(merged, choice.rest, &Choice::rest);
    if (same == merged.end())
      merged.push_back(choice);
    else
      same->value = formulas_.any(same->value, choice.value);
  }
  if (certain && !store_.exhausted()) decided_[key] = merged;
  return merged;
}

// One by one; the same rest may come with several values. True when no more were wanted.
bool SchemaGrammar::decide_each(Formula rest, Formula value, const UseChoice& use) {
  if (rest == FormulaStore::never || value == FormulaStore::never || !tables_.goes_on()) return false;
  if (!formulas_.mentions(rest, FormulaStore::mentions_value)) return use({value, rest});
  const Formula asked = formulas_.first_value(rest).a;
  const auto given = [&](bool answer) {
    return formulas_.map_mentioned(rest, FormulaStore::mentions_asked(asked), [&](const Demand& c, bool negated) {
      if (c.kind == Kind::value && c.a == asked) return constant(answer != negated);
      const Formula self = c.kind == Kind::property ? formulas_.named(c) : formulas_.one(c);
      return negated ? formulas_.no(self) : self;
    });
  };
  const Formula if_so = given(true), if_not = given(false);
  if (if_so == if_not) return decide_each(if_so, value, use);
  const Formula with = formulas_.all(value, asked), without = formulas_.all(value, formulas_.no(asked));
  if (if_not == FormulaStore::never) return decide_each(if_so, with, use);
  if (if_so == FormulaStore::never) return decide_each(if_not, without, use);
  if (possible(with) && decide_each(if_so, with, use)) return true;
  return possible(without) && decide_each(if_not, without, use);
}

}  // namespace espalier::grammar
