#include "model/adapters/adapter_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <regex>

#include "base/fingerprint.h"
#include "base/json/json_fields.h"
#include "model/adapters/adapter_names.h"
#include "tensor/file/gguf.h"
#include "tensor/file/open_file.h"
#include "tensor/file/safetensors.h"

namespace espalier {
namespace {

namespace fs = std::filesystem;

constexpr const char* kAdapterConfig = "adapter_config.json";
constexpr const char* kAdapterTensors = "adapter_model.safetensors";
constexpr std::uint64_t kAdapterConfigBytes = 4u << 20;
constexpr std::int64_t kMostRank = 8192;

Error unsupported_adapter(std::string message, std::string field) {
  return {Error::Kind::unsupported, std::move(message), std::move(field), {}};
}

// --- what is common to both kinds ---

// Pairs A and B of every module as they come.
class FactorList {
 public:
  AdapterFactors& of(const std::string& module) {
    const auto [at, is_new] = index_.try_emplace(module, list_.size());
    if (is_new) list_.push_back({.module = module});
    return list_[at->second];
  }
  Result<std::vector<AdapterFactors>> checked(int most_rank) && {
    for (const AdapterFactors& f : list_) ESP_CHECK(check(f, most_rank));
    return std::move(list_);
  }

 private:
  static Result<> check(const AdapterFactors& f, int most_rank) {
    if (f.a == nullptr || f.b == nullptr)
      return bad_file(fmt::format("the adapter has only one of the two factors of {}", f.module), f.module);
    if (f.a->shape.size() != 2 || f.b->shape.size() != 2)
      return unsupported_adapter(
          fmt::format("the adapter's factors of {} are not matrices, as those of linear layers and "
                      "embeddings are",
                      f.module),
          f.module);
    const std::int64_t of_a = f.turned ? f.a->columns() : f.a->rows();
    if (of_a != f.b->columns() || of_a < 1 || of_a > kMostRank)
      return bad_file(fmt::format("the adapter's factors of {} have ranks {} and {}, which must be the same, 1 to {}",
                                  f.module, of_a, f.b->columns(), kMostRank),
                      f.module);
    if (most_rank > 0 && of_a > most_rank)
      return bad_request(
          fmt::format("the adapter's rank is {} at {}, but --max-lora-rank is {}", of_a, f.module, most_rank),
          "max_lora_rank");
    return success();
  }
  std::vector<AdapterFactors> list_;
  std::map<std::string, std::size_t> index_;
};

std::string print_of(std::string_view settings, const TensorFile& file) {
  Fingerprint print;
  print.add(settings);
  for (const Tensor& tensor : file.tensors()) {
    print.add(tensor.name);
    print.add_number(static_cast<std::uint64_t>(tensor.dtype));
    print.add(to_string(tensor.shape));
    print.add(tensor.data);
  }
  return print.text();
}

// --- PEFT ---

// Time in proportion to the text, where the library can: patterns come from whoever made the file.
#ifdef _GLIBCXX_RELEASE
constexpr auto kPatternFlags = std::regex::ECMAScript | std::regex_constants::__polynomial;
#else
constexpr auto kPatternFlags = std::regex::ECMAScript;
#endif

// How often a pattern's counted repetitions ({2,30}) may make it repeat its parts, all of them one in the other.
constexpr double kMostRepeats = 1000;
double repeats_of(std::string_view pattern) {
  double all = 1;
  for (std::size_t at = pattern.find('{'); at != pattern.npos; at = pattern.find('{', at + 1)) {
    double most = 1, count = 0;
    for (std::size_t i = at + 1; i < pattern.size() && pattern[i] != '}'; ++i) {
      const bool digit = pattern[i] >= '0' && pattern[i] <= '9';
      count = digit ? 10 * count + (pattern[i] - '0') : 0;
      most = std::max(most, count);
    }
    all *= most;
  }
  return all;
}

// What adapter_config.json says of scales.
struct PeftScales {
  double alpha = 8;
  bool by_root = false;
  std::vector<std::pair<std::string, double>> alphas;  // by a pattern of module names

