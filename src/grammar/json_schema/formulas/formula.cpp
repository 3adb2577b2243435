#include "grammar/json_schema/formulas/formula.h"

#include <algorithm>

#include "base/threads/yield_to_model.h"
#include "grammar/automaton/hashing.h"

namespace espalier::grammar {
using Kind = Demand::Kind;

FormulaStore::FormulaStore(std::size_t most) : most_(most) {
  nodes_.push_back({Op::never, {}, {}, always, 0, 0});
  nodes_.push_back({Op::always, {}, {}, never, 0, 0});
  table_.resize(256);
}

FormulaStore::Mentions FormulaStore::mentions_of(Op op, const Demand& demand, std::span<const Formula> parts) const {
  Mentions all = 0;
  for (const Formula part : parts) all |= nodes_[part].mentions;
  if (op != Op::one && op != Op::negated) return all;
  switch (demand.kind) {
    case Kind::value:
      return mentions_value | mentions_asked(demand.a);
    case Kind::property:
    case Kind::required:
      return mentions_name(demand.a);
    case Kind::pattern:
    case Kind::additional:
    case Kind::names:
    case Kind::min_members:
    case Kind::max_members:
      return mentions_members;
    default:
      return 0;
  }
}

Formula FormulaStore::intern(Op op, const Demand& demand, std::span<const Formula> parts) {
  yield_to_model();
  if (exhausted_) return never;
  std::uint64_t hash = static_cast<std::uint64_t>(op);
  hash = mix(hash, static_cast<std::uint64_t>(demand.kind));
  hash = mix(hash, (std::uint64_t{demand.a} << 32) | demand.b);
  hash = mix(hash, demand.c);
  for (const Formula part : parts) hash = mix(hash, part);
  const auto short_hash = static_cast<std::uint32_t>(hash ^ (hash >> 32));
  std::size_t at = short_hash & (table_.size() - 1);
  for (; table_[at] != 0; at = (at + 1) & (table_.size() - 1)) {
    const Node& node = nodes_[table_[at] - 1];
    if (node.hash == short_hash && node.op == op && node.demand == demand && std::ranges::equal(node.parts, parts)) {
      return table_[at] - 1;
    }
  }
  if (nodes_.size() >= most_) {
    exhausted_ = true;
    return never;
  }
  nodes_.push_back({op, demand, part_pool_.add(parts), kNone, short_hash, mentions_of(op, demand, parts)});
  table_[at] = static_cast<std::uint32_t>(nodes_.size());
  if (nodes_.size() * 2 > table_.size()) grow_table();
  return static_cast<Formula>(nodes_.size() - 1);
}

void FormulaStore::grow_table() {
  table_.assign(table_.size() * 2, 0);
  for (std::size_t f = 2; f < nodes_.size(); ++f) {
    std::size_t at = nodes_[f].hash & (table_.size() - 1);
    while (table_[at] != 0) at = (at + 1) & (table_.size() - 1);
    table_[at] = static_cast<std::uint32_t>(f) + 1;
  }
}

Formula FormulaStore::one(const Demand& demand) {
  switch (demand.kind) {
    case Kind::type:
      if ((demand.a & kAnyType) == 0) return never;
      if ((demand.a & kAnyType) == kAnyType) return always;
      break;
    case Kind::property:
    case Kind::pattern:
    case Kind::additional:
    case Kind::names:
    case Kind::item:
    case Kind::items:
      if (demand.b == always) return always;
      break;
    case Kind::value:
      if (demand.a == always || demand.a == never) return demand.a;
      break;
    case Kind::min_members:
    case Kind::min_items:
      if (demand.a == 0) return always;
      break;
    case Kind::contains:
      if (demand.b > demand.c) return one({Kind::type, kAnyType & ~std::uint32_t{kArray}, 0, 0});  // no array can
      if (demand.b == 0 && demand.c == ExpressionStore::unbounded) return always;
      break;
    case Kind::length:
      if (demand.a > demand.b) return no(one({Kind::type, kString, 0, 0}));
      break;
    default:
      break;
  }
  return intern(Op::one, demand, {});
}

// Flat, without repetitions, types joined; contradictions and tautologies found where they stand side by side.
Formula FormulaStore::join(Op wanted, const std::vector<Formula>& given) {
  const Formula neutral = wanted == Op::all ? always : never, decisive = wanted == Op::all ? never : always;
  std::vector<Formula> parts;
  parts.reserve(given.size());
  const Visits visits(*this);
  VisitTable& taken = visits.table();  // 1: among the parts
  std::uint32_t types = wanted == Op::all ? std::uint32_t{kAnyType} : 0u;
  std::size_t type_place = SIZE_MAX;
  const auto contains = [&](Formula f) {
    const auto [mark, fresh] = taken.at(f);
    if (fresh) mark = 0;
    return mark == 1;
  };
  const auto add = [&](Formula f) {
    if (f == neutral) return true;
    if (f == decisive) return false;
    const Node& node = nodes_[f];
    if (node.op == Op::one && node.demand.kind == Kind::type) {
      types = wanted == Op::all ? types & node.demand.a : types | node.demand.a;
      if (type_place == SIZE_MAX) {
        type_place = parts.size();
        parts.push_back(f);
      }
      return true;
    }
    if (contains(f)) return true;
    if (node.negation != kNone && contains(node.negation)) return false;
    parts.push_back(f);
    taken.at(f).first = 1;
    return true;
  };
  for (const Formula f : given) {
    if (op(f) != wanted) {
      if (!add(f)) return decisive;
      continue;
    }
    for (const Formula inner : this->parts(f)) {
      if (!add(inner)) return decisive;
    }
  }
  if (type_place != SIZE_MAX) {
    parts[type_place] = one({Kind::type, types, 0, 0});
    if (parts[type_place] == decisive) return decisive;
    if (parts[type_place] == neutral) parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(type_place));
  }
  if (parts.empty()) return neutral;
  if (parts.size() == 1) return parts[0];
  return intern(wanted, {}, parts);
}

Formula FormulaStore::all(const std::vector<Formula>& parts) {
  return join(Op::all, parts);
}

Formula FormulaStore::any(const std::vector<Formula>& parts) {
  return join(Op::any, parts);
}

Formula FormulaStore::no(Formula f) {
  if (f == never) return always;
  if (f == always) return never;
  if (nodes_[f].negation != kNone) return nodes_[f].negation;
  Formula result = never;
  const Node node = nodes_[f];
  switch (node.op) {
    case Op::negated:
      result = one(node.demand);
      break;
    case Op::one:
      if (node.demand.kind == Kind::type) {
        result = one({Kind::type, ~node.demand.a & kAnyType, 0, 0});
      } else {
        result = intern(Op::negated, node.demand, {});
      }
      break;
    default: {
      std::vector<Formula> opposites;
      for (const Formula part : node.parts) opposites.push_back(no(part));
      result = node.op == Op::all ? any(opposites) : all(opposites);
    }
  }
  if (result > always) {
    nodes_[f].negation = result;
    nodes_[result].negation = f;
  }
  return result;
}

// The first and none of the others, or not the first and exactly one of the others: linear in the parts.
Formula FormulaStore::exactly_one(std::span<const Formula> parts, std::span<const Formula> stands_for) {
  Formula none = always, exactly = never;  // of the parts behind
  for (std::size_t i = parts.size(); i-- > 0;) {
    const Formula not_this = no(stands_for[i]);
    exactly = any(all(parts[i], none), all(not_this, exactly));
    none = all(not_this, none);
  }
  return exactly;
}

}  // namespace espalier::grammar
