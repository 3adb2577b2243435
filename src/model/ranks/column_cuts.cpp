#include "model/ranks/column_cuts.h"

#include <algorithm>
#include <utility>

namespace espalier {
namespace {

// What is left of a section within [first, end).
CutColumns clipped(const CutColumns& section, int first, int end) {
  CutColumns out = section;
  out.rows.first = std::max(section.rows.first, first);
  out.rows.width = std::min(section.rows.first + section.rows.width, end) - out.rows.first;
  const int last = out.rows.first + out.rows.width;
  for (Range& range : out.cut) {
    range.begin = std::clamp(range.begin, out.rows.first, last);
    range.end = std::clamp(range.end, range.begin, last);
  }
  return out;
}

}  // namespace

void ColumnCuts::put(CutColumns section) {
  erase(section.rows);
  all_.push_back(std::move(section));
}

void ColumnCuts::erase(const Rows& rows) {
  std::vector<CutColumns> left;
  for (CutColumns& section : all_) {
    if (!section.rows.meets(rows)) {
      left.push_back(std::move(section));
      continue;
    }
    const int end = section.rows.first + section.rows.width;
    if (section.rows.first < rows.first) left.push_back(clipped(section, section.rows.first, rows.first));
    if (rows.first + rows.width < end) left.push_back(clipped(section, rows.first + rows.width, end));
  }
  all_ = std::move(left);
}

std::vector<CutColumns> ColumnCuts::meeting(const Rows& rows) const {
  std::vector<CutColumns> out;
  for (const CutColumns& section : all_)
    if (section.rows.meets(rows)) out.push_back(section);
  std::ranges::sort(out, {}, [](const CutColumns& section) { return section.rows.first; });
  return out;
}

std::vector<CutColumns> ColumnCuts::inside(const Rows& rows) const {
  std::vector<CutColumns> out = meeting(rows);
  for (CutColumns& section : out) section = clipped(section, rows.first, rows.first + rows.width);
  return out;
}

bool ColumnCuts::have(int buffer, const Cut& needs) const {
  for (const CutColumns& section : all_) {
    if (section.rows.buffer != buffer) continue;
    for (std::size_t rank = 0; rank < needs.size(); ++rank) {
      const int begin = std::max(needs[rank].begin, section.rows.first);
      const int end = std::min(needs[rank].end, section.rows.first + section.rows.width);
      if (begin < end && (begin < section.cut[rank].begin || end > section.cut[rank].end)) return false;
    }
  }
  return true;
}

}  // namespace espalier