  // PEFT's rule: the pattern is the name's end behind a dot, or all of it.
  static bool fits(const std::string& pattern, const std::string& module) {
    if (pattern.find_first_of("\\^$*+?()[]{}|") == std::string::npos)
      return module == pattern || module.ends_with("." + pattern);
    return std::regex_match(module, std::regex("(.*\\.)?(" + pattern + ")", kPatternFlags));
  }
  float of(const std::string& module, int rank) const {
    double top = alpha;
    for (const auto& [pattern, value] : alphas)
      if (fits(pattern, module)) {
        top = value;
        break;
      }
    return static_cast<float>(by_root ? top / std::sqrt(static_cast<double>(rank)) : top / rank);
  }
};

Result<std::vector<std::pair<std::string, double>>> patterns(const Json& config, const char* field) {
  constexpr std::size_t kMostPattern = 256;
  std::vector<std::pair<std::string, double>> out;
  ESP_TRY(const Json* all, find_object(config, field));
  if (all == nullptr) return out;
  for (const auto& [pattern, value] : all->items()) {
    ESP_TRY(const double number, as_number(value, fmt::format("{}.{}", field, pattern), {0, 1e9}));
    if (pattern.size() > kMostPattern || repeats_of(pattern) > kMostRepeats)
      return bad_request(fmt::format("a pattern of {} is longer than {} bytes, or repeats its parts more than {} times",
                                     field, kMostPattern, kMostRepeats),
                         field);
    try {
      (void)PeftScales::fits(pattern, "x");
    } catch (const std::regex_error&) {
      return bad_request(fmt::format("{} of {} is no pattern that can be read", in_quotes(pattern), field), field);
    }
    out.emplace_back(pattern, number);
  }
  return out;
}

bool is_set(const Json& config, std::string_view name) {
  const Json* value = find_field(config, name);
  if (value == nullptr || (value->is_boolean() && !value->get<bool>())) return false;
  return !((value->is_array() || value->is_object()) && value->empty());
}

Result<> check_kind(const Json& config) {
  ESP_TRY(const auto kind, find_string(config, "peft_type"));
  if (kind && *kind != "LORA")
    return unsupported_adapter(fmt::format("adapters of peft_type {} are not supported; LORA is", *kind), "peft_type");
  constexpr std::pair<const char*, const char*> kNotHere[] = {
      {"use_dora",
       "DoRA scales each column of the weights themselves: merge it into the model, or train with use_dora "
       "false"},
      {"layer_replication", "the model has its layers once: merge such an adapter into the model"},
      {"trainable_token_indices", "single tokens' embeddings are not replaced: merge such an adapter into the model"},
      {"target_parameters", "parameters of experts are not adapted: merge such an adapter into the model"},
      {"alora_invocation_tokens", "an adapter applies to all of a text"},
      {"use_bdlora", "factors in blocks are not supported"}};
  for (const auto& [field, why] : kNotHere)
    if (is_set(config, field))
      return unsupported_adapter(fmt::format("{} is set, which is not supported: {}", field, why), field);
  return success();
}

Result<PeftScales> scales_of(const Json& config) {
  ESP_CHECK(check_kind(config));
  PeftScales scales;
  ESP_TRY(const auto alpha, find_number(config, "lora_alpha", {0, 1e9}));
  ESP_TRY(const auto by_root, find_boolean(config, "use_rslora"));
  scales.alpha = alpha.value_or(8);
  scales.by_root = by_root.value_or(false);
  ESP_TRY(scales.alphas, patterns(config, "alpha_pattern"));
  return scales;
}

// Puts one tensor of adapter_model.safetensors where its name says.
Result<> take_peft(const Tensor& tensor, FactorList& factors, AdapterFile& to) {
  constexpr std::size_t kMostName = 1024;
  if (tensor.name.size() > kMostName)
    return bad_file(
        fmt::format("a tensor's name has {} bytes, but at most {} are read", tensor.name.size(), kMostName));
  const PeftName name = peft_name(tensor.name);
  switch (name.what) {
    case PeftName::What::a:
    case PeftName::What::a_of_table:
      factors.of(name.module).a = &tensor;
      factors.of(name.module).looked_up = name.what == PeftName::What::a_of_table;
      break;
    case PeftName::What::b:
      factors.of(name.module).b = &tensor;
      break;
    case PeftName::What::bias_of_b:
      factors.of(name.module).bias = &tensor;
      break;
    case PeftName::What::magnitude:
      return unsupported_adapter(
          fmt::format("{} is of DoRA, which is not supported: merge the adapter into the model", tensor.name),
          "use_dora");
    case PeftName::What::tensor:
      to.tensors.push_back({name.module, name.ending, &tensor});
      break;
    case PeftName::What::nothing:
      break;
  }
  return success();
}

Result<Json> read_config(const fs::path& folder) {
  ESP_TRY(const OpenFile open, open_beneath(folder, kAdapterConfig));
  ESP_TRY(const std::string text, read_text(open, kAdapterConfigBytes));
  auto config = parse_json(text, {.repeated_keys = true});
  if (!config.ok()) return in_file(config.error(), kAdapterConfig);
  if (!config->is_object()) return bad_file(fmt::format("{} must hold an object", kAdapterConfig));
  return config;
}

Result<AdapterFile> open_peft(const fs::path& folder, int most_rank) {
  ESP_TRY(const Json config, read_config(folder));
  auto scales = scales_of(config);
  if (!scales.ok()) {
    if (scales.error().kind == Error::Kind::unsupported) return scales.error();
    return in_file(scales.error(), kAdapterConfig);
  }
  std::error_code failure;
  if (!fs::exists(folder / kAdapterTensors, failure) && fs::exists(folder / "adapter_model.bin", failure))
    return unsupported_adapter(
        fmt::format("the adapter is saved as adapter_model.bin, which can run code: save it with "
                    "safe_serialization as {}",
                    kAdapterTensors),
        "lora_path");
  ESP_TRY(SafetensorsFile tensors, SafetensorsFile::open(folder / kAdapterTensors));
  AdapterFile out;
  auto file = std::make_shared<const SafetensorsFile>(std::move(tensors));
  FactorList factors;
  for (const Tensor& tensor : file->tensors()) ESP_CHECK(take_peft(tensor, factors, out));
  ESP_TRY(out.factors, std::move(factors).checked(most_rank));
  for (AdapterFactors& f : out.factors) f.scale = scales->of(f.module, f.rank());
  // Where it was trained says nothing about what it computes.
  Json settings = config;
  settings.erase("base_model_name_or_path");
  out.print = print_of(settings.dump(-1, ' ', false, Json::error_handler_t::replace), *file);
  out.file = std::move(file);
  return out;
}

// --- GGUF ---

Result<double> gguf_alpha(const GgufMetadata& metadata) {
  ESP_TRY(const auto type, metadata.find_string("general.type"));
  if (type.value_or("model") != "adapter")
    return bad_file(fmt::format("{} is a {}, not an adapter", metadata.file(), type.value_or("model")), "lora_path");
  ESP_TRY(const auto kind, metadata.find_string("adapter.type"));
  if (kind.value_or("lora") != "lora")
    return unsupported_adapter(
        fmt::format("{}: adapters of type {} are not supported; lora is", metadata.file(), *kind), "adapter.type");
  if (metadata.find("adapter.alora.invocation_tokens") != nullptr)
    return unsupported_adapter(
        fmt::format("{}: an adapter applies to all of a text, so aLoRA's invocation tokens are not "
                    "supported",
                    metadata.file()),
        "adapter.alora.invocation_tokens");
  ESP_TRY(const auto alpha, metadata.find_number("adapter.lora.alpha", {0, 1e9}));
  return alpha.value_or(0);
}

Result<AdapterFile> open_gguf_adapter(const fs::path& path, int most_rank) {
  ESP_TRY(GgufFile opened, GgufFile::open(path));
  ESP_TRY(const double alpha, gguf_alpha(opened.metadata()));
  auto file = std::make_shared<const GgufFile>(std::move(opened));
  AdapterFile out;
  out.naming = Naming::gguf;
  FactorList factors;
  for (const Tensor& tensor : file->tensors()) {
    const auto [module, which] = gguf_adapter_name(tensor.name);
    if (which == 0) {
      return unsupported_adapter(
          fmt::format("{} of the adapter is no factor of a matrix, which is not supported: merge the "
                      "adapter into the model",
                      tensor.name),
          tensor.name);
    }
    AdapterFactors& f = factors.of(module);
    (which == 'a' ? f.a : f.b) = &tensor;
    f.looked_up = f.turned = module == "token_embd";
  }
  ESP_TRY(out.factors, std::move(factors).checked(most_rank));
  for (AdapterFactors& f : out.factors) f.scale = alpha == 0 ? 1.0f : static_cast<float>(alpha / f.rank());
  out.print = print_of(fmt::format("gguf|{}", alpha), *file);
  out.file = std::move(file);
  return out;
}

}  // namespace

std::string base_model_of(const fs::path& folder) {
  const auto config = read_config(folder);
  if (!config.ok()) return {};
  const auto base = find_string(*config, "base_model_name_or_path");
  return base.ok() ? base->value_or("") : std::string();
}

Result<AdapterFile> open_adapter(const fs::path& path, int most_rank) {
  std::error_code failure;
  auto opened = [&]() -> Result<AdapterFile> {
    if (fs::is_directory(path, failure)) return open_peft(path, most_rank);
    if (path.extension() == ".gguf") return open_gguf_adapter(path, most_rank);
    if (!fs::exists(path, failure))
      return Error{Error::Kind::not_found, fmt::format("there is no adapter at {}", path.string()), "lora_path", {}};
    return bad_file(fmt::format("{} is no adapter: a folder with {} and {}, or a .gguf file is one", path.string(),
                                kAdapterConfig, kAdapterTensors),
                    "lora_path");
  }();
  if (!opened.ok()) return opened.error();
  if (opened->factors.empty() && opened->tensors.empty())
    return bad_file(fmt::format("the adapter at {} changes nothing: it has no factors", path.string()), "lora_path");
  return opened;
}

}  // namespace espalier
