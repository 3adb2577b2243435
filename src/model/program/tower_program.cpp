// A tower's program: the way in, its layers with what is made beside them, the way out.
#include <utility>

#include "model/program/builder.h"
#include "model/tower_spec.h"

namespace espalier {

Result<Program> Builder::build(const TowerSpec& spec, const Weights* weights) {
  Builder builder(spec.body, weights);
  builder.layers_share_fields_ = true;
  builder.emit_tower(spec);
  return builder.finish();
}

void Builder::emit_tower(const TowerSpec& tower) {
  Rows x = tower.enter(*this);
  for (layer_ = 0; layer_ < program_.layers && !error_; ++layer_) {
    x = run(spec_.layers[static_cast<std::size_t>(layer_)], x);
    read_tensors_of(-1);
    const int layer = std::exchange(layer_, -1);
    if (tower.behind) tower.behind(*this, layer, x);
    layer_ = layer;
  }
  layer_ = -1;
  tower.leave(*this, x);
}

}  // namespace espalier
