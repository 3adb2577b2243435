#include "grammar/json_schema/schema_grammar.h"

#include <fmt/format.h>

#include <algorithm>

#include "grammar/hashing.h"
#include "grammar/json_schema/written_value.h"
#include "grammar/text_count.h"

namespace espalier::grammar {
namespace {

using Kind = Demand::Kind;
constexpr std::size_t kMostChoices = 4096;  // ways in which one member can satisfy what is left
constexpr std::size_t kMostPatterns = 64;   // that tell the names of one object apart
constexpr std::size_t kMostRegions = 4096;  // of names that they tell apart
// What `later` and `awaiting` expressions stand for, by the remainder of their payload.
enum Payload : std::uint32_t { kContainer, kMultiple, kPayloads };

Formula constant(bool value) {
  return value ? FormulaStore::always : FormulaStore::never;
}

std::uint32_t less_one(std::uint32_t count) {
  return count == 0 || count == kUnbounded ? count : count - 1;
}

}  // namespace

std::size_t SchemaGrammar::ContainerHash::operator()(const Container& c) const {
  std::uint64_t hash = c.object * 4u + c.first * 2u + c.any_order;
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
  free_text_ = free_json_text(store, 0, kUnbounded);
  seen_sets_.emplace_back();
  seen_numbers_.emplace(std::vector<bool>(), 0);
  written_sets_.emplace_back();
  written_numbers_.emplace(std::vector<Formula>(), 0);
  if (!options.flexible_whitespace) return;
  space_ = store.lexeme(json_space(store));
}

Result<std::unique_ptr<SchemaGrammar>> SchemaGrammar::make(ExpressionStore& store, const Json& schema,
                                                           const SchemaOptions& options) {
  ESP_TRY(SchemaDocument document, SchemaDocument::open(schema));
  std::unique_ptr<SchemaGrammar> grammar(new SchemaGrammar(store, std::move(document), options));
  store.add_source(*grammar);
  ESP_CHECK(grammar->open());
  return grammar;
}

Result<> SchemaGrammar::open() {
  // All schemas that can be reached are read now, so that what is refused is refused before anything is generated.
  for (SchemaNumber number = 0; number < document_.size(); ++number) ESP_CHECK(reader_.formula(number));
  if (reader_.compares_items()) store_.set_records();
  any_order_ =
      options_.order == MemberOrder::any || (options_.order == MemberOrder::automatic && reader_.describes_documents());
  const Formula root = formulas_.one({Kind::schema, 0, 0, 0});
  const bool any = possible(root);
  if (error_) return *error_;
  if (store_.exhausted() || formulas_.exhausted()) {
    return Error{Error::Kind::bad_request, "JSON schema: too many ways to satisfy it; a simpler one will do better", "",
                 "grammar_too_complex"};
  }
  if (!any) return bad_request("JSON schema: no value satisfies it", "", "grammar_invalid");
  root_ = value(root);
  return success();
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

// False when there is no time left; formulas then stop growing too.
bool SchemaGrammar::spend() {
  if (store_.spend() && !formulas_.exhausted()) return true;
  store_.exhaust();
  formulas_.exhaust();
  return false;
}

Formula SchemaGrammar::restrict_one(const Demand& c, bool negated, Type type) {
  if (!spend()) return FormulaStore::never;
  const auto keep = [&](bool concerned) {
    const Formula self = concerned ? formulas_.one(c) : FormulaStore::always;
    return negated ? formulas_.no(self) : self;
  };
  switch (c.kind) {
    case Kind::schema: {
      const std::uint64_t key = (std::uint64_t{c.a} << 3) | static_cast<std::uint64_t>(type);
      if (!restricting_.insert(key).second) {
        const std::string& place = document_.pointer(c.a);
        error_ = bad_request(fmt::format("JSON schema: {} refers to itself without reading anything", place), place,
                             "grammar_invalid");
        return FormulaStore::never;
      }
      const auto read = reader_.formula(c.a);
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
      if (c.kind == Kind::property && type == Type::object && !negated) return formulas_.named(c.a, c.b);
      return keep(type == Type::object);
    default:
      return keep(type == Type::array);
  }
}

// ---- values

Expression SchemaGrammar::rule_body(Rule rule) {
  return body(rule);
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
  const Formula truth = restrict(formula, Type::boolean);
  for (const bool one : {false, true}) {
    const Formula holds = formulas_.map(truth, [&](const Demand&, bool negated) { return constant(one != negated); });
    if (holds != FormulaStore::never) ways.push_back(store_.text(one ? "true" : "false"));
  }
  ways.push_back(number_text(restrict(formula, Type::number)));
  const Formula of_string = restrict(formula, Type::string);
  if (of_string != FormulaStore::never) {
    const Expression inside = string_text(of_string);
    const Expression closed = store_.concat(inside, quote_);
    const Expression like = store_.concat(without_exclusions(of_string), quote_);
    const Expression word = literals(of_string) ? closed : store_.lexeme(closed, like);
    if (store_.possible(inside)) ways.push_back(store_.concat(quote_, word));
  }
  std::erase_if(ways, [&](Expression e) { return !store_.possible(e); });
  return store_.either(std::move(ways));
}

bool SchemaGrammar::possible(Formula formula) {
  if (formula == FormulaStore::never) return false;
  if (formula == FormulaStore::always) return true;
  if (const auto known = possible_.find(formula); known != possible_.end()) return known->second;
  if (!asking_.insert(formula).second) {
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

bool SchemaGrammar::possible(const Container& container) {
  const std::uint32_t number = payload_of(container) / kPayloads;
  if (const auto known = container_possible_.find(number); known != container_possible_.end()) return known->second;
  if (!searching_.insert(number).second) {
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

bool SchemaGrammar::search_array(const Container& array) {
  const bool ends = finished(array.rest);
  if (array.min_left == 0 && ends) return true;
  if (array.max_left == 0 || array.min_left > array.max_left) return false;
  const std::vector<Member> ways = items(array);
  // Counting on through equal items says nothing new.
  const bool steady = std::ranges::all_of(
      ways, [&](const Member& way) { return way.next.rest == array.rest && way.next.place == array.place; });
  if (steady) return ends && std::ranges::any_of(ways, [&](const Member& way) { return possible(way.value); });
  return std::ranges::any_of(ways, [&](const Member& way) { return possible(way.value) && possible(way.next); });
}

bool SchemaGrammar::search_object(const Container& at) {
  const std::size_t names = shapes_[at.shape].names.size();
  std::uint32_t required = 0;
  for (const std::uint32_t place : shapes_[at.shape].required_places) {
    if (place < at.place || seen(at, place)) continue;
    if (!possible(shapes_[at.shape].values[place])) return false;
    ++required;
  }
  if (required > at.max_left) return false;
  if (at.rest == FormulaStore::always && at.min_left <= required) return true;
  // What is left to satisfy after passing over the names up to each place.
  std::vector<std::pair<std::uint32_t, Formula>> places;
  Formula rest = at.rest;
  bool waits = false;
  for (std::uint32_t place = at.place; place < names && !waits && rest != FormulaStore::never; ++place) {
    if (seen(at, place)) continue;
    places.emplace_back(place, rest);
    waits = shapes_[at.shape].required[place];
    rest = pass_name(rest, shapes_[at.shape].names[place]);
  }
  const auto leads_on = [&](const std::vector<Member>& ways) {
    return std::ranges::any_of(ways, [&](const Member& way) { return possible(way.value) && possible(way.next); });
  };
  if (!waits && rest != FormulaStore::never) {
    if (at.min_left == 0 && finished(rest)) return true;
    std::vector<Member> others;
    if (at.max_left > 0) other_members(at, rest, others);
    // Members of no name in particular may repeat for ever: those that change nothing but counts say nothing new.
    const bool steady = std::ranges::all_of(others, [&](const Member& way) { return way.next.rest == rest; });
    if (steady && !others.empty() && finished(rest) && at.min_left <= at.max_left) {
      if (std::ranges::any_of(others, [&](const Member& way) { return possible(way.value); })) return true;
    } else if (leads_on(others)) {
      return true;
    }
  }
  // The last ones first: they pass over what is not required.
  for (std::size_t i = places.size(); i-- > 0 && at.max_left > 0;) {
    const auto [place, left] = places[i];
    std::vector<Member> ways;
    named_members(at, place, left, ways);
    // A member that satisfies nothing more than its absence does can stay away.
    const Formula without = pass_name(left, shapes_[at.shape].names[place]);
    if (!shapes_[at.shape].required[place] && at.min_left == 0) {
      std::erase_if(ways, [&](const Member& way) { return way.next.rest == without; });
    }
    if (leads_on(ways)) return true;
  }
  return false;
}

// ---- strings

// The texts that are allowed, when they are listed; numbers of texts_ (strings) or decimals_ (numbers).
std::optional<std::vector<std::uint32_t>> SchemaGrammar::literals(Formula formula) const {
  using Form = FormulaStore::Op;
  const Form op = formulas_.op(formula);
  if (op == Form::one && formulas_.demand(formula).kind == Kind::equals) {
    return std::vector<std::uint32_t>{formulas_.demand(formula).a};
  }
  if (op != Form::any) return std::nullopt;
  std::vector<std::uint32_t> all;
  for (const Formula part : formulas_.parts(formula)) {
    if (formulas_.op(part) != Form::one || formulas_.demand(part).kind != Kind::equals) return std::nullopt;
    all.push_back(formulas_.demand(part).a);
  }
  return all;
}

bool SchemaGrammar::excludes_text(Formula formula) const {
  return formulas_.op(formula) == FormulaStore::Op::negated && formulas_.demand(formula).kind == Kind::equals;
}

// What a string is like that must be none of some: the same without that. Nothing when nothing is excluded.
Expression SchemaGrammar::without_exclusions(Formula formula) {
  using Form = FormulaStore::Op;
  const bool conjunction = formulas_.op(formula) == Form::all;
  std::vector<Formula> others;
  const auto parts = conjunction ? formulas_.parts(formula) : std::span<const Formula>(&formula, 1);
  for (const Formula part : parts) {
    if (!excludes_text(part)) others.push_back(part);
  }
  if (others.size() == parts.size()) return ExpressionStore::nothing;
  return string_part(formulas_.all(others));
}

Expression SchemaGrammar::string_text(Formula formula) {
  if (formula == FormulaStore::always) return free_text_;
  // Only lengths: every way of writing the characters will do.
  std::uint32_t low = 0, high = kUnbounded;
  bool only_lengths = true;
  const bool conjunction = formulas_.op(formula) == FormulaStore::Op::all;
  for (const Formula part : conjunction ? formulas_.parts(formula) : std::span<const Formula>(&formula, 1)) {
    only_lengths &= formulas_.op(part) == FormulaStore::Op::one && formulas_.demand(part).kind == Kind::length;
    if (!only_lengths) return string_part(formula);
    low = std::max(low, formulas_.demand(part).a);
    high = std::min(high, formulas_.demand(part).b);
  }
  return low > high ? ExpressionStore::nothing : free_json_text(store_, low, high);
}

Expression SchemaGrammar::string_part(Formula formula) {
  using Form = FormulaStore::Op;
  if (formula == FormulaStore::always) return any_text_;
  if (formula == FormulaStore::never) return ExpressionStore::nothing;
  if (const auto known = strings_.find(formula); known != strings_.end()) return known->second;
  Expression result = ExpressionStore::nothing;
  const Form op = formulas_.op(formula);
  if (op == Form::one || op == Form::negated) {
    const Demand c = formulas_.demand(formula);
    if (c.kind == Kind::equals) result = tables_.spelling.text(tables_.texts[c.a]);
    if (c.kind == Kind::matches) result = c.a;
    if (c.kind == Kind::length) result = store_.repeat(tables_.spelling.any_character(), c.a, c.b);
    if (op == Form::negated) result = store_.both(any_text_, store_.negation(result));
  } else if (op == Form::any) {
    std::vector<Expression> ways;
    for (const Formula part : formulas_.parts(formula)) ways.push_back(string_part(part));
    result = store_.either(std::move(ways));
  } else {
    std::vector<Expression> conditions;
    std::optional<std::vector<std::uint32_t>> listed;
    std::vector<Expression> excluded;
    for (const Formula part : formulas_.parts(formula)) {
      auto texts = literals(part);
      if (texts && !listed)
        listed = std::move(texts);
      else if (excludes_text(part))
        excluded.push_back(tables_.spelling.text(tables_.texts[formulas_.demand(part).a]));
      else
        conditions.push_back(string_part(part));
    }
    if (!excluded.empty()) {
      conditions.push_back(store_.both(any_text_, store_.negation(store_.either(std::move(excluded)))));
    }
    if (!listed) {
      result = store_.both(std::move(conditions));
    } else {
      std::vector<Expression> ways;
      for (const std::uint32_t text : *listed) {
        const std::string spelt = spelled(tables_.texts[text]);
        const bool fits = std::ranges::all_of(conditions, [&](Expression e) { return store_.accepts(e, spelt); });
        if (fits) ways.push_back(tables_.spelling.text(tables_.texts[text]));
      }
      result = store_.either(std::move(ways));
    }
  }
  return strings_[formula] = result;
}

// ---- numbers

Expression SchemaGrammar::number_text(Formula formula) {
  if (formula == FormulaStore::always) return any_number(store_);
  return number_part(formula);
}

Expression SchemaGrammar::number_part(Formula formula) {
  using Form = FormulaStore::Op;
  if (formula == FormulaStore::always) return plain_number(store_);
  if (formula == FormulaStore::never) return ExpressionStore::nothing;
  if (const auto known = numbers_.find(formula); known != numbers_.end()) return known->second;
  const Form op = formulas_.op(formula);
  if (op == Form::any) {
    std::vector<Expression> ways;
    for (const Formula part : formulas_.parts(formula)) ways.push_back(number_part(part));
    return numbers_[formula] = store_.either(std::move(ways));
  }
  // A conjunction: bounds and integers together become one range; the rest intersects it.
  std::optional<NumberBound> low, high;
  bool integers = false;
  std::vector<Expression> conditions;
  std::vector<std::uint32_t> listed, factors;
  bool is_listed = false;
  const auto raise = [&](const NumberBound& bound) {
    const int order = low ? compare(bound.at, low->at) : 1;
    if (order > 0 || (order == 0 && bound.excluded)) low = bound;
  };
  const auto lower = [&](const NumberBound& bound) {
    const int order = high ? compare(bound.at, high->at) : -1;
    if (order < 0 || (order == 0 && bound.excluded)) high = bound;
  };
  for (const Formula part : op == Form::all ? formulas_.parts(formula) : std::span<const Formula>(&formula, 1)) {
    const Form kind = formulas_.op(part);
    if (auto texts = literals(part); texts && !is_listed) {
      listed = std::move(*texts);
      is_listed = true;
      continue;
    }
    if (kind != Form::one && kind != Form::negated) {
      conditions.push_back(number_part(part));
      continue;
    }
    const Demand c = formulas_.demand(part);
    const bool negated = kind == Form::negated;
    const auto condition = [&](Expression e) {
      conditions.push_back(negated ? store_.both(plain_number(store_), store_.negation(e)) : e);
    };
    switch (c.kind) {
      case Kind::type:
        if (c.a & kInteger)
          integers = true;
        else
          conditions.push_back(store_.both(plain_number(store_), store_.negation(integral_number(store_))));
        break;
      case Kind::at_least:
        negated ? lower({tables_.decimals[c.a], c.b == 0}) : raise({tables_.decimals[c.a], c.b == 1});
        break;
      case Kind::at_most:
        negated ? raise({tables_.decimals[c.a], c.b == 0}) : lower({tables_.decimals[c.a], c.b == 1});
        break;
      case Kind::equals:
        condition(number_equal_to(store_, tables_.decimals[c.a]));
        break;
      case Kind::multiple:
        if (negated)
          condition(multiple_of(c.a, false));
        else
          factors.push_back(c.a);
        break;
      default:
        break;
    }
  }
  for (const std::uint32_t factor : factors) conditions.push_back(multiple_of(factor, integers));
  if (low || high)
    conditions.push_back(number_range(store_, low, high, integers));
  else if (integers && factors.empty())
    conditions.push_back(integer_text(store_));
  Expression result = ExpressionStore::nothing;
  if (is_listed) {
    std::vector<Expression> ways;
    for (const std::uint32_t number : listed) {
      std::vector<std::string> texts{tables_.decimals[number].text()};
      if (const auto more = tables_.spellings.find(number); more != tables_.spellings.end()) {
        texts.insert(texts.end(), more->second.begin(), more->second.end());
      }
      for (const std::string& text : texts) {
        const bool fits = std::ranges::all_of(conditions, [&](Expression e) { return store_.accepts(e, text); });
        if (fits) ways.push_back(store_.text(text));
      }
    }
    result = store_.either(std::move(ways));
  } else {
    result = store_.both(std::move(conditions));
  }
  return numbers_[formula] = result;
}

namespace {

struct Factor {  // units / 10^places
  std::uint64_t units = 1;
  std::uint32_t places = 0;
};

Factor factor_of(const Decimal& decimal) {
  return {std::stoull(decimal.whole + decimal.fraction), static_cast<std::uint32_t>(decimal.fraction.size())};
}

std::uint64_t power_of_ten(std::uint32_t exponent) {
  std::uint64_t power = 1;
  while (exponent-- > 0) power *= 10;
  return power;
}

}  // namespace

Expression SchemaGrammar::multiple_of(std::uint32_t factor, bool integers) {
  return multiple({factor, 0, 0, Multiple::Phase::start, integers});
}

bool SchemaGrammar::can_end(const Multiple& state) {
  using Phase = Multiple::Phase;
  const Factor factor = factor_of(tables_.decimals[state.factor]);
  switch (state.phase) {
    case Phase::zero:
    case Phase::whole:
      return state.remainder * power_of_ten(factor.places) % factor.units == 0;
    case Phase::fraction:
      return state.fraction_digits > 0 &&
             state.remainder * power_of_ten(factor.places - state.fraction_digits) % factor.units == 0;
    case Phase::zeros:
      return state.remainder == 0;
    default:
      return false;
  }
}

// Whole digits can always be completed to a multiple; those of the fraction are limited in number.
bool SchemaGrammar::can_go_on(const Multiple& state) {
  using Phase = Multiple::Phase;
  const Factor factor = factor_of(tables_.decimals[state.factor]);
  if (state.phase == Phase::zeros) return state.remainder == 0;
  if (state.phase != Phase::fraction) return true;
  const std::uint64_t scale = power_of_ten(factor.places - state.fraction_digits);
  return (factor.units - state.remainder * scale % factor.units) % factor.units < scale;
}

Expression SchemaGrammar::multiple(Multiple state) {
  std::uint64_t key = (std::uint64_t{state.factor} << 40) ^ (std::uint64_t{state.remainder} << 8);
  key ^= (std::uint64_t{state.fraction_digits} << 4) ^ (std::uint64_t{state.integers} << 3) ^
         static_cast<std::uint64_t>(state.phase);
  const auto [place, fresh] = multiple_numbers_.try_emplace(key, static_cast<std::uint32_t>(multiples_.size()));
  if (fresh) multiples_.push_back(state);
  return store_.later(place->second * kPayloads + kMultiple, can_end(state), true);
}

Expression SchemaGrammar::digit_steps(const Multiple& state, Multiple::Phase phase) {
  const Factor factor = factor_of(tables_.decimals[state.factor]);
  std::vector<Expression> ways;
  const bool in_fraction = phase == Multiple::Phase::fraction;
  for (unsigned digit = 0; digit <= 9; ++digit) {
    Multiple next = state;
    next.phase = phase;
    if (in_fraction && state.fraction_digits == factor.places) {
      if (digit != 0) break;
      next.phase = Multiple::Phase::zeros;
    } else {
      next.remainder = static_cast<std::uint32_t>((state.remainder * std::uint64_t{10} + digit) % factor.units);
      next.fraction_digits += in_fraction;
    }
    if (phase == Multiple::Phase::whole && digit == 0 && state.phase != Multiple::Phase::whole) {
      next.phase = Multiple::Phase::zero;
    }
    if (can_go_on(next)) ways.push_back(store_.concat(store_.bytes(ByteSet::of('0' + digit)), multiple(next)));
  }
  return store_.either(std::move(ways));
}

Expression SchemaGrammar::expand(const Multiple& state) {
  using Phase = Multiple::Phase;
  std::vector<Expression> ways;
  if (can_end(state)) ways.push_back(ExpressionStore::empty);
  if (state.phase == Phase::start) {
    ways.push_back(store_.concat(store_.text("-"), multiple({state.factor, 0, 0, Phase::sign, state.integers})));
  }
  if (state.phase == Phase::start || state.phase == Phase::sign || state.phase == Phase::whole) {
    ways.push_back(digit_steps(state, Phase::whole));
  }
  if (!state.integers && (state.phase == Phase::zero || state.phase == Phase::whole)) {
    const Multiple behind_point{state.factor, state.remainder, 0, Phase::fraction, false};
    if (can_go_on(behind_point)) ways.push_back(store_.concat(store_.text("."), multiple(behind_point)));
  }
  if (state.phase == Phase::fraction) ways.push_back(digit_steps(state, Phase::fraction));
  if (state.phase == Phase::zeros) ways.push_back(store_.concat(store_.text("0"), multiple(state)));
  return store_.either(std::move(ways));
}

// ---- arrays and objects

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
  return expand(Container(containers_[payload / kPayloads]));
}

// What follows an item whose value counts. Of more values than a token can hold items one more is nothing.
Expression SchemaGrammar::awaiting(const Container& at, const Member& item) {
  constexpr std::uint64_t kMany = 64;
  const bool alike = item.next.rest == at.rest && item.next.place == at.place;
  return store_.awaiting(payload_of(item.next), !alike || count_values(item.value, kMany) < kMany);
}

// What follows an item, now that its value is known.
Expression SchemaGrammar::recall(std::uint32_t payload, std::string_view text) {
  Container next = containers_[payload / kPayloads];
  next.written = with_written(next.written, reader_.equal_to_text(last_value(text)));
  return possible(next) ? later(next) : ExpressionStore::nothing;
}

Expression SchemaGrammar::expand(const Container& at) {
  bool may_close = false;
  std::vector<Member> ways;
  if (at.object) {
    ways = members(at, may_close);
  } else {
    may_close = at.min_left == 0 && finished(at.rest);
    if (at.max_left > 0) ways = items(at);
  }
  std::vector<Expression> bodies;
  for (const Member& way : ways) {
    if (!possible(way.value)) continue;
    Container next = in_order(way.next);
    next.unknown = with_unknown(way);
    if (!possible(next)) continue;
    const Expression behind = way.recorded ? awaiting(at, way) : later(way.next);
    const Expression read = store_.concat(way.recorded ? store_.call(way.value) : value(way.value), behind);
    bodies.push_back(store_.concat(way.key, read));
  }
  const Expression separator = at.first ? ExpressionStore::empty : store_.concat(store_.text(","), space_);
  const Expression open_name = at.object ? quote_ : ExpressionStore::empty;  // all names have it
  const Expression more = store_.concat({separator, open_name, store_.either(std::move(bodies))});
  const Expression close = may_close ? store_.text(at.object ? "}" : "]") : ExpressionStore::nothing;
  return store_.concat(space_, store_.either(more, close));
}

bool SchemaGrammar::finished(Formula formula) {
  return formulas_.map(formula, [](const Demand& c, bool negated) {
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
  decide_into(rest, value, found);
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

void SchemaGrammar::decide_into(Formula rest, Formula value, std::vector<Choice>& out) {
  if (rest == FormulaStore::never || value == FormulaStore::never) return;
  if (out.size() > kMostChoices) store_.exhaust();
  if (!spend()) return;
  std::optional<Formula> asked;
  if (formulas_.mentions(rest, FormulaStore::mentions_value)) {
    formulas_.each(rest, [&](const Demand& c, bool) {
      if (c.kind == Kind::value && !asked) asked = c.a;
    });
  }
  if (!asked) {
    out.push_back({value, rest});
    return;
  }
  const auto given = [&](bool answer) {
    return formulas_.map_mentioned(rest, FormulaStore::mentions_value, [&](const Demand& c, bool negated) {
      if (c.kind == Kind::value && c.a == *asked) return constant(answer != negated);
      const Formula self = c.kind == Kind::property ? formulas_.named(c.a, c.b) : formulas_.one(c);
      return negated ? formulas_.no(self) : self;
    });
  };
  const Formula if_so = given(true), if_not = given(false);
  if (if_so == if_not) return decide_into(if_so, value, out);
  const Formula with = formulas_.all(value, *asked), without = formulas_.all(value, formulas_.no(*asked));
  if (if_not == FormulaStore::never) return decide_into(if_so, with, out);
  if (if_so == FormulaStore::never) return decide_into(if_not, without, out);
  if (possible(with)) decide_into(if_so, with, out);
  if (possible(without)) decide_into(if_not, without, out);
}

// ---- arrays

std::optional<SchemaGrammar::Container> SchemaGrammar::open_array(Formula formula) {
  const Formula all = restrict(formula, Type::array);
  if (all == FormulaStore::never) return std::nullopt;
  Container array;
  std::vector<Formula> rest;
  const bool conjunction = formulas_.op(all) == FormulaStore::Op::all;
  for (const Formula part : conjunction ? formulas_.parts(all) : std::span<const Formula>(&all, 1)) {
    if (formulas_.op(part) == FormulaStore::Op::one) {
      const Demand& c = formulas_.demand(part);
      if (c.kind == Kind::min_items) {
        array.min_left = std::max(array.min_left, c.a);
        continue;
      }
      if (c.kind == Kind::max_items) {
        array.max_left = std::min(array.max_left, c.a);
        continue;
      }
    }
    rest.push_back(part);
  }
  array.rest = formulas_.all(rest);
  formulas_.each(array.rest, [&](const Demand& c, bool) {
    if (c.kind == Kind::item) array.cap = std::max(array.cap, c.a + 1);
    if (c.kind == Kind::items) array.cap = std::max(array.cap, c.a);
  });
  return array;
}

std::vector<SchemaGrammar::Member> SchemaGrammar::items(const Container& at) {
  std::vector<Member> ways;
  for (const Choice& choice : decide(at_item(at.rest, at.place, at.written), FormulaStore::always)) {
    Member way{ExpressionStore::empty, choice.value, at, speaks_of(choice.rest, Kind::unique)};
    way.next.first = false;
    way.next.place = std::min(at.place + 1, at.cap);
    way.next.min_left = less_one(at.min_left);
    way.next.max_left = less_one(at.max_left);
    way.next.rest = choice.rest;
    ways.push_back(way);
  }
  return ways;
}

// ---- items that must differ

bool SchemaGrammar::speaks_of(Formula formula, Kind kind) const {
  bool found = false;
  formulas_.each(formula, [&](const Demand& c, bool) { found = found || c.kind == kind; });
  return found;
}

std::uint32_t SchemaGrammar::numbered(std::vector<Formula> sorted) {
  const auto [known, fresh] = written_numbers_.try_emplace(sorted, static_cast<std::uint32_t>(written_sets_.size()));
  if (fresh) written_sets_.push_back(std::move(sorted));
  return known->second;
}

std::uint32_t SchemaGrammar::with_written(std::uint32_t set, Formula value) {
  std::vector<Formula> more = written_sets_[set];
  const auto place = std::ranges::lower_bound(more, value);
  if (place == more.end() || *place != value) more.insert(place, value);
  return numbered(std::move(more));
}

// The unknown items behind this one, if anything depends on its value.
std::uint32_t SchemaGrammar::with_unknown(const Member& item) {
  if (!item.recorded) return item.next.unknown;
  std::vector<Formula> more = written_sets_[item.next.unknown];
  more.insert(std::ranges::lower_bound(more, item.value), item.value);
  return numbered(std::move(more));
}

// How many of the unknown items may have a value that satisfies the formula too.
std::uint64_t SchemaGrammar::rivals(const Container& array, Formula value) {
  const std::vector<Formula> unknown = written_sets_[array.unknown];
  return static_cast<std::uint64_t>(
      std::ranges::count_if(unknown, [&](Formula other) { return possible(formulas_.all(other, value)); }));
}

// Whether an array whose items must differ (or must not) can be completed: an item must have more values than there are
// items before it that might take one of them.
bool SchemaGrammar::search_unique(const Container& array) {
  const bool ends = finished(array.rest);
  if (array.min_left == 0 && ends) return true;
  if (array.max_left == 0 || array.min_left > array.max_left) return false;
  for (const Member& way : repeating_items(array)) {
    if (possible(way.value) && possible(way.next)) return true;
  }
  const auto unchanged = [&](const Member& way) {
    return way.next.rest == array.rest && way.next.place == array.place;
  };
  const std::vector<Member> ways = items(array);
  if (ends && std::ranges::all_of(ways, unchanged)) {
    std::uint64_t values = 0;  // that nobody else wants
    for (const Member& way : ways) {
      const std::uint64_t others = rivals(array, way.value);
      values += count_values(way.value, others + array.min_left) - std::min(others, count_values(way.value, others));
    }
    return values >= array.min_left;
  }
  const bool first = array.unknown == 0 && array.written == 0;
  return std::ranges::any_of(ways, [&](const Member& way) {
    if (unchanged(way) && array.min_left == 0 && !first) return false;
    const std::uint64_t others = rivals(array, way.value);
    if (count_values(way.value, others + 1) <= others) return false;
    Container next = way.next;
    next.unknown = with_unknown(way);
    return possible(next);
  });
}

// Ways in which the next item can be one of those whose values are not known. Whether theirs is a value that it may
// have is taken for granted.
std::vector<SchemaGrammar::Member> SchemaGrammar::repeating_items(const Container& array) {
  if (array.unknown == 0) return {};
  Container repeats = array;
  repeats.rest = formulas_.map(array.rest, [&](const Demand& c, bool negated) {
    if (c.kind == Kind::unique) return constant(negated);
    const Formula self = formulas_.one(c);
    return negated ? formulas_.no(self) : self;
  });
  return items(repeats);
}

// How many values satisfy a formula, up to `enough`; containers are taken to be enough, if there are any.
std::uint64_t SchemaGrammar::count_values(Formula formula, std::uint64_t enough) {
  if (!possible(formula)) return 0;
  if (enough <= 1) return enough;
  const auto array = open_array(formula);
  if (restrict(formula, Type::object) != FormulaStore::never || (array && possible(*array))) return enough;
  std::uint64_t count = restrict(formula, Type::null) != FormulaStore::never ? 1 : 0;
  const Formula truth = restrict(formula, Type::boolean);
  for (const bool one : {false, true}) {
    const Formula holds = formulas_.map(truth, [&](const Demand&, bool negated) { return constant(one != negated); });
    count += holds != FormulaStore::never ? 1 : 0;
  }
  const Expression numbers = number_part(restrict(formula, Type::number));
  const bool two_zeros = store_.accepts(numbers, "0") && store_.accepts(numbers, "-0");
  const std::uint64_t texts = TextCount(store_, enough + 1).of(numbers);
  count += texts - ((two_zeros && texts <= enough) ? 1 : 0);
  count += TextCount(store_, enough).of(string_part(restrict(formula, Type::string)));
  return std::min(count, enough);
}

// What is left of constraints on arrays once the item at `place` is read; what they ask of it becomes `value`.
Formula SchemaGrammar::at_item(Formula formula, std::uint32_t place, std::uint32_t written) {
  return formulas_.map(formula, [&](const Demand& c, bool negated) {
    const auto answer = [&](Formula f) { return negated ? formulas_.no(f) : f; };
    const Formula self = formulas_.one(c);
    switch (c.kind) {
      case Kind::item:
        if (c.a == place) return answer(formulas_.one({Kind::value, c.b, 0, 0}));
        return c.a < place ? answer(FormulaStore::always) : answer(self);
      case Kind::items:
        if (place < c.a) return answer(self);
        return answer(formulas_.all(formulas_.one({Kind::value, c.b, 0, 0}), self));
      case Kind::contains: {
        const Formula counts = formulas_.one({Kind::value, c.a, 0, 0});
        const Formula one_less =
            c.c == 0 ? FormulaStore::never : formulas_.one({Kind::contains, c.a, less_one(c.b), less_one(c.c)});
        return answer(formulas_.any(formulas_.all(counts, one_less), formulas_.all(formulas_.no(counts), self)));
      }
      case Kind::min_items:
        return answer(formulas_.one({Kind::min_items, less_one(c.a), 0, 0}));
      case Kind::max_items:
        return answer(c.a == 0 ? FormulaStore::never : formulas_.one({Kind::max_items, less_one(c.a), 0, 0}));
      case Kind::unique: {
        const Formula repeats = formulas_.any(written_sets_[written]);
        return answer(formulas_.all(formulas_.one({Kind::value, formulas_.no(repeats), 0, 0}), self));
      }
      default:
        return answer(self);
    }
  });
}

// ---- objects

std::vector<SchemaGrammar::Container> SchemaGrammar::open_objects(Formula formula) {
  std::vector<Container> ways;
  for (const Formula way : alternatives(formula)) ways.push_back(open_object(way));
  return ways;
}

// The formula as alternatives of their own. Where members come in declared order, that of an anyOf beside other
// keywords is the order of each of its schemas.
std::vector<Formula> SchemaGrammar::alternatives(Formula formula) {
  using Form = FormulaStore::Op;
  if (formula == FormulaStore::never) return {};
  const auto parts = formulas_.parts(formula);
  if (formulas_.op(formula) == Form::any) return {parts.begin(), parts.end()};
  if (formulas_.op(formula) != Form::all || any_order_) return {formula};
  const auto names_members = [&](Formula part) {
    bool names = false;
    formulas_.each(part, [&](const Demand& d, bool negated) { names |= d.kind == Kind::property && !negated; });
    return names;
  };
  const auto is_choice = [&](Formula part) {
    return formulas_.op(part) == Form::any && std::ranges::all_of(formulas_.parts(part), names_members);
  };
  if (std::ranges::count_if(parts, is_choice) != 1) return {formula};
  const std::vector<Formula> conjuncts(parts.begin(), parts.end());
  const auto choice = std::ranges::find_if(conjuncts, is_choice) - conjuncts.begin();
  std::vector<Formula> ways;
  for (const Formula way : formulas_.parts(conjuncts[static_cast<std::size_t>(choice)])) {
    std::vector<Formula> with = conjuncts;
    with[static_cast<std::size_t>(choice)] = way;
    ways.push_back(formulas_.all(with));
  }
  std::erase(ways, FormulaStore::never);
  return ways;
}

void SchemaGrammar::collect_names(Formula formula, Shape& shape) {
  const auto add = [&](std::uint32_t name) {
    if (shape.places.try_emplace(name, shape.names.size()).second) shape.names.push_back(name);
  };
  std::vector<std::uint32_t> left_out;
  formulas_.each(formula, [&](const Demand& c, bool) {
    if (c.kind == Kind::property || c.kind == Kind::required) add(c.a);
    if (c.kind != Kind::additional) return;
    const NameSet& set = tables_.name_sets[c.a];
    left_out.insert(left_out.end(), set.names.begin(), set.names.end());
  });
  for (const std::uint32_t name : left_out) add(name);
}

SchemaGrammar::Container SchemaGrammar::open_object(Formula formula) {
  Container object;
  object.object = true;
  object.any_order = any_order_;
  std::vector<Formula> rest;
  const bool conjunction = formulas_.op(formula) == FormulaStore::Op::all;
  const auto parts = conjunction ? formulas_.parts(formula) : std::span<const Formula>(&formula, 1);
  const auto known = shape_of_.find(formula);
  Shape shape;
  if (known == shape_of_.end()) {
    collect_names(formula, shape);
    shape.required.resize(shape.names.size());
  }
  std::vector<std::vector<Formula>> values(shape.names.size());
  for (const Formula part : parts) {
    const bool simple = formulas_.op(part) == FormulaStore::Op::one;
    const Demand c = simple ? formulas_.demand(part) : Demand{};
    if (simple && c.kind == Kind::min_members) {
      object.min_left = std::max(object.min_left, c.a);
    } else if (simple && c.kind == Kind::max_members) {
      object.max_left = std::min(object.max_left, c.a);
    } else if (!simple) {
      rest.push_back(part);
    } else if (known == shape_of_.end()) {
      if (c.kind == Kind::property)
        values[shape.places.at(c.a)].push_back(c.b);
      else if (c.kind == Kind::required)
        shape.required[shape.places.at(c.a)] = true;
      else
        shape.rest.push_back(part);
    }
  }
  object.rest = formulas_.all(rest);
  if (known != shape_of_.end()) {
    object.shape = known->second;
    return object;
  }
  for (std::size_t i = 0; i < shape.names.size(); ++i) {
    for (const Formula part : shape.rest) {
      // Of a constraint on names in general, what it asks of this one.
      const Formula asked = at_member(part, shape.names[i]);
      for (const Choice& choice : decide(asked, FormulaStore::always)) values[i].push_back(choice.value);
      if (asked == FormulaStore::never) values[i].push_back(FormulaStore::never);
    }
    shape.values.push_back(formulas_.all(values[i]));
    if (shape.required[i]) shape.required_places.push_back(static_cast<std::uint32_t>(i));
  }
  std::vector<Expression> texts;
  for (const std::uint32_t name : shape.names) texts.push_back(tables_.spelling.text(tables_.texts[name]));
  shape.other_names =
      texts.empty() ? any_text_ : store_.both(any_text_, store_.negation(store_.either(std::move(texts))));
  const auto add_pattern = [&](Expression e) {
    if (std::ranges::find(shape.patterns, e) == shape.patterns.end()) shape.patterns.push_back(e);
  };
  formulas_.each(formula, [&](const Demand& c, bool) {
    if (c.kind == Kind::pattern) add_pattern(c.a);
    if (c.kind == Kind::names) add_pattern(name_pattern(c.b));
    if (c.kind != Kind::additional) return;
    for (const Expression e : tables_.name_sets[c.a].patterns) add_pattern(e);
  });
  if (shape.patterns.size() > kMostPatterns) store_.exhaust();
  object.shape = static_cast<std::uint32_t>(shapes_.size());
  shapes_.push_back(std::move(shape));
  shape_of_.emplace(formula, object.shape);
  return object;
}

std::vector<SchemaGrammar::Member> SchemaGrammar::members(const Container& at, bool& may_close) {
  std::vector<Member> ways;
  Formula rest = at.rest;
  const std::size_t names = shapes_[at.shape].names.size();
  bool waits = false;  // for a name that must come
  for (std::uint32_t place = at.place; place < names; ++place) {
    if (seen(at, place)) continue;
    if (at.max_left > 0) named_members(at, place, rest, ways);
    waits |= shapes_[at.shape].required[place];
    if (at.any_order) continue;
    if (waits) return ways;
    rest = pass_name(rest, shapes_[at.shape].names[place]);
    if (rest == FormulaStore::never) return ways;
  }
  may_close = !waits && at.min_left == 0 && finished(rest);
  if (at.max_left > 0) other_members(at, rest, ways);
  return ways;
}

void SchemaGrammar::named_members(const Container& at, std::uint32_t place, Formula rest, std::vector<Member>& out) {
  const Formula wanted = shapes_[at.shape].values[place];
  if (wanted == FormulaStore::never) return;
  const std::uint32_t name = shapes_[at.shape].names[place];
  for (const Choice& choice : decide(at_member(rest, name), wanted)) {
    Member way{key_text(name), choice.value, at};
    way.next.first = false;
    if (at.any_order)
      way.next.seen = with_seen(at.seen, place);
    else
      way.next.place = place + 1;
    way.next.min_left = less_one(at.min_left);
    way.next.max_left = less_one(at.max_left);
    way.next.rest = choice.rest;
    out.push_back(way);
  }
}

// Names that the schema does not mention, told apart by which of its patterns they match.
void SchemaGrammar::other_members(const Container& at, Formula rest, std::vector<Member>& out) {
  const std::vector<Expression> patterns = shapes_[at.shape].patterns;
  const std::vector<Formula> outright = shapes_[at.shape].rest;
  struct Region {
    Expression names;
    std::uint64_t matched;
  };
  std::vector<Region> regions{{shapes_[at.shape].other_names, 0}};
  for (std::size_t i = 0; i < patterns.size(); ++i) {
    std::vector<Region> finer;
    for (const Region& region : regions) {
      const Expression inside = store_.both(region.names, patterns[i]);
      const Expression outside = store_.both(region.names, store_.negation(patterns[i]));
      if (store_.possible(inside)) finer.push_back({inside, region.matched | (std::uint64_t{1} << i)});
      if (store_.possible(outside)) finer.push_back({outside, region.matched});
    }
    regions = std::move(finer);
    if (regions.size() > kMostRegions) store_.exhaust();
    if (store_.exhausted()) return;
  }
  const Expression colon = store_.concat({space_, store_.text(":"), space_});
  const Expression like = store_.concat(any_text_, quote_);
  for (const Region& region : regions) {
    std::vector<Formula> asked{at_other_member(rest, patterns, region.matched)};
    Formula wanted = FormulaStore::always;
    for (const Formula part : outright) {
      const Formula of_part = at_other_member(part, patterns, region.matched);
      if (of_part == FormulaStore::never) wanted = FormulaStore::never;
      for (const Choice& choice : decide(of_part, FormulaStore::always)) wanted = formulas_.all(wanted, choice.value);
    }
    if (wanted == FormulaStore::never) continue;
    const Expression word = store_.lexeme(store_.concat(region.names, quote_), like);
    for (const Choice& choice : decide(asked[0], wanted)) {
      Member way{store_.concat(word, colon), choice.value, at};
      way.next.first = false;
      if (!at.any_order) way.next.place = static_cast<std::uint32_t>(shapes_[at.shape].names.size());
      way.next.min_left = less_one(at.min_left);
      way.next.max_left = less_one(at.max_left);
      way.next.rest = choice.rest;
      out.push_back(way);
    }
  }
}

// What is left of constraints on objects once a member of this name is read; what they ask of it becomes `value`.
Formula SchemaGrammar::at_member(Formula formula, std::uint32_t name) {
  return formulas_.map(formula, [&](const Demand& c, bool negated) {
    const auto answer = [&](Formula f) { return negated ? formulas_.no(f) : f; };
    const auto asked = [&] { return formulas_.one({Kind::value, c.b, 0, 0}); };
    const Formula self = c.kind == Kind::property ? formulas_.named(c.a, c.b) : formulas_.one(c);
    switch (c.kind) {
      case Kind::property:
        return answer(c.a == name ? asked() : self);
      case Kind::required:
        return answer(c.a == name ? FormulaStore::always : self);
      case Kind::pattern:
        return answer(name_matches(name, c.a) ? formulas_.all(asked(), self) : self);
      case Kind::additional:
        return answer(in_name_set(name, tables_.name_sets[c.a]) ? self : formulas_.all(asked(), self));
      case Kind::names:
        return answer(name_matches(name, name_pattern(c.b)) ? self : FormulaStore::never);
      case Kind::min_members:
        return answer(formulas_.one({Kind::min_members, less_one(c.a), 0, 0}));
      case Kind::max_members:
        return answer(c.a == 0 ? FormulaStore::never : formulas_.one({Kind::max_members, less_one(c.a), 0, 0}));
      default:
        return answer(self);
    }
  });
}

Formula SchemaGrammar::at_other_member(Formula formula, const std::vector<Expression>& patterns,
                                       std::uint64_t matched) {
  const auto matches = [&](Expression pattern) {
    const auto place = std::ranges::find(patterns, pattern) - patterns.begin();
    return ((matched >> place) & 1) != 0;
  };
  return formulas_.map(formula, [&](const Demand& c, bool negated) {
    const auto answer = [&](Formula f) { return negated ? formulas_.no(f) : f; };
    const auto asked = [&] { return formulas_.one({Kind::value, c.b, 0, 0}); };
    const Formula self = c.kind == Kind::property ? formulas_.named(c.a, c.b) : formulas_.one(c);
    switch (c.kind) {
      case Kind::pattern:
        return answer(matches(c.a) ? formulas_.all(asked(), self) : self);
      case Kind::additional: {
        const auto& others = tables_.name_sets[c.a].patterns;
        return answer(std::ranges::any_of(others, matches) ? self : formulas_.all(asked(), self));
      }
      case Kind::names:
        return answer(matches(name_pattern(c.b)) ? self : FormulaStore::never);
      case Kind::min_members:
        return answer(formulas_.one({Kind::min_members, less_one(c.a), 0, 0}));
      case Kind::max_members:
        return answer(c.a == 0 ? FormulaStore::never : formulas_.one({Kind::max_members, less_one(c.a), 0, 0}));
      default:
        return answer(self);
    }
  });
}

// The name will not come any more.
Formula SchemaGrammar::pass_name(Formula formula, std::uint32_t name) {
  return formulas_.map_mentioned(formula, FormulaStore::mentions_name(name), [&](const Demand& c, bool negated) {
    const Formula self = c.kind == Kind::property ? formulas_.named(c.a, c.b) : formulas_.one(c);
    const bool passed = (c.kind == Kind::property || c.kind == Kind::required) && c.a == name;
    const Formula left = passed ? constant(c.kind == Kind::property) : self;
    return negated ? formulas_.no(left) : left;
  });
}

bool SchemaGrammar::name_matches(std::uint32_t name, Expression pattern) {
  const std::uint64_t key = (std::uint64_t{name} << 32) | pattern;
  if (const auto known = name_matches_.find(key); known != name_matches_.end()) return known->second;
  return name_matches_[key] = store_.accepts(pattern, spelled(tables_.texts[name]));
}

bool SchemaGrammar::in_name_set(std::uint32_t name, const NameSet& set) {
  return std::ranges::find(set.names, name) != set.names.end() ||
         std::ranges::any_of(set.patterns, [&](Expression e) { return name_matches(name, e); });
}

bool SchemaGrammar::seen(const Container& object, std::uint32_t place) const {
  const std::vector<bool>& set = seen_sets_[object.seen];
  return place < set.size() && set[place];
}

std::uint32_t SchemaGrammar::with_seen(std::uint32_t set, std::uint32_t place) {
  std::vector<bool> more = seen_sets_[set];
  if (more.size() <= place) more.resize(place + 1);
  more[place] = true;
  const auto [known, fresh] = seen_numbers_.try_emplace(more, static_cast<std::uint32_t>(seen_sets_.size()));
  if (fresh) seen_sets_.push_back(std::move(more));
  return known->second;
}

// Whether an object can be completed does not depend on the order; looking for a way in one order is quick.
SchemaGrammar::Container SchemaGrammar::in_order(Container object) const {
  object.any_order = false;
  return object;
}

Expression SchemaGrammar::name_pattern(Formula formula) {
  return string_part(restrict(formula, Type::string));
}

Expression SchemaGrammar::key_text(std::uint32_t name) {
  const auto [known, fresh] = key_texts_.try_emplace(name, ExpressionStore::nothing);
  if (fresh) {
    known->second =
        store_.concat({tables_.spelling.text(tables_.texts[name]), quote_, space_, store_.text(":"), space_});
  }
  return known->second;
}

}  // namespace espalier::grammar
