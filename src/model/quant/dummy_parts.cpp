#include "model/quant/dummy_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "base/json/json_fields.h"
#include "tensor/encode.h"
#include "tensor/group_blocks.h"

namespace espalier {
namespace {

constexpr std::string_view kTold = "quantization_config";
constexpr float kDeviation = 0.02f;  // of weights

using Bytes = std::span<std::byte>;

void draw(Bytes out, unsigned low, unsigned high) {
  std::mt19937 rng(42);
  for (std::byte& b : out) b = static_cast<std::byte>(low + rng() % (high - low + 1));
}
// e4m3 of a magnitude from 1/4 to 4.
void draw_float8(Bytes out, bool positive) {
  std::mt19937 rng(42);
  for (std::byte& b : out) {
    const auto bits = rng();
    b = static_cast<std::byte>((0x28 + bits % 32) | (positive ? 0 : bits >> 24 & 0x80));
  }
}
// Scales around `mean`, some less and some more.
void draw_scales(Bytes out, DType type, float mean) {
  constexpr std::size_t kPattern = 4096;
  std::mt19937 rng(42);
  std::uniform_real_distribution<float> around(0.7f * mean, 1.3f * mean);
  std::vector<float> values(std::min(kPattern, out.size() / static_cast<std::size_t>(block_shape(type).bytes)));
  for (float& value : values) value = around(rng);
  const std::vector<std::byte> stored = encode(type, values, static_cast<std::int64_t>(values.size()));
  for (std::size_t at = 0; at < out.size(); at += stored.size())
    std::memcpy(out.data() + at, stored.data(), std::min(stored.size(), out.size() - at));
}
// Codes of so many bits, one behind the other.
void repeat_code(Bytes out, unsigned code, int bits) {
  std::ranges::fill(out, std::byte{0});
  for (std::size_t bit = 0; bit < 8 * out.size(); ++bit)
    if ((code >> (bit % static_cast<std::size_t>(bits)) & 1) != 0)
      out[bit / 8] |= std::byte{1} << static_cast<int>(bit % 8);
}
void put(Bytes out, std::span<const std::byte> content) {
  std::ranges::copy(content, out.begin());
}

// What stands for a deviation of kDeviation in codes that take their whole range.
float step_of(int bits) {
  return kDeviation / (0.29f * std::ldexp(1.0f, bits));
}

std::int64_t up(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

// Whether a pattern of a configuration means this module: a part of its name, or ("re:", or a '*') parts that follow one
// another, between ".*" or "*"; other signs of expressions are passed over.
bool means(std::string pattern, const std::string& module) {
  const bool regular = pattern.starts_with("re:");
  if (regular) pattern.erase(0, 3);
  std::vector<std::string> pieces(1);
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (regular && (pattern[i] == '\\' || pattern[i] == '^' || pattern[i] == '$')) continue;
    if (pattern[i] == '*' || (regular && pattern.compare(i, 2, ".*") == 0)) {
      i += pattern[i] == '*' ? 0 : 1;
      pieces.emplace_back();
    } else {
      pieces.back() += pattern[i];
    }
  }
  std::size_t at = 0;
  for (const std::string& piece : pieces) {
    at = module.find(piece, at);
    if (at == std::string::npos) return false;
    at += piece.size();
  }
  return true;
}

// 0 and negative: all of a row.
std::int64_t group_of(std::optional<std::int64_t> told) {
  return told.value_or(128) == 0 ? -1 : told.value_or(128);
}

// The powers of two of MXFP4's and MXFP8's blocks.
void draw_exponents(Bytes out) {
  draw(out, 119, 121);
}

}  // namespace

// The tensors of one layer.
class DummyFormat::Maker {
 public:
  Maker(const DummyFormat& format, const Scheme& scheme, const std::string& module, std::int64_t outputs,
        std::int64_t inputs)
      : f_(format), s_(scheme), module_(module), outputs_(outputs), inputs_(inputs) {
    group_ = s_.group < 0 ? inputs : s_.group;
  }

