// name_index.h: from a name to its place in a list, and whether a name occurs twice.
//
// A sorted list, not a hash table: a file's author cannot choose names that make it slow.
// The names must live as long as the index.
// Threads: const calls from any thread. Fails: never.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace espalier {

// Names in order, each with its place in the list they came from.
class NameIndex {
 public:
  NameIndex() = default;
  explicit NameIndex(const std::vector<std::string_view>& names) {
    sorted_.reserve(names.size());
    for (std::size_t i = 0; i < names.size(); ++i) sorted_.push_back({names[i], i});
    std::sort(sorted_.begin(), sorted_.end(),
              [](const Entry& a, const Entry& b) { return a.name != b.name ? a.name < b.name : a.place < b.place; });
  }

  std::optional<std::size_t> find(std::string_view name) const {
    const auto it = std::lower_bound(sorted_.begin(), sorted_.end(), name,
                                     [](const Entry& entry, std::string_view wanted) { return entry.name < wanted; });
    if (it == sorted_.end() || it->name != name) return std::nullopt;
    return it->place;
  }

  // The place of some second occurrence of a name.
  std::optional<std::size_t> duplicate() const {
    const auto it = std::adjacent_find(sorted_.begin(), sorted_.end(),
                                       [](const Entry& a, const Entry& b) { return a.name == b.name; });
    if (it == sorted_.end()) return std::nullopt;
    return (it + 1)->place;
  }

 private:
  struct Entry {
    std::string_view name;
    std::size_t place;
  };
  std::vector<Entry> sorted_;
};

}  // namespace espalier
