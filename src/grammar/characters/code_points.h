// code_points.h: sets of Unicode characters, as sorted disjoint ranges.
//
// A character is a scalar value: 0..0x10FFFF without the surrogates, which no member function ever puts into a set.
// Threads: values. Fails: never.
#pragma once

#include <cstdint>
#include <vector>

namespace espalier::grammar {

// Characters from `low` to `high`.
struct CodePointRange {
  std::uint32_t low = 0, high = 0;  // both included
  bool operator==(const CodePointRange&) const = default;
};

// A set of characters, as few ranges as possible in ascending order.
class CodePointSet {
 public:
  CodePointSet() = default;
  CodePointSet(std::uint32_t low, std::uint32_t high) { add(low, high); }
  static CodePointSet all();

  void add(std::uint32_t low, std::uint32_t high);  // keeps the ranges sorted, disjoint and as few as possible
  void add(const CodePointSet& other);
  void add(std::uint32_t character) { add(character, character); }
  CodePointSet complement() const;
  CodePointSet intersect(const CodePointSet& other) const;
  CodePointSet without(const CodePointSet& other) const { return intersect(other.complement()); }

  bool contains(std::uint32_t character) const;
  bool empty() const { return ranges_.empty(); }
  const std::vector<CodePointRange>& ranges() const { return ranges_; }
  bool operator==(const CodePointSet&) const = default;

 private:
  std::vector<CodePointRange> ranges_;
};

}  // namespace espalier::grammar
