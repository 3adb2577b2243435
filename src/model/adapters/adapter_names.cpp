#include "model/adapters/adapter_names.h"

#include <algorithm>

namespace espalier {
namespace {

// "default.weight" is "weight": PEFT's name of the adapter, which files mostly leave away.
std::string_view last_of(std::string_view rest) {
  const auto dot = rest.rfind('.');
  return dot == std::string_view::npos ? rest : rest.substr(dot + 1);
}

void leave_out(std::string& name, std::string_view part) {
  for (auto at = name.find(part); at != std::string::npos; at = name.find(part)) name.erase(at, part.size());
}

PeftName module_tensor(std::string_view name) {
  PeftName out;
  std::string whole(name);
  if (whole.find(".original_module.") != std::string::npos) return {PeftName::What::nothing, {}, {}};
  leave_out(whole, ".modules_to_save.default");
  leave_out(whole, ".modules_to_save");
  leave_out(whole, ".base_layer");
  const auto dot = whole.rfind('.');
  out.module = whole.substr(0, dot);
  out.ending = dot == std::string::npos ? std::string() : whole.substr(dot + 1);
  return out;
}

}  // namespace

PeftName peft_name(std::string_view tensor) {
  constexpr std::string_view kOwn = "base_model.model.";
  if (tensor.starts_with(kOwn)) tensor.remove_prefix(kOwn.size());
  using What = PeftName::What;
  constexpr std::pair<std::string_view, What> kParts[] = {{".lora_embedding_A", What::a_of_table},
                                                          {".lora_embedding_B", What::b},
                                                          {".lora_A", What::a},
                                                          {".lora_B", What::b},
                                                          {".lora_magnitude_vector", What::magnitude}};
  for (const auto& [part, what] : kParts) {
    const auto at = tensor.rfind(part);
    if (at == std::string_view::npos) continue;
    const std::string_view rest = tensor.substr(at + part.size());
    if (!rest.empty() && rest.front() != '.') continue;
    const bool bias = last_of(rest) == "bias";
    if (bias && what != What::b) return {What::nothing, {}, {}};
    return {bias ? What::bias_of_b : what, std::string(tensor.substr(0, at)), {}};
  }
  return module_tensor(tensor);
}

std::pair<std::string, char> gguf_adapter_name(std::string_view tensor) {
  for (const auto& [ending, which] : {std::pair{std::string_view(".lora_a"), 'a'}, {".lora_b", 'b'}})
    if (tensor.ends_with(ending)) {
      std::string_view module = tensor.substr(0, tensor.size() - ending.size());
      if (module.ends_with(".weight")) module.remove_suffix(std::string_view(".weight").size());
      return {std::string(module), which};
    }
  return {std::string(tensor), '\0'};
}

std::string_view bare_module(std::string_view module) {
  constexpr std::string_view kWraps[] = {"model.", "language_model.", "text_model.", "transformer.", "backbone.",
                                         "vlm.",   "bert.",           "roberta.",    "mpnet.",       "distilbert.",
                                         "new.",   "nomic_bert.",     "gpt_neox.",   "decoder."};
  for (bool again = true; again;) {
    again = false;
    for (const std::string_view wrap : kWraps)
      if (module.starts_with(wrap)) {
        module.remove_prefix(wrap.size());
        again = true;
      }
  }
  return module;
}

}  // namespace espalier
