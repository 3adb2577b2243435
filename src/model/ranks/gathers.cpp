#include "model/ranks/gathers.h"

#include <algorithm>

#include "kernels/activations.h"
#include "model/ranks/split_program.h"

namespace espalier {
namespace {

constexpr std::int64_t kFloat = sizeof(float), kBlockBytes = kActivationBlock + sizeof(ActivationScale);

class Count {
 public:
  Count(const Program& program, RowFormat inputs) : program_(program), inputs_(inputs) {}
  GatherWork run() {
    for (std::size_t i = 0; i < program_.ops.size(); ++i)
      std::visit([&](const auto& o) { add(o, i); }, program_.ops[i]);
    return work_;
  }

 private:
  void add(std::int64_t bytes) {
    ++work_.gathers;
    (behind_keep_ ? work_.end_bytes : work_.row_bytes) += bytes;
  }
  void add(const AllGatherOp& o, std::size_t op) {
    const bool whole_blocks = std::ranges::all_of(o.cut, [&](const Range& range) {
      return !range.empty() && (range.begin - o.rows.first) % kActivationBlock == 0 &&
             range.size() % kActivationBlock == 0;
    });
    add(bytes_of(o.rows.width, whole_blocks && only_multiplied(o.rows, op) ? inputs_ : RowFormat::f32));
  }
  static std::int64_t bytes_of(std::int64_t values, RowFormat format) {
    if (format == RowFormat::int8) return values / kActivationBlock * kBlockBytes;
    return values * (format == RowFormat::bf16 ? kFloat / 2 : kFloat);
  }
  void add(const ExpertsOp& o, std::size_t) {
    if (!o.inner_cut.empty()) add(std::int64_t{o.chosen} * o.inner * kFloat);
    if (!o.expert_cut.empty()) add(std::int64_t{o.chosen} * o.out.width * kFloat);
  }
  void add(const GatherLogitsOp& o, std::size_t) {
    ++work_.gathers;
    work_.logit_bytes += o.cut.back().end * kFloat;
  }
  void add(const KeepRowsOp&, std::size_t) { behind_keep_ = true; }
  template <class O>
  void add(const O&, std::size_t) {}

  // Whether products that read just these columns are all that reads them, until they are written again.
  bool only_multiplied(const Rows& rows, std::size_t from) const {
    return all_readers(program_.ops, rows, static_cast<int>(from),
                       [&](int op) { return multiplies(program_.ops[static_cast<std::size_t>(op)], rows); });
  }
  static bool multiplies(const Op& op, const Rows& rows) {
    if (const auto* o = std::get_if<MatmulOp>(&op)) return o->in == rows && !o->wide;
    if (const auto* o = std::get_if<GatedMatmulOp>(&op)) return o->in == rows;
    if (const auto* o = std::get_if<HeadOp>(&op)) return o->in == rows;
    return false;
  }

  const Program& program_;
  RowFormat inputs_;
  GatherWork work_;
  bool behind_keep_ = false;
};

}  // namespace

GatherWork gathers_of(const Program& program, int ranks, RowFormat inputs) {
  const Program split = split_program(program, {0, ranks});
  return Count(split, inputs).run();
}

}  // namespace espalier
