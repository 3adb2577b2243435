#include "model/arch/table.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "model/arch/families.h"

namespace espalier {
namespace {

constexpr Architecture kTable[] = {
    {"afmoe", "Afmoe", "afmoe", afmoe},
    {"apertus", "Apertus|Apertus1p5Text|Apertus1p5", "apertus", apertus, "apertus1p5_text|apertus1p5"},
    {"arcee", "Arcee", "arcee", arcee},
    {"arctic", "Arctic", "arctic", arctic},
    {"aria_text", "AriaText|Aria", "", aria_text, "aria"},
    {"arwkv7", "", "arwkv7", arwkv7},
    {"axk1", "AXK1", "", axk1},
    {"axk2", "AXK2", "", axk2},
    {"baichuan", "Baichuan|BaiChuan", "baichuan", baichuan},
    {"bailing_hybrid", "BailingHybrid", "", bailing_hybrid},
    {"bailing_moe", "BailingMoe", "bailingmoe", bailing_moe},
    {"bailing_moe_v2", "BailingMoeV2", "bailingmoe2", bailing_moe_v2},
    {"bamba", "Bamba", "", bamba},  // GGUF files of Bamba say "granitehybrid"
    {"beam", "Beam", "", beam},
    {"bert", "Bert", "bert", bert},
    {"biogpt", "BioGpt", "", biogpt},
    {"bitnet", "BitNet|Bitnet", "bitnet", bitnet},
    {"bloom", "Bloom", "bloom", bloom},
    {"chatglm", "ChatGLM", "chatglm", chatglm},
    {"codegen", "CodeGen", "", codegen},
    {"codeshell", "CodeShell", "codeshell", codeshell},
    {"cohere", "Cohere", "command-r", cohere},
    {"cohere2", "Cohere2", "cohere2", cohere2},
    {"cohere2_moe", "Cohere2Moe", "cohere2moe|cohere2_moe", cohere2_moe},
    {"ctrl", "CTRL", "", ctrl},
    {"cwm", "Cwm", "", cwm},
    {"dbrx", "Dbrx", "dbrx", dbrx},
    {"deci", "DeciLM", "deci", deci, "nemotron-nas|deci_lm"},
    {"deepseek", "Deepseek", "deepseek", deepseek},
    {"deepseek_v2", "DeepseekV2", "deepseek2", deepseek_v2},
    {"deepseek_v3", "DeepseekV3|SarvamMLA|SarvamMla", "", deepseek_v3,
     "kimi_k2|sarvam_mla"},  // GGUF files say "deepseek2"
    {"deepseek_v32", "DeepseekV32", "deepseek32", deepseek_v32},
    {"deepseek_v4", "DeepseekV4", "deepseek4", deepseek_v4},
    {"diffllama", "DiffLlama", "", diffllama},
    {"distilbert", "DistilBert", "", distilbert},
    {"doge", "Doge", "", doge},
    {"dots1", "Dots1", "dots1", dots1},
    {"ernie4_5", "Ernie4_5|Ernie4_5_", "ernie4_5", ernie4_5},
    {"ernie4_5_moe", "Ernie4_5_Moe|Ernie4_5_MoE", "ernie4_5-moe", ernie4_5_moe},
    {"exaone", "Exaone", "exaone", exaone},
    {"exaone4", "Exaone4", "exaone4", exaone4},
    {"exaone_moe", "ExaoneMoe|ExaoneMoE", "exaone-moe", exaone_moe},
    {"falcon", "Falcon|RW", "falcon", falcon, "RefinedWeb|RefinedWebModel"},
    {"falcon_h1", "FalconH1", "falcon-h1", falcon_h1},
    {"falcon_mamba", "FalconMamba", "", falcon_mamba},  // GGUF files say "mamba"
    {"flex_olmo", "FlexOlmo", "", flex_olmo},
    {"flint", "Flint", "", flint},
    {"gemma", "Gemma", "gemma", gemma},
    {"gemma2", "Gemma2", "gemma2", gemma2},
    {"gemma3", "Gemma3|Gemma3Text", "gemma3|gemma-embedding", gemma3, "gemma3_text"},
    {"gemma3n", "Gemma3n", "gemma3n", gemma3n, "gemma3n_text"},
    {"gemma4", "Gemma4", "gemma4", gemma4, "gemma4_text"},
    {"gemma4_unified", "Gemma4Unified", "", gemma4, "gemma4_unified_text"},
    {"glm", "Glm", "", glm},
    {"glm4", "Glm4", "glm4", glm4},
    {"glm4_moe", "Glm4Moe", "glm4moe", glm4_moe},
    {"glm4_moe_lite", "Glm4MoeLite", "", glm4_moe_lite},
    {"glm4v", "Glm4v", "", glm4v, "glm4v_text"},
    {"glm4v_moe", "Glm4vMoe", "", glm4_moe, "glm4v_moe_text"},
    {"glm_ocr", "GlmOcr", "", glm_ocr, "glm_ocr_text"},
    {"glm5_next", "Glm5Next", "", glm5_next, "glm5_next_text"},
    {"glm_moe_dsa", "GlmMoeDsa", "glm-dsa", glm_moe_dsa},
    {"gpt2", "GPT2", "gpt2", gpt2},
    {"gpt_bigcode", "GPTBigCode", "starcoder", gpt_bigcode},
    {"gpt_neo", "GPTNeo", "", gpt_neo},
    {"gpt_neox", "GPTNeoX", "gptneox", gpt_neox},
    {"gpt_neox_japanese", "GPTNeoXJapanese", "", gpt_neox_japanese},
    {"gpt_oss", "GptOss", "gpt-oss", gpt_oss},
    {"gptj", "GPTJ", "", gptj},
    {"granite", "Granite", "granite", granite},
    {"granite_swa", "GraniteSWA", "granite_swa", granite_swa},
    {"granitemoe", "GraniteMoe|GraniteMoeShared", "granitemoe", granite_moe, "granitemoeshared"},
    {"granitemoehybrid", "GraniteMoeHybrid", "granitehybrid", granite_hybrid},
    {"granitemoe_swa", "GraniteMoeSWA", "", granite_moe_swa},
    {"gte", "Gte|New", "", gte, "new"},
    {"helium", "Helium", "", helium},
    {"hrm_text", "HrmText", "hrm_text", hrm_text},
    {"hunyuan_v1_dense", "HunYuanDenseV1", "hunyuan-dense", hunyuan_dense},
    {"hunyuan_v1_moe", "HunYuanMoEV1", "hunyuan-moe", hunyuan_moe},
    {"hunyuan_vl", "HunYuanVL", "hunyuan_vl", hunyuan_vl, "hunyuan_vl_text"},
    {"hy_v3", "HYV3", "hy_v3|hy-v3", hy_v3},
    {"hy_v4", "HYV4", "", hy_v4},
    {"hyperclovax", "HyperCLOVAX", "", hyperclovax},
    {"internlm2", "InternLM2", "internlm2", internlm2},
    {"internlm3", "InternLM3", "", llama},
    {"iquestcoder", "IQuestCoder", "", llama},
    {"jais", "JAIS", "jais", jais},
    {"jais2", "Jais2", "jais2", jais2},
    {"jamba", "Jamba", "jamba", jamba},
    {"jetmoe", "JetMoe", "", jetmoe},
    {"kimi_linear", "KimiLinear", "kimi-linear", kimi_linear},
    {"kolibri1", "Kolibri1", "", kolibri1},
    {"laguna", "Laguna", "laguna", laguna},
    {"lara_mini", "LaraMini", "", lara_mini},
    {"lfm2", "Lfm2|LFM2", "lfm2", lfm2},
    {"lfm2_moe", "Lfm2Moe", "lfm2moe", lfm2_moe},
    {"lfm3", "Lfm3", "", lfm3},
    {"llama", "Llama|LLaMA|Yi|Aquila|Xverse|VLlama3", "llama|xverse", llama, "yi|aquila|xverse"},
    {"llama4", "Llama4", "llama4", llama4, "llama4_text"},
    {"longcat_flash", "LongcatFlash", "", longcat_flash},
    {"maincoder", "", "maincoder", maincoder},
    {"mamba", "Mamba", "mamba", mamba},
    {"mamba2", "Mamba2", "mamba2", mamba2},
    {"maple", "Maple", "maple", maple},
    {"mellum", "Mellum", "mellum", mellum},
    {"mimo", "MiMo", "", mimo},
    {"mimo_v2_flash", "MiMoV2Flash|MiMoV2", "mimo2", mimo_v2, "mimo_v2"},
    {"minicpm", "MiniCPM", "minicpm", minicpm},
    {"minicpm3", "MiniCPM3", "minicpm3", minicpm3},
    {"minimax", "MiniMax|MiniMaxText01|MiniMaxM1", "", minimax, "minimax_text_01|minimax_m1"},
    {"minimax_m2", "MiniMaxM2", "minimax-m2", minimax_m2},
    {"minimax_m3", "MiniMaxM3VL|MiniMaxM3Sparse", "minimax-m3", minimax_m3, "minimax_m3_vl_text|minimax_m3_vl"},
    {"ministral", "Ministral", "", ministral},
    {"ministral3", "Ministral3", "mistral3", ministral3},
    {"mistral", "Mistral", "", mistral},  // GGUF files of Mistral models say "llama"
    {"mistral4", "Mistral4", "mistral4", mistral4},
    {"mixtral", "Mixtral", "", mixtral},
    {"modernbert", "ModernBert", "modern-bert", modernbert},
    {"modernbert-decoder", "ModernBertDecoder", "", modernbert_decoder},
    {"mpt", "MPT|Mpt", "mpt", mpt},
    {"mpnet", "MPNet", "", mpnet},
    {"nanbeige", "Nanbeige", "nanbeige", nanbeige},
    {"nanochat", "NanoChat", "", nanochat},
    {"nemotron", "Nemotron", "nemotron", nemotron},
    {"nemotron_h", "NemotronH", "nemotron_h|nemotron_h_moe", nemotron_h},
    {"nomic_bert", "NomicBert", "nomic-bert", nomic_bert},
    {"olmo", "Olmo", "olmo", olmo},
    {"olmo2", "Olmo2", "olmo2", olmo2},
    {"olmo3", "Olmo3", "", olmo3},
    {"olmo_hybrid", "OlmoHybrid", "", olmo_hybrid},
    {"olmoe", "Olmoe", "olmoe", olmoe},
    {"openai-gpt", "OpenAIGPT", "", openai_gpt},
    {"openelm", "", "openelm", openelm},
    {"opt", "OPT", "", opt},
    {"orion", "Orion", "orion", orion},
    {"pangu_embedded", "PanguEmbedded", "pangu-embedded", pangu_embedded, "PanguEmbedded"},
    {"paddleocr_vl", "PaddleOCRVL", "paddleocr", paddleocr_vl, "paddleocr_vl_text"},
    {"persimmon", "Persimmon", "", persimmon},
    {"phi", "Phi", "phi2", phi},
    {"phi3", "Phi3", "phi3", phi3},
    {"phimoe", "PhiMoE|Phimoe", "phimoe", phimoe},
    {"plamo", "", "plamo", plamo},
    {"plamo2", "Plamo2|PLaMo2", "plamo2", plamo2},
    {"plamo3", "Plamo3|PLaMo3", "plamo3", plamo3},
    {"plm", "PLM", "plm", plm},
    {"qwen", "QWen", "qwen", qwen},
    {"qwen2", "Qwen2", "qwen2|qwen2vl", qwen2, "qwen2_vl|qwen2_vl_text|qwen2_5_vl|qwen2_5_vl_text"},
    {"qwen2_moe", "Qwen2Moe", "qwen2moe", qwen2_moe},
    {"qwen3", "Qwen3", "qwen3|qwen3vl", qwen3, "qwen3_vl|qwen3_vl_text"},
    {"qwen3_5", "Qwen3_5", "qwen35", qwen3_5, "qwen3_5_text"},
    {"qwen3_5_moe", "Qwen3_5Moe", "qwen35moe", qwen3_5_moe, "qwen3_5_moe_text"},
    {"qwen3_moe", "Qwen3Moe", "qwen3moe|qwen3vlmoe", qwen3_moe, "qwen3_vl_moe|qwen3_vl_moe_text"},
    {"qwen3_next", "Qwen3Next", "qwen3next", qwen3_next},
    {"qwen4_exp", "Qwen4Exp", "qwen4exp", qwen4_exp, "qwen4_exp_text"},
    {"recurrent_gemma", "RecurrentGemma", "", recurrent_gemma},
    {"refact", "", "refact", refact},
    {"roberta", "Roberta|XLMRoberta|Camembert", "", roberta, "xlm-roberta|camembert"},  // GGUF files say "bert"
    {"rwkv6", "", "rwkv6", rwkv6},
    {"rwkv6qwen2", "", "rwkv6qwen2", rwkv6qwen2},
    {"rwkv7", "", "rwkv7", rwkv7},
    {"seed_oss", "SeedOss", "seed_oss", seed_oss},
    {"smallthinker", "SmallThinker", "smallthinker", smallthinker},
    {"smollm3", "SmolLM3", "smollm3", smollm3},
    {"solar_open", "SolarOpen", "", solar_open},
    {"spark2_5", "Spark2_5", "spark2_5", spark2_5},
    {"stablelm", "StableLm", "stablelm", stablelm},
    {"starcoder2", "Starcoder2", "starcoder2", starcoder2},
    {"step3p5", "Step3p5|Step3p7", "step35", step35, "step3p7"},
    {"vaultgemma", "VaultGemma", "", vaultgemma},
    {"xglm", "XGLM", "", xglm},
    {"youtu", "Youtu", "", youtu},
    {"zamba", "Zamba", "", zamba},
    {"zamba2", "Zamba2", "", zamba2},
    {"zaya", "Zaya", "", zaya},
};

constexpr std::string_view kEndings[] = {
    "ForCausalLM", "LMHeadModel", "Model", "ForSequenceClassification", "ForMaskedLM", "ForConditionalGeneration"};

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
