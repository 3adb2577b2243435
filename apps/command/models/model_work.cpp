#include "command/models/model_work.h"

#include <algorithm>
#include <cmath>

namespace espalier::command {
namespace {

// Positions that the last one of `length` tokens sees in a layer.
std::int64_t seen(std::int64_t window, int length) {
  return window > 0 ? std::min<std::int64_t>(window, length) : length;
}

// Those that the tokens [begin, end) see, of all layers together; in the last one only the last token looks.
double positions_seen(const ModelInfo& model, int begin, int end) {
  double all = 0;
  for (std::size_t layer = 0; layer < model.windows.size(); ++layer)
    for (int position = layer + 1 < model.windows.size() ? begin : end - 1; position < end; ++position)
      all += static_cast<double>(seen(model.windows[layer], position + 1));
  return all;
}

double operations(const ModelInfo& model, int begin, int end) {
  return 2.0 * static_cast<double>(model.layer_parameters) * (end - begin) +
         2.0 * static_cast<double>(model.end_parameters) +
         4.0 * static_cast<double>(model.attention_width) * positions_seen(model, begin, end);
}

// Bytes of the weights that a step of some sequences reads: of the experts only those that one of them is expected to
// choose, each sequence choosing on its own.
double weights_read(const ModelInfo& model, int sequences) {
  const auto all = static_cast<double>(model.weight_bytes);
  if (model.expert_parameters == 0 || model.parameters == 0) return all;
  const double share = static_cast<double>(model.expert_parameters) / static_cast<double>(model.parameters);
  const double chosen = static_cast<double>(model.chosen_parameters) / static_cast<double>(model.expert_parameters);
  return all * (1 - std::min(1.0, share) * std::pow(1 - chosen, sequences));
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
  // Of a sequence; what a token keeps is shared out evenly among the layers.
  const double kept =
      positions_seen(model, length - 1, length) / static_cast<double>(std::max<std::size_t>(1, model.windows.size()));
  const double state = 2.0 * static_cast<double>(model.state_bytes);  // read and written
  return weights_read(model, sequences) + sequences * (kept * of_token + state);
}

}  // namespace espalier::command