  std::vector<DummyPart> make() {
    if (s_.scales == Scales::group && inputs_ % group_ != 0) return {};
    switch (s_.form) {
      case Form::gptq:
        gptq();
        break;
      case Form::awq:
        awq();
        break;
      case Form::packed:
        packed();
        break;
      case Form::int8:
        int8();
        break;
      case Form::float8:
        float8();
        break;
      case Form::nvfp4:
      case Form::modelopt_nvfp4:
        nvfp4();
        break;
      case Form::mxfp4:
        mxfp4();
        break;
      case Form::mxfp8:
        mxfp8();
        break;
      case Form::table:
        table();
        break;
      case Form::scb:
        scb();
        break;
      case Form::mxfp4_experts:
        break;
    }
    return std::move(parts_);
  }

 private:
  void add(const char* end, DType type, Shape shape, std::string content, std::function<void(Bytes)> fill) {
    parts_.push_back({module_ + end, type, std::move(shape), std::move(content), std::move(fill)});
  }
  void add_codes(const char* end, DType type, Shape shape) {
    add(end, type, std::move(shape), "codes", [](Bytes out) { draw(out, 0, 255); });
  }
  void add_scales(const char* end, DType type, Shape shape, float mean) {
    add(end, type, std::move(shape), fmt::format("scales {} {}", name(type), mean),
        [type, mean](Bytes out) { draw_scales(out, type, mean); });
  }
  // The middle of the range, or codes around it.
  void add_zeros(const char* end, Shape shape, unsigned middle) {
    const bool mixed = !s_.symmetric && s_.bits > 2;
    add(end, DType::i32, std::move(shape), fmt::format("zeros {} {} {}", s_.bits, middle, mixed),
        [middle, bits = s_.bits, mixed](Bytes out) {
          repeat_code(out, middle, bits);
          if (!mixed) return;
          // The other neighbour of the middle here and there: a bit of the first code of a run of whole words.
          const auto run = 4 * static_cast<std::size_t>(bits);
          for (std::size_t at = 0; at < out.size(); at += 2 * run) out[at] ^= std::byte{1};
        });
  }
  // The group of each input, in turns where groups are mixed.
  void add_order(const char* end) {
    const std::int64_t groups = inputs_ / group_;
    add(end, DType::i32, {inputs_}, fmt::format("order {} {} {}", inputs_, group_, s_.ordered),
        [groups, group = group_, mixed = s_.ordered](Bytes out) {
          for (std::size_t k = 0; k < out.size() / 4; ++k) {
            const auto i = static_cast<std::int64_t>(k);
            const auto g = static_cast<std::int32_t>(mixed ? i % groups : i / group);
            std::memcpy(out.data() + 4 * k, &g, 4);
          }
        });
  }

