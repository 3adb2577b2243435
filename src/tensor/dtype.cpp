#include "tensor/dtype.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace espalier {
namespace {

constexpr std::array<std::string_view, kDTypes> kNames = {
    "F32",     "F16",    "BF16",    "F64",     "I8",      "I16",    "I32",     "I64",   "U8",      "U16",    "U32",
    "U64",     "BOOL",   "F8_E4M3", "F8_E5M2", "F8_E8M0", "Q8_0",   "Q4_0",    "Q4_1",  "Q5_0",    "Q5_1",   "Q2_K",
    "Q3_K",    "Q4_K",   "Q5_K",    "Q6_K",    "IQ4_NL",  "IQ4_XS", "IQ1_S",   "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S",
    "IQ3_XXS", "IQ3_S",  "TQ1_0",   "TQ2_0",   "MXFP4",   "NVFP4",  "G2_32",   "G2_64", "G2_128",  "G3_32",  "G3_128",
    "G4_32",   "G4_128", "G8_32",   "G8_128",  "F8_32",   "F8_128", "NVFP4_G", "NF4",   "FP4",
};
static_assert(kNames[static_cast<int>(DType::f8_e8m0)] == "F8_E8M0" &&
              kNames[static_cast<int>(DType::nvfp4)] == "NVFP4" && kNames.back() == "FP4");

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) {
    return std::toupper(static_cast<unsigned char>(x)) == std::toupper(static_cast<unsigned char>(y));
  });
}

}  // namespace

std::string_view name(DType type) {
  return kNames[static_cast<int>(type)];
}

std::optional<DType> dtype_named(std::string_view n) {
  for (int i = 0; i < kDTypes; ++i) {
    if (equal_ignoring_case(kNames[i], n)) return static_cast<DType>(i);
  }
  return std::nullopt;
}

}  // namespace espalier
