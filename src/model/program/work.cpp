#include "model/program/work.h"

#include <algorithm>

namespace espalier {
namespace {

class Fold {
 public:
  explicit Fold(const Program& program) : program_(program) {}
  ProgramWork run() {
    for (const Op& op : program_.ops) std::visit([this](const auto& o) { add(o); }, op);
    return std::move(work_);
  }

 private:
  std::int64_t values(MatrixId id) const {
    const MatrixNeed& need = program_.needs.matrices[static_cast<std::size_t>(id)];
    return need.inputs * need.outputs() * (need.gated ? 2 : 1);
  }
  void count(std::int64_t parameters) { (behind_keep_ ? work_.end_parameters : work_.layer_parameters) += parameters; }
  void add(const MatmulOp& o) { count(values(o.matrix)); }
  void add(const GatedMatmulOp& o) { count(values(o.matrix)); }
  void add(const HeadOp& o) { count(values(o.matrix)); }
  void add(const GroupedMatmulOp& o) {
    for (int g = 0; g < o.groups; ++g) count(values(o.first + g));
  }
  void add(const ExpertsOp& o) {
    const std::int64_t one = values(o.gate_up) + values(o.down);
    count(o.chosen * one);
    work_.chosen_parameters += o.chosen * one;
    work_.expert_parameters += o.count * one;
  }
  void add(const AttendOp& o) {
    work_.attention_width = std::max<std::int64_t>(work_.attention_width, o.queries.width);
    work_.windows.push_back(o.visibility.rule == Visibility::Rule::all ? 0 : o.visibility.size);
  }
  void add(const KeepRowsOp&) { behind_keep_ = true; }
  template <class O>
  void add(const O&) {}

  const Program& program_;
  ProgramWork work_;
  bool behind_keep_ = false;
};

}  // namespace

ProgramWork work_of(const Program& program) {
  return Fold(program).run();
}

}  // namespace espalier
