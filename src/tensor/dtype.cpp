#include "tensor/dtype.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace espalier {
namespace {

constexpr std::array<std::string_view, kDTypes> kNames = {
    "F32",  "F16",  "BF16", "F64",     "I8",      "I16",     "I32",    "I64",    "U8",   "U16",
    "U32",  "U64",  "BOOL", "F8_E4M3", "F8_E5M2", "F8_E8M0", "Q8_0",   "Q4_0",   "Q4_1", "Q5_0",
    "Q5_1", "Q2_K", "Q3_K", "Q4_K",    "Q5_K",    "Q6_K",    "IQ4_NL", "IQ4_XS",
};
static_assert(kNames[static_cast<int>(DType::f8_e8m0)] == "F8_E8M0" && kNames.back() == "IQ4_XS");

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