  void gptq() {
    if (inputs_ * s_.bits % 32 != 0 || outputs_ * s_.bits % 32 != 0) return;
    const std::int64_t groups = inputs_ / group_;
    add_codes(".qweight", DType::i32, {inputs_ * s_.bits / 32, outputs_});
    add_zeros(".qzeros", {groups, outputs_ * s_.bits / 32}, (1u << (s_.bits - 1)) - (f_.zeros_less_one_ ? 1 : 0));
    add_scales(".scales", DType::f16, {groups, outputs_}, step_of(s_.bits));
    add_order(".g_idx");
  }
  void awq() {
    if (outputs_ % 8 != 0) return;
    const std::int64_t groups = inputs_ / group_;
    add_codes(".qweight", DType::i32, {inputs_, outputs_ / 8});
    add_zeros(".qzeros", {groups, outputs_ / 8}, 8);
    add_scales(".scales", DType::f16, {groups, outputs_}, step_of(4));
  }
  Shape scale_shape() const {
    switch (s_.scales) {
      case Scales::tensor:
        return {1};
      case Scales::row:
        return {outputs_, 1};
      case Scales::block:
        return {up(outputs_, f_.block_rows_), up(inputs_, f_.block_columns_)};
      default:
        return {outputs_, inputs_ / group_};
    }
  }
  void packed() {
    const std::int64_t groups = scale_shape().back();
    add_codes(".weight_packed", DType::i32, {outputs_, up(inputs_ * s_.bits, 32)});
    add_scales(".weight_scale", DType::bf16, scale_shape(), step_of(s_.bits));
    const std::int64_t shape[2] = {outputs_, inputs_};
    add(".weight_shape", DType::i64, {2}, fmt::format("shape {} {}", outputs_, inputs_),
        [shape](Bytes out) { put(out, std::as_bytes(std::span(shape))); });
    if (!s_.symmetric) add_zeros(".weight_zero_point", {up(outputs_ * s_.bits, 32), groups}, 1u << (s_.bits - 1));
    if (s_.ordered) add_order(".weight_g_idx");
  }
  void int8() {
    add(".weight", DType::i8, {outputs_, inputs_}, fmt::format("bytes {}", s_.bits), [bits = s_.bits](Bytes out) {
      draw(out, 0, (1u << bits) - 1);
      for (std::byte& b : out) b = static_cast<std::byte>(static_cast<int>(b) - (1 << (bits - 1)));
    });
    add_scales(".weight_scale", DType::bf16, scale_shape(), step_of(s_.bits));
  }
  void float8() {
    const bool block = s_.scales == Scales::block;
    add(".weight", DType::f8_e4m3, {outputs_, inputs_}, "float8", [](Bytes out) { draw_float8(out, false); });
    add_scales(block ? ".weight_scale_inv" : ".weight_scale", block ? DType::f32 : DType::bf16, scale_shape(),
               kDeviation / 2);
  }
  void nvfp4() {
    if (inputs_ % 16 != 0) return;
    const bool modelopt = s_.form == Form::modelopt_nvfp4;
    const float global = kDeviation / 4;
    add_codes(modelopt ? ".weight" : ".weight_packed", DType::u8, {outputs_, inputs_ / 2});
    add(".weight_scale", DType::f8_e4m3, {outputs_, inputs_ / 16}, "positive float8",
        [](Bytes out) { draw_float8(out, true); });
    const float told = modelopt ? global : 1 / global;
    add(modelopt ? ".weight_scale_2" : ".weight_global_scale", DType::f32, {1}, "global scale",
        [told](Bytes out) { put(out, std::as_bytes(std::span(&told, 1))); });
  }
  void mxfp4() {
    if (inputs_ % 32 != 0) return;
    add_codes(".weight_packed", DType::u8, {outputs_, inputs_ / 2});
    add(".weight_scale", DType::u8, {outputs_, inputs_ / 32}, "exponents", draw_exponents);
  }
  void mxfp8() {
    if (inputs_ % 32 != 0) return;
    add(".weight", DType::f8_e4m3, {outputs_, inputs_}, "float8", [](Bytes out) { draw_float8(out, false); });
    add(".weight_scale", DType::u8, {outputs_, inputs_ / 32}, "exponents", draw_exponents);
  }
  // bitsandbytes' four bits.
  void table() {
    constexpr std::int64_t kRun = 64, kOuterRun = 256;
    const std::int64_t runs = up(outputs_ * inputs_, kRun);
    add_codes(".weight", DType::u8, {up(outputs_ * inputs_, 2), 1});
    Json state = {{"quant_type", s_.table}, {"blocksize", kRun}, {"dtype", "bfloat16"}, {"shape", {outputs_, inputs_}}};
    if (s_.nested) {
      state["nested_blocksize"] = kOuterRun, state["nested_dtype"] = "float32", state["nested_offset"] = kDeviation;
      add_codes(".weight.absmax", DType::u8, {runs});
      add_scales(".weight.nested_absmax", DType::f32, {up(runs, kOuterRun)}, kDeviation);
      add_scales(".weight.nested_quant_map", DType::f32, {256}, 0.5f);
    } else {
      add_scales(".weight.absmax", DType::f32, {runs}, 2 * kDeviation);
    }
    const auto& values = s_.table == "nf4" ? kNf4Values : kFp4Table;
    add(".weight.quant_map", DType::f32, {16}, "map " + s_.table,
        [&values](Bytes out) { put(out, std::as_bytes(std::span(values))); });
    const std::string text = state.dump();
    parts_.push_back({module_ + ".weight.quant_state.bitsandbytes__" + s_.table,
                      DType::u8,
                      {static_cast<std::int64_t>(text.size())},
                      text,
                      [text](Bytes out) { put(out, std::as_bytes(std::span(text))); }});
  }
  // bitsandbytes' eight bits.
  void scb() {
    add_codes(".weight", DType::i8, {outputs_, inputs_});
    add_scales(".SCB", DType::f32, {outputs_}, 127 * step_of(8));
  }

