// Nanbeige 4.2: Llama whose layers run more than once. Source: its model card; llama.cpp.
#include "model/arch/families.h"
#include "model/program/builder.h"

namespace espalier {

ModelSpec nanbeige(const Fields& f) {
  ModelSpec spec = llama(f);
  const int loops = static_cast<int>(f.integer_or({"num_loops", "num_loops"}, 1, 1, 64));
  const bool normed = !f.flag_or({"skip_loop_final_norm", "skip_loop_final_norm"}, false);
  const std::vector<Layer> once = std::move(spec.layers);
  const int count = static_cast<int>(once.size());
  if (std::int64_t{count} * loops > ConfigLimits::layers)
    f.refuse({"num_loops", "num_loops"}, "num_loops makes more layers than is possible here");
  spec.layers.clear();
  for (int i = 0; i < count * loops && !f.problem(); ++i) {
    Layer layer;
    const bool between = normed && i % count == count - 1 && i + 1 < count * loops;
    layer.body = [of = once[static_cast<std::size_t>(i % count)], i, count, between](Builder& b, Rows x) {
      b.read_tensors_of(i % count);
      x = b.run(of, x);
      b.read_tensors_of(Builder::whole_model);
      return between ? b.norm(x, b.spec().norm, "output_norm") : x;
    };
    spec.layers.push_back(std::move(layer));
  }
  return spec;
}

}  // namespace espalier
