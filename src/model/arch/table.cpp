#include "model/arch/table.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "model/arch/families.h"

namespace espalier {
namespace {

constexpr Architecture kTable[] = {
    {"apertus", "Apertus", "apertus", apertus},
    {"arcee", "Arcee", "arcee", arcee},
    {"cohere", "Cohere", "command-r", cohere},
    {"cohere2", "Cohere2", "cohere2", cohere2},
    {"cohere2_moe", "Cohere2Moe", "cohere2moe|cohere2_moe", cohere2_moe},
    {"ernie4_5", "Ernie4_5|Ernie4_5_", "ernie4_5", ernie4_5},
    {"ernie4_5_moe", "Ernie4_5_Moe|Ernie4_5_MoE", "ernie4_5-moe", ernie4_5_moe},
    {"exaone", "Exaone", "exaone", exaone},
    {"exaone4", "Exaone4", "exaone4", exaone4},
    {"exaone_moe", "ExaoneMoe|ExaoneMoE", "exaone-moe", exaone_moe},
    {"gemma", "Gemma", "gemma", gemma},
    {"gemma2", "Gemma2", "gemma2", gemma2},
    {"gemma3", "Gemma3", "gemma3", gemma3, "gemma3_text"},
    {"gemma3n", "Gemma3n", "gemma3n", gemma3n, "gemma3n_text"},
    {"gemma4", "Gemma4", "gemma4", gemma4, "gemma4_text"},
    {"gemma4_unified", "Gemma4Unified", "", gemma4, "gemma4_unified_text"},
    {"glm", "Glm", "", glm},
    {"glm4", "Glm4", "glm4", glm4},
    {"glm4_moe", "Glm4Moe|SolarOpen", "glm4moe", glm4_moe, "solar_open"},
    {"gpt2", "GPT2", "gpt2", gpt2},
    {"gpt_neox", "GPTNeoX", "gptneox", gpt_neox},
    {"gpt_oss", "GptOss", "gpt-oss", gpt_oss},
    {"granite", "Granite", "granite", granite},
    {"granite_swa", "GraniteSWA", "", granite_swa},
    {"hunyuan_v1_dense", "HunYuanDenseV1", "hunyuan-dense", hunyuan_dense},
    {"hunyuan_v1_moe", "HunYuanMoEV1", "hunyuan-moe", hunyuan_moe},
    {"hy_v3", "HYV3", "hy_v3|hy-v3", hy_v3},
    {"llama", "Llama", "llama", llama},
    {"llama4", "Llama4", "llama4", llama4, "llama4_text"},
    {"mimo_v2_flash", "MiMoV2Flash|MiMoV2", "mimo2", mimo_v2, "mimo_v2"},
    {"minimax_m2", "MiniMaxM2", "minimax-m2", minimax_m2},
    {"ministral", "Ministral", "", ministral},
    {"ministral3", "Ministral3", "mistral3", ministral3},
    {"mistral", "Mistral", "", mistral},  // GGUF files of Mistral models say "llama"
    {"mixtral", "Mixtral", "", mixtral},
    {"olmo2", "Olmo2", "olmo2", olmo2},
    {"olmo3", "Olmo3", "", olmo3},
    {"olmoe", "Olmoe", "olmoe", olmoe},
    {"phi", "Phi", "phi2", phi},
    {"phi3", "Phi3", "phi3", phi3},
    {"qwen2", "Qwen2", "qwen2", qwen2},
    {"qwen2_moe", "Qwen2Moe", "qwen2moe", qwen2_moe},
    {"qwen3", "Qwen3", "qwen3", qwen3},
    {"qwen3_moe", "Qwen3Moe", "qwen3moe", qwen3_moe},
    {"seed_oss", "SeedOss", "seed_oss", seed_oss},
    {"smollm3", "SmolLM3", "smollm3", smollm3},
    {"stablelm", "StableLm", "stablelm", stablelm},
    {"starcoder2", "Starcoder2", "starcoder2", starcoder2},
};

constexpr std::string_view kEndings[] = {"ForCausalLM", "LMHeadModel", "Model", "ForSequenceClassification",
                                         "ForConditionalGeneration"};

bool lists(std::string_view list, std::string_view wanted) {
  while (!list.empty()) {
    const std::string_view one = list.substr(0, list.find('|'));
    if (one == wanted) return true;
    list.remove_prefix(std::min(list.size(), one.size() + 1));
  }
  return false;
}

// Insertions, deletions and changes of letters between two names, case aside.
std::size_t distance(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t same = diagonal + (lower(a[i]) == lower(b[j]) ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({same, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

template <class Is>
const Architecture* first_that(Is is) {
  const auto found = std::find_if(std::begin(kTable), std::end(kTable), is);
  return found == std::end(kTable) ? nullptr : found;
}

}  // namespace

std::span<const Architecture> architectures() {
  return kTable;
}

const Architecture* architecture_of_class(std::string_view name) {
  for (const std::string_view ending : kEndings)
    if (name.ends_with(ending))
      if (const auto* found = first_that(
              [&](const Architecture& a) { return lists(a.classes, name.substr(0, name.size() - ending.size())); }))
        return found;
  return nullptr;
}

const Architecture* architecture_of_type(std::string_view type) {
  return first_that([&](const Architecture& a) { return a.name == type || lists(a.types, type); });
}

const Architecture* architecture_in_gguf(std::string_view name) {
  return first_that([&](const Architecture& a) { return lists(a.gguf, name); });
}

std::vector<const Architecture*> nearest_architectures(std::string_view name, std::size_t most) {
  for (const std::string_view ending : kEndings)
    if (name.size() > ending.size() && name.ends_with(ending)) {
      name.remove_suffix(ending.size());
      break;
    }
  std::vector<std::pair<std::size_t, const Architecture*>> ranked;
  for (const Architecture& a : kTable) {
    const std::string_view stem = a.classes.substr(0, a.classes.find('|'));
    ranked.emplace_back(std::min(distance(name, stem), distance(name, a.name)), &a);
  }
  std::ranges::stable_sort(ranked, {}, &std::pair<std::size_t, const Architecture*>::first);
  std::vector<const Architecture*> out;
  for (const auto& [far, a] : ranked)
    if (out.size() < most) out.push_back(a);
  return out;
}

}  // namespace espalier
