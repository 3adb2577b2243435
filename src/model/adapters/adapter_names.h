// adapter_names.h: what the names of an adapter's tensors say, and when two modules are the same.
// Threads: pure functions. Fails: never.
#pragma once

#include <string>
#include <string_view>
#include <utility>

namespace espalier {

// A tensor's name in adapter_model.safetensors, taken apart: "base_model.model.<module>.lora_A.weight".
struct PeftName {
  enum class What { a, b, a_of_table, bias_of_b, magnitude, tensor, nothing };
  What what = What::tensor;
  std::string module;
  std::string ending;  // of a tensor of the module itself: "weight", "bias"
};
PeftName peft_name(std::string_view tensor);

// "blk.0.attn_q.weight.lora_a": module and 'a' or 'b'; 0: neither.
std::pair<std::string, char> gguf_adapter_name(std::string_view tensor);

// A module's name without what only wraps a text model: "language_model.model.layers.0.mlp" is "layers.0.mlp".
std::string_view bare_module(std::string_view module);

}  // namespace espalier
