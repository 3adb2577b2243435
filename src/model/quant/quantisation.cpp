#include "model/quant/quantisation.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/json/json_fields.h"

namespace espalier {
namespace {

constexpr std::string_view kAt = "quantization_config";

Error not_supported(std::string message, std::string_view field) {
  return Error{Error::Kind::unsupported, std::move(message), fmt::format("{}.{}", kAt, field), {}};
}

constexpr std::pair<std::string_view, QuantMethod> kMethods[] = {
    {"gptq", QuantMethod::gptq},         {"awq", QuantMethod::awq},
    {"fp8", QuantMethod::fp8},           {"fbgemm_fp8", QuantMethod::fp8},
    {"mxfp4", QuantMethod::mxfp4},       {"compressed-tensors", QuantMethod::compressed_tensors},
    {"modelopt", QuantMethod::modelopt}, {"bitsandbytes", QuantMethod::bitsandbytes},
};

// A width that weights may have here.
Result<int> width(const Json& object, std::string_view field, std::string_view parent) {
  ESP_TRY(const std::int64_t bits, get_integer(object, {field, parent}, {1, 16}));
  for (const int known : {2, 3, 4, 8})
    if (bits == known) return known;
  return not_supported(fmt::format("{}.{} is {}, but weights of 2, 3, 4 and 8 bits are supported", parent, field, bits),
                       field);
}

Result<> read_gptq(const Json& config, Quantisation& made) {
  ESP_TRY(const int bits, width(config, "bits", kAt));
  made.bits = {bits};
  ESP_CHECK(find_integer(config, {"group_size", kAt}, {-1, 1 << 24}));
  ESP_CHECK(find_boolean(config, {"desc_act", kAt}));
  ESP_TRY(const auto marlin, find_boolean(config, {"is_marlin_format", kAt}));
  if (marlin.value_or(false))
    return not_supported(
        fmt::format("{}.is_marlin_format is true: weights laid out for one kind of graphics card are not "
                    "supported; the checkpoint in format gptq is",
                    kAt),
        "is_marlin_format");
  for (const char* field : {"checkpoint_format", "format"}) {
    ESP_TRY(const auto format, find_string(config, {field, kAt}));
    if (!format) continue;
    if (*format != "gptq" && *format != "gptq_v2")
      return not_supported(
          fmt::format("{}.{} is {}, but gptq and gptq_v2 are supported; others are made for one kind of graphics card",
                      kAt, field, *format),
          field);
    made.zeros_less_one = *format == "gptq";
    break;
  }
  // Modules with another width: {"<pattern>": {"bits": 8, ...}}; their tensors tell which these are.
  ESP_TRY(const Json* others, find_object(config, {"dynamic", kAt}));
  if (others == nullptr) return success();
  for (const auto& [pattern, of] : others->items())
    if (of.is_object() && of.contains("bits")) {
      ESP_TRY(const int bits_there, width(of, "bits", "quantization_config.dynamic"));
      made.bits.push_back(bits_there);
    }
  return success();
}

Result<> read_awq(const Json& config, Quantisation& made) {
  ESP_TRY(const int bits, width(config, find_field(config, "bits") != nullptr ? "bits" : "w_bit", kAt));
  if (bits != 4) return not_supported(fmt::format("{}.bits is {}, but AWQ is supported with 4", kAt, bits), "bits");
  made.bits = {4};
  ESP_TRY(const auto version, find_string(config, {"version", kAt}));
  std::string lower = version.value_or("gemm");
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
  if (lower != "gemm" && lower != "exllama")
    return not_supported(fmt::format("{}.version is {}, but AWQ's gemm layout is supported", kAt, *version), "version");
  return success();
}

Result<> read_fp8(const Json& config, Quantisation& made) {
  ESP_TRY(const auto format, find_string(config, {"fmt", kAt}));
  if (format && *format != "e4m3" && *format != "float8_e4m3fn")
    return not_supported(fmt::format("{}.fmt is {}, but e4m3 is supported", kAt, *format), "fmt");
  ESP_TRY(const Json* block, find_array(config, {"weight_block_size", kAt}));
  if (block == nullptr) return success();
  if (block->size() != 2)
    return bad_request(fmt::format("{}.weight_block_size must have two numbers", kAt),
                       "quantization_config.weight_block_size");
  ESP_TRY(made.block_rows, as_integer((*block)[0], "quantization_config.weight_block_size[0]", {1, 1 << 20}));
  ESP_TRY(made.block_columns, as_integer((*block)[1], "quantization_config.weight_block_size[1]", {1, 1 << 20}));
  return success();
}

// One of compressed-tensors' config_groups.
Result<> read_group(const Json& group, const std::string& at, Quantisation& made) {
  ESP_TRY(const Json* weights, find_object(group, {"weights", at}));
  if (weights == nullptr) return success();  // activations alone
  const std::string of = at + ".weights";
  ESP_TRY(const int bits, width(*weights, "num_bits", of));
  ESP_TRY(const auto type, find_string(*weights, {"type", of}));
  if (type && *type != "int" && *type != "float")
    return bad_request(fmt::format("{}.type is {}, but must be int or float", of, *type), of + ".type");
  if (std::ranges::find(made.bits, bits) == made.bits.end()) made.bits.push_back(bits);
  ESP_TRY(const Json* block, find_array(*weights, {"block_structure", of}));
  if (block == nullptr) return success();
  if (block->size() != 2)
    return bad_request(fmt::format("{}.block_structure must have two numbers", of), of + ".block_structure");
  ESP_TRY(made.block_rows, as_integer((*block)[0], of + ".block_structure[0]", {1, 1 << 20}));
  ESP_TRY(made.block_columns, as_integer((*block)[1], of + ".block_structure[1]", {1, 1 << 20}));
  return success();
}

Result<> read_compressed_tensors(const Json& config, Quantisation& made) {
  ESP_TRY(const Json* sparse, find_object(config, {"sparsity_config", kAt}));
  if (sparse != nullptr) {
    ESP_TRY(const auto format, find_string(*sparse, {"format", "quantization_config.sparsity_config"}));
    if (format && *format != "dense")
      return not_supported(
          fmt::format("{}.sparsity_config.format is {}, but weights with gaps are not supported; dense ones are", kAt,
                      *format),
          "sparsity_config");
  }
  ESP_TRY(const auto format, find_string(config, {"format", kAt}));
  constexpr std::string_view kFormats[] = {
      "dense",           "int-quantized", "float-quantized",      "naive-quantized",      "pack-quantized",
      "mixed-precision", "fp4-quantized", "nvfp4-pack-quantized", "mxfp4-pack-quantized", "mxfp8-quantized"};
  if (format && std::ranges::find(kFormats, *format) == std::end(kFormats))
    return not_supported(fmt::format("{}.format is {}, which is not known", kAt, *format), "format");
  ESP_TRY(const Json* groups, find_object(config, {"config_groups", kAt}));
  if (groups == nullptr) return success();
  for (const auto& [name, group] : groups->items()) {
    const std::string at = fmt::format("{}.config_groups.{}", kAt, name);
    if (!group.is_object()) return bad_request(fmt::format("{} must be an object", at), at);
    ESP_CHECK(read_group(group, at, made));
  }
  return success();
}

}  // namespace

Result<Quantisation> read_quantisation(const Json* config) {
  Quantisation made;
  if (config == nullptr) return made;
  ESP_TRY(const auto method, find_string(*config, {"quant_method", kAt}));
  if (method) {
    made.name = *method;
  } else if (const auto* load = find_field(*config, "load_in_4bit"); load != nullptr) {
    made.name = "bitsandbytes";  // files of 2023 do not say so
  } else {
    ESP_TRY(made.name, get_string(*config, {"quant_method", kAt}));
  }
  const auto* known =
      std::ranges::find(kMethods, std::string_view(made.name), &std::pair<std::string_view, QuantMethod>::first);
  if (known == std::end(kMethods)) {
    std::string list;
    for (const auto& [name, of] : kMethods) list += fmt::format("{}{}", list.empty() ? "" : ", ", name);
    return not_supported(
        fmt::format("{}.quant_method is {}, but {} are supported, and so are GGUF files and checkpoints that are not "
                    "quantised",
                    kAt, made.name, list),
        "quant_method");
  }
  made.method = known->second;
  made.told = *config;
  switch (made.method) {
    case QuantMethod::gptq:
      ESP_CHECK(read_gptq(*config, made));
      break;
    case QuantMethod::awq:
      ESP_CHECK(read_awq(*config, made));
      break;
    case QuantMethod::fp8:
      ESP_CHECK(read_fp8(*config, made));
      break;
    case QuantMethod::compressed_tensors:
      ESP_CHECK(read_compressed_tensors(*config, made));
      break;
    default:
      break;
  }
  return made;
}

}  // namespace espalier
