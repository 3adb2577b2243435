#include "model/cpu/stages/rows_stage.h"

#include <algorithm>

namespace espalier {

void RowsStage::run(Pass& pass) {
  constexpr std::int64_t kValues = 16384;  // about ten microseconds' work: more than it takes to claim a chunk
  const RowSlice slice = pass.slice();
  const int each = static_cast<int>(std::clamp<std::int64_t>(kValues / values_, 1, 32));
  pass.with().team.run((slice.rows() + each - 1) / each, [&](int chunk) {
    const int begin = slice.begin + chunk * each;
    for (int row = begin; row < std::min(slice.end, begin + each); ++row)
      for (const RowFunction& function : functions_) function(pass, row);
  });
}

void KeepStage::run(Pass& pass) {
  const auto wanted = pass.batch().logit_rows;
  if (static_cast<int>(wanted.size()) == pass.rows()) return;
  for (int to = 0; const int row : wanted) {
    if (row != to)
      for (const Live& live : live_) std::copy_n(live.place.row(row), live.width, live.place.row(to));
    ++to;
  }
  pass.keep_wanted_rows();
}

}  // namespace espalier
