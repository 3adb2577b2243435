// Names that the schema does not list and that must not come twice.
//
// Readers of JSON keep the last member of a name. Mostly a repetition harms nobody: it satisfies what the first one
// did. Not where members are counted (minProperties), and not where some member had to differ (not over
// patternProperties or additionalProperties): there a name is a rule of its own, what follows it awaits its text
// (recorded_states.h), and the names that matter are left out of those that may still come.
#include <algorithm>

#include "grammar/automaton/text_count.h"
#include "grammar/json_schema/schema_grammar.h"
#include "grammar/json_schema/schema_steps.h"
#include "grammar/json_schema/written_value.h"

namespace espalier::grammar {
namespace {

constexpr Rule kFirstNameRule = 1u << 23;  // behind all formulas, below what a source may number
constexpr std::size_t kMostNames = 1000;   // of one object
constexpr std::uint64_t kMany = 64;        // more names than a token can hold

}  // namespace

// Whether what the formula asks of members could seem satisfied by one that another of its name replaces.
bool SchemaGrammar::counts_members(Formula formula) {
  if (!formulas_.mentions(formula, FormulaStore::mentions_members)) return false;
  const auto [known, fresh] = counts_members_.try_emplace(formula, false);
  if (!fresh) return known->second;
  bool counts = false;
  formulas_.each_mentioned(formula, FormulaStore::mentions_members, [&](const Demand& c, bool negated) {
    const bool one_differs = (c.kind == Kind::pattern || c.kind == Kind::additional) && c.b != FormulaStore::never;
    counts |= negated ? one_differs || c.kind == Kind::max_members : c.kind == Kind::min_members;
  });
  return counts_members_[formula] = counts;
}

bool SchemaGrammar::remembers_names(const Container& at, Formula rest) {
  const bool counted = at.min_left > (at.first ? 1u : 0u);
  return counted || at.lasting || counts_members(rest);
}

std::optional<Rule> SchemaGrammar::name_rule(Rule rule) const {
  return rule >= kFirstNameRule ? std::optional(rule - kFirstNameRule) : std::nullopt;
}

// Members of all such names, told apart by which patterns of the schema they match.
void SchemaGrammar::open_members(const Container& at, Formula rest, std::vector<Expression>& bodies) {
  std::vector<Member> ways;
  other_members(at, rest, ways);
  for (std::size_t i = 0; i < ways.size(); ++i) {
    if (i == 0 || ways[i].names != ways[i - 1].names) bodies.push_back(open_member(at, rest, ways[i]));
  }
}

// A name of these and what follows it, if anything can.
Expression SchemaGrammar::open_member(const Container& at, Formula rest, const Member& like) {
  open_names_.push_back({payload_of(at) / kPayloads, rest, like.names});
  const OpenName& open = open_names_.back();
  if (!store_.possible(after_open_name(open, std::nullopt))) return ExpressionStore::nothing;
  const auto [known, fresh] = name_rules_of_.try_emplace(like.names, static_cast<Rule>(name_rules_.size()));
  if (fresh) name_rules_.push_back(like.word);
  store_.set_records();
  const auto payload = static_cast<std::uint32_t>(open_names_.size() - 1) * kPayloads + kOpenName;
  const bool few = names_left(at, like.names, kMany) < kMany;
  return store_.concat(store_.call(kFirstNameRule + known->second), store_.awaiting(payload, few));
}

// `text` ends with the name; without one what any name could be followed by.
Expression SchemaGrammar::after_open_name(OpenName open, std::optional<std::string_view> text) {
  const Container at = containers_[open.container];
  std::vector<Member> ways;
  other_members(at, open.rest, ways);
  std::vector<Expression> bodies;
  for (const Member& way : ways) {
    if (way.names != open.names || !possible(way.value)) continue;
    const bool settles = way.next.rest != open.rest;
    Container next = text ? with_name(at, way.next, settles, *text) : way.next;
    next.lasting |= settles;  // so that tokens that read on to another name depend on its text
    if (possible(in_order(text ? next : with_unknown_name(at, open.rest, way))))
      bodies.push_back(store_.concat(value(way.value), later(next)));
  }
  return store_.concat(colon_, store_.either(std::move(bodies)));
}

// `settles`: the member's value has satisfied something for the whole object.
SchemaGrammar::Container SchemaGrammar::with_name(const Container& at, Container next, bool settles,
                                                  std::string_view text) {
  next.lasting = at.lasting || settles;
  if (settles || next.min_left > 0) {
    const auto name = parse_json(last_string(text));
    const std::string decoded = name.ok() && name->is_string() ? name->get<std::string>() : std::string();
    next.written = with_written(at.written, tables_.text(decoded));
    if (written_sets_[next.written].size() > kMostNames) store_.exhaust();
  }
  return without_needless_names(next);
}

// The same where nobody knows the name yet.
SchemaGrammar::Container SchemaGrammar::with_unknown_name(const Container& at, Formula rest, const Member& way) {
  Container next = way.next;
  next.lasting = at.lasting || next.rest != rest;
  next.written = at.written;
  std::vector<std::uint32_t> more = written_sets_[at.unknown];
  more.insert(std::ranges::lower_bound(more, way.names), way.names);
  next.unknown = numbered(std::move(more));
  return without_needless_names(next);
}

// Once enough members have come the names that were counted may come again.
SchemaGrammar::Container SchemaGrammar::without_needless_names(Container object) {
  if (object.min_left == 0 && !object.lasting) object.written = object.unknown = 0;
  return object;
}

// The names of a kind that may still come.
Expression SchemaGrammar::unwritten(Expression names, const Container& at) {
  if (at.written == 0) return names;
  std::vector<Expression> written;
  for (const std::uint32_t name : written_sets_[at.written])
    written.push_back(tables_.spelling.text(tables_.texts[name]));
  return store_.both(names, store_.negation(store_.either(std::move(written))));
}

// How many of them nobody has taken, up to `enough`.
std::uint64_t SchemaGrammar::names_left(const Container& at, Expression names, std::uint64_t enough) {
  const auto taken = static_cast<std::uint64_t>(std::ranges::count(written_sets_[at.unknown], names));
  const std::uint64_t all = TextCount(store_, enough + taken).of(each_once(names));
  return all - std::min(all, taken);
}

// Whether members of these kinds, which say nothing new, are enough for those that must still come.
bool SchemaGrammar::enough_names(const Container& at, const std::vector<Member>& ways) {
  const std::uint64_t wanted = std::max(at.min_left, 1u);
  std::uint64_t left = 0;
  std::vector<Expression> counted;
  for (const Member& way : ways) {
    if (!possible(way.value) || std::ranges::find(counted, way.names) != counted.end()) continue;
    counted.push_back(way.names);
    left += wanted == 1 && at.unknown == 0 ? 1 : names_left(at, way.names, wanted);
    if (left >= wanted) return true;
  }
  return false;
}

}  // namespace espalier::grammar
