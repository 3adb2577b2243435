// fair_share.h: turns of tenants, by the tokens that were computed for them (deficit round robin).
//
// A tenant's turn number rises by one for each quantum of tokens; waiting requests of a lower turn go first. A tenant
// that comes (back) starts at the lowest turn of those who are being served: idle time earns nothing. Threads: the
// engine thread. Fails: never.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace espalier {

class FairShare {
 public:
  static constexpr std::int64_t kQuantum = 2048;  // tokens
  static constexpr std::size_t kMostTenants = 4096;

  void arrives(std::string_view tenant) {
    if (served_.contains(tenant)) return;
    if (served_.size() >= kMostTenants) served_.erase(least());
    const std::int64_t start = served_.empty() ? 0 : least()->second;
    served_.emplace(tenant, start);
  }
  // Forgets the head start of those who have nothing to do. `active` says whether a tenant waits or runs.
  template <class Active>
  void settle(Active active) {
    std::erase_if(served_, [&](const auto& entry) { return !active(entry.first); });
  }
  void charge(std::string_view tenant, std::int64_t tokens) {
    if (const auto found = served_.find(tenant); found != served_.end()) found->second += tokens;
  }
  std::int64_t turn(std::string_view tenant) const {
    const auto found = served_.find(tenant);
    return found == served_.end() ? 0 : found->second / kQuantum;
  }

 private:
  using Served = std::map<std::string, std::int64_t, std::less<>>;
  Served::iterator least() {
    return std::min_element(served_.begin(), served_.end(),
                            [](const auto& a, const auto& b) { return a.second < b.second; });
  }
  Served served_;  // tokens
};

}  // namespace espalier
