#include "model/cpu/stages/load_before_stage.h"

#include <algorithm>

#include "kernels/matmul/stored_row.h"

namespace espalier {

void LoadBeforeStage::run(Pass& pass) {
  const std::vector<Slot> before = pass.slots_before(id_);
  const KvLayer& kv = pass.field(id_);
  pass.with().team.run(pass.rows(), [&](int row) {
    const Slot slot = before[static_cast<std::size_t>(row)];
    float* to = out_.row(row);
    for (int h = 0; h < field_.heads; ++h) {
      const std::span<float> piece(to + h * field_.key_dim, static_cast<std::size_t>(field_.key_dim));
      if (slot < 0)
        std::ranges::fill(piece, 0.0f);
      else
        load_row(kv, h, slot, piece);
    }
  });
}

}  // namespace espalier
