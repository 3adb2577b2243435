#include "quantize/target.h"

#include <algorithm>
#include <utility>

namespace espalier::quantizer {
namespace {

constexpr Target gguf(std::string_view name, DType base, Mix mix, std::uint32_t file_type, std::string_view about) {
  return {.name = name, .about = about, .base = base, .mix = mix, .file_type = file_type};
}

constexpr Target kTargets[] = {
    gguf("f16", DType::f16, Mix::none, 1, "16-bit floats"),
    gguf("bf16", DType::bf16, Mix::none, 32, "16-bit floats with a float32's range"),
    gguf("q8_0", DType::q8_0, Mix::none, 7, "8 bits, nearly as the source"),
    gguf("q6_k", DType::q6_k, Mix::none, 18, "6 bits"),
    gguf("q5_k_m", DType::q5_k, Mix::medium, 17, "5 bits, 6 where it matters"),
    gguf("q5_k_s", DType::q5_k, Mix::small, 16, "5 bits"),
    gguf("q5_1", DType::q5_1, Mix::none, 9, "5 bits with a minimum"),
    gguf("q5_0", DType::q5_0, Mix::none, 8, "5 bits"),
    gguf("q4_k_m", DType::q4_k, Mix::medium, 15, "4 bits, 6 where it matters"),
    gguf("q4_k_s", DType::q4_k, Mix::small, 14, "4 bits, 5 where it matters"),
    gguf("q4_1", DType::q4_1, Mix::none, 3, "4 bits with a minimum"),
    gguf("iq4_nl", DType::iq4_nl, Mix::none, 25, "4 bits in uneven steps"),
    gguf("iq4_xs", DType::iq4_xs, Mix::none, 30, "4 bits in uneven steps, smaller scales"),
    gguf("q4_0", DType::q4_0, Mix::none, 2, "4 bits, the quickest"),
    gguf("q3_k_l", DType::q3_k, Mix::large, 13, "3 bits, 5 where it matters"),
    gguf("q3_k_m", DType::q3_k, Mix::medium, 12, "3 bits, 4 and 5 where it matters"),
    gguf("q3_k_s", DType::q3_k, Mix::small, 11, "3 bits"),
    gguf("q2_k", DType::q2_k, Mix::medium, 10, "2 bits, 3 and 4 where it matters"),
    gguf("q2_k_s", DType::q2_k, Mix::small, 21, "2 bits, 4 where it matters"),
    {.name = "w8a8",
     .about = "safetensors: int8 weights, int8 activations (a scale for each token)",
     .container = Container::tensors,
     .bits = 8,
     .int8_activations = true},
    {.name = "w8a16", .about = "safetensors: int8 weights", .container = Container::tensors, .bits = 8},
    {.name = "w4a16",
     .about = "safetensors: int4 weights in groups",
     .container = Container::tensors,
     .bits = 4,
     .grouped = true},
    {.name = "w4a16_asym",
     .about = "safetensors: int4 weights in groups with zero points",
     .container = Container::tensors,
     .bits = 4,
     .grouped = true,
     .symmetric = false},
};

constexpr std::pair<std::string_view, std::string_view> kOtherNames[] = {
    {"q4_k", "q4_k_m"}, {"q5_k", "q5_k_m"}, {"q3_k", "q3_k_m"}, {"fp16", "f16"}, {"int8", "w8a8"}, {"int4", "w4a16"}};

}  // namespace

std::span<const Target> targets() {
  return kTargets;
}

Result<Target> find_target(std::string_view name) {
  std::string lower;
  for (const char c : name) lower += c == '-' ? '_' : c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  for (const auto& [other, own] : kOtherNames)
    if (lower == other) lower = own;
  const auto* found = std::ranges::find(kTargets, std::string_view(lower), &Target::name);
  if (found != std::end(kTargets)) return *found;
  std::string list;
  for (const Target& target : kTargets) list += (list.empty() ? "" : ", ") + std::string(target.name);
  return bad_request("--type " + std::string(name) + " is not known; " + list + " are", "type");
}

}  // namespace espalier::quantizer
