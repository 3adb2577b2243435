#include "model/cpu/stages/all_gather_stage.h"

#include <algorithm>

#include "model/cpu/stages/gather_ranks.h"
#include "ranks/collective.h"

namespace espalier {

void AllGatherStage::run(Pass& pass) {
  if (converted_) return converted_->run(pass.with(), pass.rows());
  gather_columns(pass.with(), op_.cut, buffer_, pass.rows() * std::max(1, op_.of_experts), op_.takes);
}

void GatherLogitsStage::run(Pass& pass) {
  gather_columns(pass.with(), cut_, logits_, pass.rows(), true, 0);
  if (LogitReader* reader = pass.batch().reader; reader != nullptr && pass.with().group->rank() == 0)
    show(pass, *reader);
}

void GatherLogitsStage::show(const Pass& pass, LogitReader& reader) const {
  const auto vocabulary = static_cast<int>(logits_.stride);
  const int tiles = (vocabulary + kLogitTile - 1) / kLogitTile;
  pass.with().team.run(tiles, [&](int tile) {
    const int first = tile * kLogitTile, columns = std::min(kLogitTile, vocabulary - first);
    for (int row = 0; row < pass.rows(); ++row)
      if (reader.takes(row)) reader.read(row, first, {logits_.row(row) + first, static_cast<std::size_t>(columns)});
  });
}

}  // namespace espalier
