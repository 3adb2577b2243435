#include "model/ranks/rank_needs.h"

#include <algorithm>

namespace espalier {

MatrixNeed some_of_parts(MatrixNeed need, Range outputs) {
  for (MatrixPart& part : need.parts) {
    part.rows.skip += outputs.begin;
    part.outputs = outputs.size();
  }
  return need;
}

MatrixNeed some_outputs(const MatrixNeed& need, Range outputs) {
  if (need.gated) return some_of_parts(need, outputs);
  MatrixNeed out = need;
  out.parts.clear();
  int base = 0;
  for (const MatrixPart& part : need.parts) {
    const auto width = static_cast<int>(part.outputs);
    const int begin = std::clamp(outputs.begin - base, 0, width), end = std::clamp(outputs.end - base, begin, width);
    if (begin < end) {
      MatrixPart some = part;
      some.rows.skip += begin;
      some.outputs = end - begin;
      out.parts.push_back(std::move(some));
    }
    base += width;
  }
  return out;
}

}  // namespace espalier
