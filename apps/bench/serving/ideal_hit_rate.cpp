#include <algorithm>
#include <cstdint>
#include <unordered_set>

#include "bench/serving/report.h"

namespace espalier::bench {
namespace {

// Every prefix of what was seen, as a hash: two different prefixes among 10^7 meet with a chance of about 10^-5.
class SeenPrefixes {
 public:
  std::size_t longest(const std::vector<TokenId>& ids) const {
    std::uint64_t hash = kStart;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      hash = step(hash, ids[i]);
      if (!seen_.contains(hash)) return i;
    }
    return ids.size();
  }
  void add(const std::vector<TokenId>& prompt, const std::vector<TokenId>& output) {
    std::uint64_t hash = kStart;
    for (const auto* part : {&prompt, &output})
      for (const TokenId id : *part) seen_.insert(hash = step(hash, id));
  }

 private:
  static constexpr std::uint64_t kStart = 0x243f6a8885a308d3u;
  static std::uint64_t step(std::uint64_t hash, TokenId id) {
    hash ^=
        static_cast<std::uint64_t>(static_cast<std::uint32_t>(id)) + 0x9e3779b97f4a7c15u + (hash << 6) + (hash >> 2);
    hash = (hash ^ (hash >> 30)) * 0xbf58476d1ce4e5b9u;
    return hash ^ (hash >> 29);
  }
  std::unordered_set<std::uint64_t> seen_;
};

}  // namespace

std::optional<double> ideal_hit_rate(const Journal& journal) {
  std::vector<const Outcome*> calls;
  for (const CallRecord& call : journal.calls)
    if (call.outcome.ok && !call.outcome.prompt_ids.empty()) calls.push_back(&call.outcome);
  if (calls.empty()) return std::nullopt;
  std::stable_sort(calls.begin(), calls.end(), [](auto* a, auto* b) { return a->sent < b->sent; });
  SeenPrefixes seen;
  std::size_t found = 0, all = 0;
  for (const Outcome* call : calls) {
    all += call->prompt_ids.size();
    found += std::min(seen.longest(call->prompt_ids), call->prompt_ids.size() - 1);
    seen.add(call->prompt_ids, call->output_ids);
  }
  return static_cast<double>(found) / static_cast<double>(all);
}

}  // namespace espalier::bench
