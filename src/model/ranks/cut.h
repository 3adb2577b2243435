// cut.h: how something that is counted (columns, heads, experts) is shared by the ranks of a group.
//
// Threads: pure. Fails: never.
#pragma once

#include <cstdint>
#include <vector>

namespace espalier {

// [begin, end), of whatever is counted.
struct Range {
  int begin = 0, end = 0;
  int size() const { return end - begin; }
  bool empty() const { return end <= begin; }
  bool operator==(const Range&) const = default;
};

// What each rank has, by rank. Begins and ends ascend; together they cover what is shared. They may overlap: some things
// are had by several ranks.
using Cut = std::vector<Range>;

// As even as it can be: ranks beyond `units` have none.
Cut even_cut(int units, int ranks);
// A rank's range becomes `each` times as long, and lies `first` further.
Cut scaled(const Cut& cut, int each, int first = 0);
// The same without overlaps, in [first, first + width): who gives what when all ranks bring together what they have.
Cut owners(const Cut& cut, int first, int width);

// Heads of queries and the heads of keys that they read (kv_heads divides heads): all heads of a key lie on the ranks
// that have it. Where there are more ranks than heads of keys, several ranks have the same one and share its queries.
struct HeadCuts {
  Cut heads, kv_heads;
};
HeadCuts head_cuts(int heads, int kv_heads, int ranks);

}  // namespace espalier
