#include "model/ranks/cut.h"

#include <algorithm>

namespace espalier {

Cut even_cut(int units, int ranks) {
  Cut cut;
  const auto begin_of = [&](int rank) { return static_cast<int>(static_cast<std::int64_t>(units) * rank / ranks); };
  for (int rank = 0; rank < ranks; ++rank) cut.push_back({begin_of(rank), begin_of(rank + 1)});
  return cut;
}

Cut scaled(const Cut& cut, int each, int first) {
  Cut out;
  for (const Range& range : cut) out.push_back({first + range.begin * each, first + range.end * each});
  return out;
}

Cut owners(const Cut& cut, int first, int width) {
  Cut out;
  for (std::size_t rank = 0; rank < cut.size(); ++rank) {
    const int begin = rank == 0 ? first : out.back().end;
    const int end = rank + 1 < cut.size() ? std::clamp(cut[rank + 1].begin, begin, first + width) : first + width;
    out.push_back({begin, end});
  }
  return out;
}

HeadCuts head_cuts(int heads, int kv_heads, int ranks) {
  const int each = heads / kv_heads;
  if (kv_heads >= ranks) {
    const Cut kv = even_cut(kv_heads, ranks);
    return {scaled(kv, each), kv};
  }
  HeadCuts cuts;
  for (int kv = 0; kv < kv_heads; ++kv) {
    const auto first_of = [&](int head) { return (head * ranks + kv_heads - 1) / kv_heads; };
    const int sharing = first_of(kv + 1) - first_of(kv);
    for (const Range& of_head : even_cut(each, sharing)) {
      cuts.heads.push_back({kv * each + of_head.begin, kv * each + of_head.end});
      cuts.kv_heads.push_back({kv, kv + 1});
    }
  }
  return cuts;
}

}  // namespace espalier
