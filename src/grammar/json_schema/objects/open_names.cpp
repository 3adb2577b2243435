#include "grammar/json_schema/objects/open_names.h"

#include <algorithm>

#include "grammar/automaton/text_count.h"
#include "grammar/json_schema/formulas/formula_steps.h"
#include "grammar/json_schema/payload.h"
#include "grammar/json_schema/values/written_value.h"

namespace espalier::grammar {

using Kind = Demand::Kind;

namespace {

constexpr Rule kFirstNameRule = 1u << 23;  // behind all formulas, below what a source may number
constexpr std::size_t kMostNames = 1000;   // of one object
constexpr std::uint64_t kManyNames = 64;   // more names than a token can hold

}  // namespace

// Whether what the formula asks of members could seem satisfied by one that another of its name replaces.
bool OpenNames::counts_members(Formula formula) {
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

bool OpenNames::matter(const Container& at, Formula rest) {
  const bool counted = at.min_left > (at.first ? 1u : 0u);
  return counted || at.lasting || counts_members(rest);
}

std::optional<Expression> OpenNames::rule_body(Rule rule) const {
  return rule >= kFirstNameRule ? std::optional(name_rules_[rule - kFirstNameRule]) : std::nullopt;
}

void OpenNames::add_members(const Container& at, Formula rest, std::vector<Expression>& bodies) {
  std::vector<Member> ways;
  members_.add_others(at, rest, ways);
  for (std::size_t i = 0; i < ways.size(); ++i) {
    if (i == 0 || ways[i].names != ways[i - 1].names) bodies.push_back(member(at, rest, ways[i]));
  }
}

// A name of these and what follows it, if anything can.
Expression OpenNames::member(const Container& at, Formula rest, const Member& like) {
  open_names_.push_back({containers_.number(at), rest, like.names});
  const auto number = static_cast<std::uint32_t>(open_names_.size() - 1);
  if (!store_.possible(after_name(number, std::nullopt))) return ExpressionStore::nothing;
  const auto [known, fresh] = name_rules_of_.try_emplace(like.names, static_cast<Rule>(name_rules_.size()));
  if (fresh) name_rules_.push_back(like.word);
  store_.sources().set_records();
  const std::uint32_t payload = payload_of(Payload::open_name, number);
  const bool few = left(at, like.names, kManyNames) < kManyNames;
  return store_.concat(store_.call(kFirstNameRule + known->second), store_.awaiting(payload, few));
}

Expression OpenNames::after_name(std::uint32_t number, std::optional<std::string_view> text) {
  const OpenName open = open_names_[number];  // a copy: they move when more come
  const Container at = containers_[open.container];
  std::vector<Member> ways;
  members_.add_others(at, open.rest, ways);
  std::vector<Expression> bodies;
  for (const Member& way : ways) {
    if (way.names != open.names || !values_.possible(way.value)) continue;
    const bool settles = way.next.rest != open.rest;
    Container next = text ? with_name(at, way.next, settles, *text) : way.next;
    next.lasting |= settles;  // so that tokens that read on to another name depend on its text
    if (values_.possible(ObjectMembers::in_order(text ? next : with_unknown(at, open.rest, way))))
      bodies.push_back(store_.concat(values_.text(way.value), containers_.later(next)));
  }
  return store_.concat(form_.colon, store_.either(std::move(bodies)));
}

// `settles`: the member's value has satisfied something for the whole object.
Container OpenNames::with_name(const Container& at, Container next, bool settles, std::string_view text) {
  next.lasting = at.lasting || settles;
  if (settles || next.min_left > 0) {
    const auto name = parse_json(last_string(text));
    const std::string decoded = name.ok() && name->is_string() ? name->get<std::string>() : std::string();
    next.written = written_.with(at.written, tables_.text(decoded));
    if (written_[next.written].size() > kMostNames) store_.exhaust();
  }
  return ObjectMembers::without_needless_names(next);
}

Container OpenNames::with_unknown(const Container& at, Formula rest, const Member& way) {
  Container next = way.next;
  next.lasting = at.lasting || next.rest != rest;
  next.written = at.written;
  next.unknown = written_.with_one_more(at.unknown, way.names);
  return ObjectMembers::without_needless_names(next);
}

std::uint64_t OpenNames::left(const Container& at, Expression names, std::uint64_t enough) {
  const auto taken = static_cast<std::uint64_t>(std::ranges::count(written_[at.unknown], names));
  const std::uint64_t all = TextCount(store_, enough + taken).of(strings_.each_once(names));
  return all - std::min(all, taken);
}

bool OpenNames::enough(const Container& at, const std::vector<Member>& ways) {
  const std::uint64_t wanted = std::max(at.min_left, 1u);
  std::uint64_t found = 0;
  std::vector<Expression> counted;
  for (const Member& way : ways) {
    if (!values_.possible(way.value) || std::ranges::find(counted, way.names) != counted.end()) continue;
    counted.push_back(way.names);
    found += wanted == 1 && at.unknown == 0 ? 1 : left(at, way.names, wanted);
    if (found >= wanted) return true;
  }
  return false;
}

}  // namespace espalier::grammar
