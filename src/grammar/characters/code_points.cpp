#include "grammar/characters/code_points.h"

#include <algorithm>

namespace espalier::grammar {
namespace {

constexpr std::uint32_t kLastCodePoint = 0x10FFFF;
constexpr std::uint32_t kFirstSurrogate = 0xD800, kLastSurrogate = 0xDFFF;

// Ranges that arrive in ascending order cost constant time each; any other place costs a move of those behind it.
void insert_range(std::vector<CodePointRange>& ranges, std::uint32_t low, std::uint32_t high) {
  if (ranges.empty() || low > ranges.back().high + 1) {
    ranges.push_back({low, high});
    return;
  }
  const auto ends_before = [](const CodePointRange& range, std::uint32_t c) { return range.high + 1 < c; };
  const auto first = std::lower_bound(ranges.begin(), ranges.end(), low, ends_before);
  auto last = first;  // behind the ranges that touch the new one
  while (last != ranges.end() && last->low <= high + 1) {
    low = std::min(low, last->low);
    high = std::max(high, last->high);
    ++last;
  }
  if (first == last) {
    ranges.insert(first, {low, high});
  } else {
    *first = {low, high};
    ranges.erase(first + 1, last);
  }
}

}  // namespace

CodePointSet CodePointSet::all() {
  return {0, kLastCodePoint};
}

void CodePointSet::add(std::uint32_t low, std::uint32_t high) {
  high = std::min(high, kLastCodePoint);
  if (low < kFirstSurrogate && low <= high) insert_range(ranges_, low, std::min(high, kFirstSurrogate - 1));
  if (high > kLastSurrogate && low <= high) insert_range(ranges_, std::max(low, kLastSurrogate + 1), high);
}

void CodePointSet::add(const CodePointSet& other) {
  if (other.ranges_.empty()) return;
  std::vector<CodePointRange> both(ranges_.size() + other.ranges_.size());
  const auto lower = [](const CodePointRange& a, const CodePointRange& b) { return a.low < b.low; };
  std::merge(ranges_.begin(), ranges_.end(), other.ranges_.begin(), other.ranges_.end(), both.begin(), lower);
  ranges_.clear();
  for (const CodePointRange& range : both) insert_range(ranges_, range.low, range.high);
}

CodePointSet CodePointSet::complement() const {
  CodePointSet out;
  std::uint32_t next = 0;
  for (const CodePointRange& range : ranges_) {
    if (range.low > next) out.add(next, range.low - 1);
    next = range.high + 1;
  }
  out.add(next, kLastCodePoint);
  return out;
}

CodePointSet CodePointSet::intersect(const CodePointSet& other) const {
  CodePointSet out;
  auto a = ranges_.begin();
  auto b = other.ranges_.begin();
  while (a != ranges_.end() && b != other.ranges_.end()) {
    out.add(std::max(a->low, b->low), std::min(a->high, b->high));
    if (a->high < b->high) {
      ++a;
    } else {
      ++b;
    }
  }
  return out;
}

bool CodePointSet::contains(std::uint32_t character) const {
  const auto ends_before = [](const CodePointRange& range, std::uint32_t c) { return range.high < c; };
  const auto found = std::lower_bound(ranges_.begin(), ranges_.end(), character, ends_before);
  return found != ranges_.end() && found->low <= character;
}

}  // namespace espalier::grammar
