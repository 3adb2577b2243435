// group_rows.h: rows of codes with a scale and a zero point for each group of inputs, whichever way a file packs them.
//
// A format says where a matrix's codes, scales and zeros are; here they become blocks: the panels that are quickest for
// what is there (Q4_0 and Q8_0 where all zeros are the middle and all scales are exact as f16, else G2 .. G8; G8 for
// codes of any width where scales are float32 and no f16 is as exact), and floats where groups or rows are no whole blocks of 32. Inputs whose groups are mixed (GPTQ's act-order) are put into
// the order of their groups, which order() tells.
// Threads: as made_rows.h. Fails: as made_rows.h.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/quant/made_rows.h"

namespace espalier {

// A matrix [outputs, inputs] of value(row, k) = scale(row, g) * (code(row, k) - zero(row, g)), g the group of input k.
struct GroupMatrix {
  std::string name;
  std::int64_t outputs = 0, inputs = 0, groups = 1;
  int bits = 4;
  std::vector<const Tensor*> sources;
  std::function<void(std::int64_t row, std::span<std::uint8_t> codes)> codes;  // of all inputs
  std::function<float(std::int64_t row, std::int64_t group)> scale;
  std::function<int(std::int64_t row, std::int64_t group)> zero;  // 0..256
  std::vector<std::int32_t> group_of;  // of each input; empty: groups of equal length, one behind the other
};

// Requires: groups divide the inputs where group_of is empty; else its numbers are below groups.
Tensor weight_of(GroupMatrix matrix);

}  // namespace espalier
