#include "command/model_work.h"

#include <algorithm>

namespace espalier::command {
namespace {

// Positions that the tokens [begin, end) see, of all layers together.
double positions_seen(const ModelInfo& model, int begin, int end) {
  double seen = 0;
  for (const std::int64_t window : model.windows)
    for (int position = begin; position < end; ++position)
      seen += static_cast<double>(window > 0 ? std::min<std::int64_t>(window, position + 1) : position + 1);
  return seen;
}

double operations(const ModelInfo& model, int begin, int end) {
  return 2.0 * static_cast<double>(model.layer_parameters) * (end - begin) +
         2.0 * static_cast<double>(model.head_parameters) +
         4.0 * static_cast<double>(model.attention_width) * positions_seen(model, begin, end);
}

}  // namespace

double prompt_operations(const ModelInfo& model, int length) {
  return operations(model, 0, length);
}

double token_operations(const ModelInfo& model, int length) {
  return operations(model, length - 1, length);
}

double step_bytes(const ModelInfo& model, int sequences, int length) {
  const double of_token = static_cast<double>(model.kv_bytes) / std::max(1, model.limits.pool_tokens);
  double kept = 0;  // positions that are read, on average of the layers
  for (const std::int64_t window : model.windows)
    kept += static_cast<double>(window > 0 ? std::min<std::int64_t>(window, length) : length) /
            static_cast<double>(model.windows.size());
  return static_cast<double>(model.weight_bytes) + sequences * kept * of_token;
}

}  // namespace espalier::command
