#include "engine/memory/remote_cache.h"

#include <fmt/format.h>

#include <fstream>
#include <utility>

#include "cache/remote/redis_blocks.h"

namespace espalier {
namespace {

// Its first line.
Result<std::string> line_of(const std::string& path, std::string_view flag) {
  std::ifstream file(path);
  std::string line;
  if (!file || !std::getline(file, line) || line.empty())
    return bad_request(fmt::format("--{} names {}, which has no first line that could be read", flag, path),
                       std::string(flag));
  if (line.back() == '\r') line.pop_back();
  return line;
}

Result<RemotePolicy> policy_of(const std::string& word) {
  constexpr std::pair<std::string_view, RemotePolicy> kPolicies[] = {
      {"write_through", RemotePolicy::write_through},
      {"write_through_selective", RemotePolicy::write_through_selective},
      {"write_back", RemotePolicy::write_back},
  };
  for (const auto& [known, policy] : kPolicies)
    if (word == known) return policy;
  return bad_request(
      fmt::format("--cache-remote-policy is {}; it may be write_through, write_through_selective or write_back", word),
      "cache_remote_policy");
}

// Also in SGLang's words (--hicache-storage-prefetch-policy).
Result<bool> weighs_of(const std::string& word) {
  if (word == "measured" || word == "timeout" || word == "best_effort") return true;
  if (word == "always" || word == "wait_complete") return false;
  return bad_request(fmt::format("--cache-remote-reads is {}; it may be measured or always", word),
                     "cache_remote_reads");
}

}  // namespace

Result<std::optional<RemoteWish>> remote_wish(const EngineOptions& o) {
  RemoteWish wish;
  ESP_TRY(wish.policy, policy_of(o.cache_remote_policy));
  ESP_TRY(wish.weighs, weighs_of(o.cache_remote_reads));
  if (o.cache_remote.empty()) return std::optional<RemoteWish>();
  ESP_TRY(wish.address, parse_redis_address(o.cache_remote));
  if (!o.cache_remote_password_file.empty()) {
    ESP_TRY(wish.address.password, line_of(o.cache_remote_password_file, "cache-remote-password-file"));
  }
  if (!o.cache_remote_secret_file.empty()) {
    ESP_TRY(wish.secret, line_of(o.cache_remote_secret_file, "cache-remote-secret-file"));
  }
  return std::optional<RemoteWish>(std::move(wish));
}

std::unique_ptr<RemoteTier> open_remote_tier(const RemoteWish& wish, const EngineOptions& options, RemoteParts parts,
                                             RemoteTierCounters& counters) {
  RemoteTierOptions tier;
  tier.shown = wish.address.shown();
  tier.namer = BlockNamer(parts.key, wish.secret);
  tier.stride = parts.stride;
  tier.weighs = wish.weighs;
  tier.wake = std::move(parts.wake);
  tier.pin = std::move(parts.pin);
  const RedisBlocksOptions blocks{
      wish.address, options.cache_remote_prefix, options.cache_remote_seconds, tier.namer.model(), parts.stride,
      tier.stop};
  tier.open = [blocks] { return std::make_unique<RedisBlocks>(blocks); };
  return std::make_unique<RemoteTier>(std::move(tier), counters);
}

}  // namespace espalier
