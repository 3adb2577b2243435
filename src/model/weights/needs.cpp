#include "model/weights/needs.h"

#include <fmt/format.h>

namespace espalier {

std::int64_t RowOrder::stored(std::int64_t i) const {
  i += skip;
  std::int64_t row = first + (period > 0 ? i / take * period + i % take : i);
  if (pairs > 0) {
    const std::int64_t in_head = row % pairs, half = pairs / 2;
    row += 2 * (in_head % half) + in_head / half - in_head;
  }
  return row;
}

std::int64_t MatrixPart::bias_of(std::int64_t output) const {
  if (same_bias) return rows.skip + output;
  return (transposed ? first_bias : 0) + rows.stored(output) / bias_rows;
}

std::string RowOrder::text() const {
  std::string out;
  if (first != 0 || period > 0) out = fmt::format("/rows{}", first);
  if (period > 0) out += fmt::format(":{}of{}", take, period);
  if (pairs > 0) out += fmt::format("/pairs{}", pairs);
  if (skip > 0) out += fmt::format("/from{}", skip);
  return out;
}

}  // namespace espalier
