#include "model/program/gathers.h"

#include <algorithm>
#include <type_traits>

namespace espalier {
namespace {

constexpr std::int64_t kBlock = 32, kBlockBytes = 36;  // of a product's input: a byte each, and a scale

template <class O, class... Kinds>
constexpr bool is_one_of = (std::is_same_v<O, Kinds> || ...);

// Walks over the operations and knows of every column whether each rank has only its share.
class Walk {
 public:
  explicit Walk(const Program& program) : program_(program) {
    for (const int width : program.buffers) split_.emplace_back(static_cast<std::size_t>(width), false);
  }
  GatherWork run() {
    for (const Op& op : program_.ops) std::visit([&](const auto& o) { step(o, op); }, op);
    return work_;
  }

 private:
  enum class As { floats, input };

  auto columns(const Rows& rows) {
    auto& all = split_[static_cast<std::size_t>(rows.buffer)];
    return std::pair(all.begin() + rows.first, all.begin() + rows.first + rows.width);
  }
  bool is_split(const Rows& rows) {
    const auto [begin, end] = columns(rows);
    return std::find(begin, end, true) != end;
  }
  void mark(const Rows& rows, bool split) {
    const auto [begin, end] = columns(rows);
    std::fill(begin, end, split);
  }
  void gather(std::int64_t values, As as) {
    ++work_.gathers;
    const std::int64_t bytes = as == As::input ? (values + kBlock - 1) / kBlock * kBlockBytes
                                               : values * static_cast<std::int64_t>(sizeof(float));
    (behind_keep_ ? work_.end_bytes : work_.row_bytes) += bytes;
  }
  // All ranks need all of it.
  void need(const Rows& rows, As as) {
    if (!rows || !is_split(rows)) return;
    const auto [begin, end] = columns(rows);
    gather(std::count(begin, end, true), as);
    std::fill(begin, end, false);
  }

  template <class O>
  void step(const O& o, const Op& op) {
    if constexpr (is_one_of<O, MatmulOp, GatedMatmulOp, GroupedMatmulOp>) {
      need(o.in, As::input);
      mark(o.out, true);
    } else if constexpr (std::is_same_v<O, ExpertsOp>) {
      need(o.in, As::input);
      need(o.routed, As::floats);
      gather(std::int64_t{o.chosen} * o.inner, As::input);
      mark(o.out, true);
    } else if constexpr (std::is_same_v<O, HeadOp>) {
      need(o.in, As::input);
      const MatrixNeed& head = program_.needs.matrices[static_cast<std::size_t>(o.matrix)];
      work_.logit_bytes += head.outputs() * static_cast<std::int64_t>(sizeof(float));
      ++work_.gathers;
    } else if constexpr (std::is_same_v<O, KeepRowsOp>) {
      behind_keep_ = true;
    } else if constexpr (std::is_same_v<O, StoreOp>) {
      // Heads are kept where they are; what all heads read, everywhere.
      if (program_.keeps.per_token[static_cast<std::size_t>(o.field)].latent) need(o.keys, As::floats);
    } else {
      carry(o, op);
    }
  }

  // Operations on values of their own or heads of their own go on with shares; others need whole rows.
  template <class O>
  void carry(const O& o, const Op& op) {
    bool whole =
        is_one_of<O, DotOp, RouteOp, SpreadWeightsOp, MixOp, ScaleToOp, CutOffOp, StreamGatesOp, ChooseOp, GiveOp>;
    if constexpr (std::is_same_v<O, NormOp>) whole = o.groups == 1;
    bool split = false;
    for_each_place(op, [&](const Rows& rows, bool writes) {
      if (writes) return mark(rows, split);
      if (whole) need(rows, As::floats);
      split = split || is_split(rows);
    });
  }

  const Program& program_;
  GatherWork work_;
  std::vector<std::vector<bool>> split_;  // by buffer and column
  bool behind_keep_ = false;
};

}  // namespace

GatherWork gathers_of(const Program& program) {
  return Walk(program).run();
}

}  // namespace espalier
