#include "model/ranks/stages.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

namespace espalier {
namespace {

// From where to where something is in use, in operations.
struct Life {
  int first = std::numeric_limits<int>::max(), last = -1;
  void use(int op) {
    first = std::min(first, op);
    last = std::max(last, op);
  }
  bool crosses(int op) const { return first < op && op <= last; }  // the place before `op`
};

class Places {
 public:
  explicit Places(const Program& program)
      : program_(program), buffers_(program.buffers.size()), fields_(program.keeps.per_token.size()) {
    const auto count = static_cast<int>(program.ops.size());
    for (int i = 0; i < count; ++i) {
      const Op& op = program.ops[static_cast<std::size_t>(i)];
      for_each_place(op, [&](const Rows& rows, bool) {
        if (!std::holds_alternative<KeepRowsOp>(op)) buffers_[static_cast<std::size_t>(rows.buffer)].use(i);
      });
      std::visit([&](const auto& o) { use(o, i); }, op);
      weights_.push_back((weights_.empty() ? 0 : weights_.back()) + values(op));
    }
    if (program.output) buffers_[static_cast<std::size_t>(program.output.buffer)].use(count);
    // The layer that drafts belongs to the last stage, with all that it reads.
    for (const Op& op : program.draft_ops) std::visit([&](const auto& o) { use(o, count - 1); }, op);
  }

  // Whether a stage may begin at the operation.
  bool open(int op) const {
    const auto crosses = [op](const Life& life) { return life.crosses(op); };
    return std::ranges::none_of(fields_, crosses) &&
           std::ranges::none_of(masks_, [&](const auto& mask) { return crosses(mask.second); });
  }
  std::int64_t live_width(int op) const {
    std::int64_t sum = 0;
    for (std::size_t b = 0; b < buffers_.size(); ++b)
      if (buffers_[b].crosses(op)) sum += program_.buffers[b];
    return sum;
  }
  std::vector<Rows> live(int op) const {
    std::vector<Rows> rows;
    for (std::size_t b = 0; b < buffers_.size(); ++b)
      if (buffers_[b].crosses(op)) rows.push_back({static_cast<int>(b), 0, program_.buffers[b]});
    return rows;
  }
  std::int64_t weights_before(int op) const { return op == 0 ? 0 : weights_[static_cast<std::size_t>(op) - 1]; }

 private:
  std::int64_t values(MatrixId first, int count) const {
    std::int64_t sum = 0;
    for (MatrixId id = first; id < first + count; ++id) {
      const MatrixNeed& need = program_.needs.matrices[static_cast<std::size_t>(id)];
      sum += need.inputs * need.outputs() * (need.gated ? 2 : 1);
    }
    return sum;
  }
  std::int64_t values(const Op& op) const {
    if (const auto* o = std::get_if<MatmulOp>(&op)) return values(o->matrix, 1);
    if (const auto* o = std::get_if<GatedMatmulOp>(&op)) return values(o->matrix, 1);
    if (const auto* o = std::get_if<GroupedMatmulOp>(&op)) return values(o->first, o->groups);
    if (const auto* o = std::get_if<ExpertsOp>(&op)) return values(o->gate_up, o->count) + values(o->down, o->count);
    if (const auto* o = std::get_if<HeadOp>(&op)) return values(o->matrix, 1);
    return 0;
  }
  void use_field(FieldId id, int op) {
    if (id >= 0) fields_[static_cast<std::size_t>(id)].use(op);
  }
  void use_mask(MaskId id, int op) {
    if (id >= 0) masks_[id].use(op);
  }
  void use(const StoreOp& o, int op) { use_field(o.field, op); }
  void use(const LoadBeforeOp& o, int op) { use_field(o.field, op); }
  void use(const AttendOp& o, int op) {
    use_field(o.field, op);
    use_field(o.then, op);
    use_mask(o.mask, op);
    use_mask(o.then_mask, op);
  }
  void use(const ChooseOp& o, int op) {
    use_field(o.field, op);
    use_mask(o.mask, op);
  }
  template <class O>
  void use(const O&, int) {}

  const Program& program_;
  std::vector<Life> buffers_, fields_;
  std::map<MaskId, Life> masks_;
  std::vector<std::int64_t> weights_;  // up to each operation, it included
};

}  // namespace

std::vector<StageBegin> stages_of(const Program& whole, int stages) {
  const Places places(whole);
  const auto count = static_cast<int>(whole.ops.size());
  std::vector<int> open;
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (int op = 1; op < count; ++op)
    if (places.open(op) && places.live_width(op) > 0) {
      open.push_back(op);
      least = std::min(least, places.live_width(op));
    }
  std::erase_if(open, [&](int op) { return places.live_width(op) > least; });
  std::vector<StageBegin> begins = {{}};
  const double all = static_cast<double>(places.weights_before(count));
  for (int stage = 1; stage < stages; ++stage) {
    const double wanted = all * stage / stages;
    const auto off = [&](int op) { return std::abs(static_cast<double>(places.weights_before(op)) - wanted); };
    std::erase_if(open, [&](int op) { return op <= begins.back().op; });
    const auto best = std::ranges::min_element(open, {}, off);
    begins.push_back(best == open.end() ? StageBegin{count, {}} : StageBegin{*best, places.live(*best)});
  }
  return begins;
}

}  // namespace espalier
