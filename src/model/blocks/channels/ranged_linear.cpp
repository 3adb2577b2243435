#include "model/blocks/channels/ranged_linear.h"

#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "model/program/builder.h"

namespace espalier {
namespace {

float limit_of(Builder& b, const std::string& tensor, float otherwise) {
  return b.has_tensor(tensor) ? b.values(b.vector_of(tensor, {})).front() : otherwise;
}

// Clips into new rows: what is read may be read by others.
Rows within(Builder& b, Rows rows, const std::string& range) {
  constexpr float all = std::numeric_limits<float>::infinity();
  const float low = limit_of(b, range + "_min", -all), high = limit_of(b, range + "_max", all);
  if (std::isinf(low) && std::isinf(high)) return rows;
  const Rows out = b.buffer(rows.width);
  b.emit(ClipOp{rows, out, low, high});
  return out;
}

}  // namespace

Rows ranged_product(Builder& b, Rows x, std::string_view role, int outputs) {
  constexpr std::string_view ending = ".linear";
  std::string stem = b.name(role);
  if (stem.ends_with(ending)) stem.resize(stem.size() - ending.size());
  const Rows in = within(b, x, stem + ".input");
  return within(b, b.matmul(in, {b.matrix(role, outputs, in.width)}), stem + ".output");
}

}  // namespace espalier
