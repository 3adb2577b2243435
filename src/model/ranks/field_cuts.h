// field_cuts.h: which fields of a program its ranks store by heads, and who has which.
//
// Threads: values. Fails: never.
#pragma once

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "model/program/program.h"
#include "model/ranks/cut.h"

namespace espalier {

// Which fields are stored by heads, and how; the others have all heads on every rank.
class FieldCuts {
 public:
  FieldCuts(const Program& program, int ranks) : ranks_(ranks), by_heads_(program.keeps.per_token.size(), true) {
    for (std::size_t f = 0; f < by_heads_.size(); ++f) by_heads_[f] = program.keeps.per_token[f].heads > 1;
    for (const auto* ops : {&program.ops, &program.draft_ops})
      for (const Op& op : *ops) see_masks(op);
    for (const auto* ops : {&program.ops, &program.draft_ops})
      for (const Op& op : *ops) see(op);
    // Both fields of one softmax, as often as one of them changes another.
    for (std::size_t round = 0; round < together_.size(); ++round)
      for (const auto& [a, b] : together_)
        if (at(a) != at(b)) by_heads_[index(a)] = by_heads_[index(b)] = false;
    for (std::size_t f = 0; f < by_heads_.size(); ++f) heads_.push_back(program.keeps.per_token[f].heads);
  }

  // The heads of each rank; nothing: all have all.
  std::optional<Cut> of(FieldId id) const {
    if (!at(id)) return std::nullopt;
    return head_cuts(heads_[index(id)], heads_[index(id)], ranks_).kv_heads;
  }
  // Whether its heads can be shared, and how.
  std::optional<Cut> queries(const AttendOp& o) const {
    const int heads = heads_[index(o.field)];
    if (by_head_.contains(o.mask) || by_head_.contains(o.then_mask)) return std::nullopt;
    if (heads == 1 && (o.then < 0 || heads_[index(o.then)] == 1)) return even_cut(o.heads, ranks_);
    if (!at(o.field)) return std::nullopt;
    return head_cuts(o.heads, heads, ranks_).heads;
  }

 private:
  static std::size_t index(FieldId id) { return static_cast<std::size_t>(id); }
  bool at(FieldId id) const { return by_heads_[index(id)]; }
  // Lists that each head has of its own cannot be had by some heads alone.
  void see_masks(const Op& op) {
    if (const auto* o = std::get_if<ChooseOp>(&op); o && !o->weights && o->constant_weights < 0 && o->heads > 1)
      by_head_[o->mask] = true;
  }
  void see(const Op& op) {
    if (const auto* o = std::get_if<ChooseOp>(&op)) by_heads_[index(o->field)] = false;
    if (const auto* o = std::get_if<LoadBeforeOp>(&op)) by_heads_[index(o->field)] = false;
    const auto* o = std::get_if<AttendOp>(&op);
    if (o == nullptr) return;
    if (by_head_.contains(o->mask) || by_head_.contains(o->then_mask)) {
      by_heads_[index(o->field)] = false;
      if (o->then >= 0) by_heads_[index(o->then)] = false;
    }
    if (o->then >= 0) together_.push_back({o->field, o->then});
  }

  int ranks_;
  std::vector<bool> by_heads_;
  std::vector<int> heads_;
  std::map<MaskId, bool> by_head_;
  std::vector<std::pair<FieldId, FieldId>> together_;
};

}  // namespace espalier
