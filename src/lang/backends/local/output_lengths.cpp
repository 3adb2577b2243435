#include "lang/backends/local/output_lengths.h"

#include <cmath>
#include <functional>
#include <string_view>

namespace espalier::lang {
namespace {

constexpr int kLeastSeen = 4;
constexpr std::size_t kMostKinds = 4096;

}  // namespace

std::uint64_t OutputLengths::kind_of(const GenCall& call) {
  std::uint64_t kind = static_cast<std::uint64_t>(call.sampling.max_new_tokens.value_or(-1));
  const auto mix = [&](std::uint64_t more) { kind = (kind ^ more) * 0x9e3779b97f4a7c15u + (kind >> 29); };
  for (const std::string& stop : call.sampling.stop) mix(std::hash<std::string_view>{}(stop));
  mix(static_cast<std::uint64_t>(call.constraint.kind));
  mix(std::hash<std::string_view>{}(call.constraint.text));
  return kind;
}

int OutputLengths::expected(std::uint64_t kind) const {
  const std::lock_guard lock(mutex_);
  const auto found = kinds_.find(kind);
  if (found == kinds_.end() || found->second.times < kLeastSeen) return 0;
  return static_cast<int>(std::ceil(found->second.mean + found->second.deviation));
}

void OutputLengths::saw(std::uint64_t kind, int tokens) {
  const std::lock_guard lock(mutex_);
  if (kinds_.size() >= kMostKinds && !kinds_.contains(kind)) kinds_.clear();  // a program has a few of them
  Seen& seen = kinds_[kind];
  if (++seen.times == 1) seen.mean = tokens;
  const double off = tokens - seen.mean;
  seen.mean += off / 8;
  seen.deviation += (std::abs(off) - seen.deviation) / 8;
}

}  // namespace espalier::lang