  const DummyFormat& f_;
  const Scheme& s_;
  const std::string& module_;
  std::int64_t outputs_, inputs_, group_;
  std::vector<DummyPart> parts_;
};

std::vector<DummyPart> DummyFormat::of_layer(const std::string& module, std::int64_t outputs,
                                             std::int64_t inputs) const {
  if (leaves_out(module)) return {};
  for (const Scheme& scheme : schemes_) {
    const bool meant = scheme.targets.empty() || std::ranges::any_of(scheme.targets, [&](const std::string& target) {
                         return target == "Linear" || means(target, module);
                       });
    if (meant) return Maker(*this, scheme, module, outputs, inputs).make();
  }
  return {};
}

std::vector<DummyPart> DummyFormat::of_experts(const std::string& tensor, const Shape& shape) const {
  if (schemes_.empty() || schemes_.front().form != Form::mxfp4_experts || shape[1] % 32 != 0) return {};
  return {{tensor + "_blocks",
           DType::u8,
           {shape[0], shape[2], shape[1] / 32, 16},
           "codes",
           [](Bytes out) { draw(out, 0, 255); }},
          {tensor + "_scales", DType::u8, {shape[0], shape[2], shape[1] / 32}, "exponents", draw_exponents}};
}

bool DummyFormat::leaves_out(const std::string& module) const {
  return std::ranges::any_of(left_out_, [&](const std::string& pattern) { return means(pattern, module); });
}

// GPTQ's and AWQ's own words.
Result<> DummyFormat::read_words(const Json& told, QuantMethod method) {
  Scheme& scheme = schemes_.emplace_back();
  scheme.form = method == QuantMethod::awq ? Form::awq : Form::gptq;
  const char* const group = find_field(told, "group_size") != nullptr ? "group_size" : "q_group_size";
  ESP_TRY(const auto size, find_integer(told, {group, kTold}, {-1, 1 << 24}));
  scheme.group = group_of(size);
  ESP_TRY(const auto symmetric, find_boolean(told, {"sym", kTold}));
  ESP_TRY(const auto zero_point, find_boolean(told, {"zero_point", kTold}));
  scheme.symmetric = method == QuantMethod::awq ? !zero_point.value_or(true) : symmetric.value_or(true);
  ESP_TRY(const auto ordered, find_boolean(told, {"desc_act", kTold}));
  scheme.ordered = ordered.value_or(false);
  return success();
}

// One of compressed-tensors' config_groups.
Result<DummyFormat::Scheme> DummyFormat::compressed_scheme(const Json& group, const std::string& at,
                                                           std::string format) {
  Scheme scheme;
  ESP_TRY(const Json* weights, get_object(group, {"weights", at}));
  const std::string of = at + ".weights";
  ESP_TRY(const std::int64_t bits, get_integer(*weights, {"num_bits", of}, {2, 8}));
  ESP_TRY(const auto type, find_string(*weights, {"type", of}));
  ESP_TRY(const auto strategy, find_string(*weights, {"strategy", of}));
  ESP_TRY(const auto size, find_integer(*weights, {"group_size", of}, {-1, 1 << 24}));
  ESP_TRY(const auto symmetric, find_boolean(*weights, {"symmetric", of}));
  ESP_TRY(const auto own, find_string(group, {"format", at}));
  ESP_TRY(const Json* targets, find_array(group, {"targets", at}));
  if (targets != nullptr)
    for (const Json& target : *targets)
      if (target.is_string()) scheme.targets.push_back(target.get<std::string>());
  scheme.bits = static_cast<int>(bits);
  scheme.symmetric = symmetric.value_or(true);
  scheme.scales = strategy == "tensor"  ? Scales::tensor
                  : strategy == "block" ? Scales::block
                  : strategy == "group" ? Scales::group
                                        : Scales::row;
  scheme.group = group_of(size);
  const Json* order = find_field(*weights, "actorder");
  scheme.ordered = order != nullptr && (*order == Json("group") || *order == Json(true));
  if (own) format = *own;
  const bool floats = type == "float";
  scheme.form = format == "nvfp4-pack-quantized" || (floats && bits == 4 && size == 16) ? Form::nvfp4
                : format == "mxfp4-pack-quantized" || (floats && bits == 4)             ? Form::mxfp4
                : format == "mxfp8-quantized"                                           ? Form::mxfp8
                : floats                                                                ? Form::float8
                : format == "pack-quantized" || bits < 4                                ? Form::packed
                                                                                        : Form::int8;
  if (scheme.form != Form::packed && scheme.form != Form::int8 && scheme.form != Form::float8)
    scheme.scales = Scales::row;
  return scheme;
}

Result<> DummyFormat::read_compressed(const Json& told) {
  ESP_TRY(const auto format, find_string(told, {"format", kTold}));
  ESP_TRY(const Json* groups, get_object(told, {"config_groups", kTold}));
  for (const auto& [name, group] : groups->items()) {
    ESP_TRY(schemes_.emplace_back(),
            compressed_scheme(group, fmt::format("{}.config_groups.{}", kTold, name), format.value_or("")));
  }
  return success();
}

// FP8, MXFP4, NVFP4, bitsandbytes.
Result<> DummyFormat::read_other(const Json& told, QuantMethod method) {
  Scheme& scheme = schemes_.emplace_back();
  scheme.scales = Scales::row;
  scheme.form = method == QuantMethod::mxfp4 ? Form::mxfp4_experts : Form::float8;
  if (method == QuantMethod::modelopt) {
    ESP_TRY(const auto algorithm, find_string(told, {"quant_algo", kTold}));
    if (algorithm == "NVFP4") scheme.form = Form::modelopt_nvfp4;
    if (algorithm == "FP8") scheme.scales = Scales::tensor;
  }
  if (method == QuantMethod::fp8 && find_field(told, "weight_block_size") != nullptr) scheme.scales = Scales::block;
  if (method != QuantMethod::bitsandbytes) return success();
  ESP_TRY(const auto eight, find_boolean(told, {"load_in_8bit", kTold}));
  ESP_TRY(const auto type, find_string(told, {"bnb_4bit_quant_type", kTold}));
  ESP_TRY(const auto nested, find_boolean(told, {"bnb_4bit_use_double_quant", kTold}));
  scheme.form = eight.value_or(false) ? Form::scb : Form::table;
  scheme.table = type == "fp4" ? "fp4" : "nf4";
  scheme.nested = nested.value_or(false);
  return success();
}

Result<DummyFormat> DummyFormat::read(const Quantisation& how) {
  DummyFormat made;
  made.zeros_less_one_ = how.zeros_less_one;
  made.block_rows_ = how.block_rows;
  made.block_columns_ = how.block_columns;
  for (const char* field : {"modules_to_not_convert", "ignore", "exclude_modules", "llm_int8_skip_modules"}) {
    ESP_TRY(const Json* list, find_array(how.told, {field, kTold}));
    if (list == nullptr) continue;
    for (const Json& module : *list)
      if (module.is_string()) made.left_out_.push_back(module.get<std::string>());
  }
  switch (how.method) {
    case QuantMethod::none:
      break;
    case QuantMethod::gptq:
    case QuantMethod::awq:
      ESP_CHECK(made.read_words(how.told, how.method));
      if (!how.bits.empty()) made.schemes_.front().bits = how.bits.front();
      break;
    case QuantMethod::compressed_tensors:
      ESP_CHECK(made.read_compressed(how.told));
      break;
    default:
      ESP_CHECK(made.read_other(how.told, how.method));
  }
  return made;
}

}  // namespace espalier
