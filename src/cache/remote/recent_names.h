// recent_names.h: names of blocks that a store has, as far as was seen lately: what is known there is not sent again.
//
// It forgets: a store loses what it likes. Names lie in two halves; when the newer is full or old, the older goes.
// Units: names; seconds. Threads: one caller at a time. Fails: never; what is forgotten is asked for once more.
#pragma once

#include <chrono>
#include <cstring>
#include <unordered_set>

#include "cache/remote/block_chain.h"

namespace espalier {

// A bounded set whose members expire.
class RecentNames {
 public:
  bool has(const BlockName& name) const { return newer_.contains(short_of(name)) || older_.contains(short_of(name)); }
  void add(const BlockName& name) {
    if (newer_.size() >= kMost || std::chrono::steady_clock::now() - begun_ > kLong) {
      older_.swap(newer_);
      newer_.clear();
      begun_ = std::chrono::steady_clock::now();
    }
    newer_.insert(short_of(name));
  }
  void remove(const BlockName& name) {
    newer_.erase(short_of(name));
    older_.erase(short_of(name));
  }
  void clear() {
    newer_.clear();
    older_.clear();
  }

 private:
  static constexpr std::size_t kMost = std::size_t{1} << 19;
  static constexpr std::chrono::minutes kLong{10};
  // A hash's first bytes. Two blocks that share them: one is not sent.
  static std::uint64_t short_of(const BlockName& name) {
    std::uint64_t value = 0;
    std::memcpy(&value, name.data(), sizeof value);
    return value;
  }
  std::unordered_set<std::uint64_t> newer_, older_;
  std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
};

}  // namespace espalier
