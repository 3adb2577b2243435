#include "engine/memory/remote_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <fstream>
#include <utility>

#include "cache/peers/peer_source.h"
#include "cache/remote/redis_blocks.h"
#include "cache/remote/source_group.h"

namespace espalier {
namespace {

constexpr int kPiecesOfPrompts = 64, kPiecesBesideOutput = 2;  // given between two steps, of 4 MB each

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

// "a:1,b:2": addresses of others.
Result<std::vector<HostAndPort>> peers_of(const std::string& list) {
  std::vector<HostAndPort> peers;
  for (std::string_view rest = list; !rest.empty();) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    ESP_TRY(HostAndPort peer, read_address(rest.substr(0, comma), "peers"));
    peers.push_back(std::move(peer));
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  return peers;
}

Result<> read_roles(const EngineOptions& o, RemoteWish& wish) {
  constexpr std::string_view kModes[] = {"null", "prefill", "decode"};
  if (std::ranges::find(kModes, o.disaggregation_mode) == std::end(kModes))
    return bad_request(
        fmt::format("--disaggregation-mode is {}; it may be null, prefill or decode", o.disaggregation_mode),
        "disaggregation_mode");
  ESP_TRY(wish.peers, peers_of(o.peers));
  wish.pulls = o.disaggregation_mode == "decode";
  wish.only_prompts = o.disaggregation_mode == "prefill";
  if (wish.only_prompts || o.peer_port != 0)
    wish.listen =
        HostAndPort{o.peer_host, static_cast<std::uint16_t>(wish.only_prompts ? o.disaggregation_port : o.peer_port)};
  return success();
}

// One of those who have blocks, and how it is named in the log.
struct OpenSource {
  std::string shown;
  std::function<std::unique_ptr<BlockSource>()> open;
};

std::vector<OpenSource> each_source(const RemoteWish& wish, const EngineOptions& options,
                                    const RemoteTierOptions& tier) {
  std::vector<OpenSource> all;
  if (wish.address) {
    const RedisBlocksOptions blocks{
        *wish.address, options.cache_remote_prefix, options.cache_remote_seconds, tier.namer.model(), tier.stride,
        tier.stop};
    all.push_back({wish.address->shown(), [blocks] { return std::make_unique<RedisBlocks>(blocks); }});
  }
  for (const HostAndPort& peer : wish.peers)
    all.push_back({describe(peer), [peer, us = PeerIdentity{tier.namer, tier.stride}, stop = tier.stop] {
                     return std::make_unique<PeerSource>(peer, us, stop);
                   }});
  return all;
}

// All of them as one, for each thread; whether each answers is known to all threads.
std::function<std::unique_ptr<BlockSource>()> one_source(std::vector<OpenSource> all) {
  if (all.size() == 1) return all.front().open;
  auto gauges = std::make_shared<std::deque<Gauge>>();
  std::vector<std::shared_ptr<RemoteHealth>> health;
  for (const OpenSource& each : all)
    health.push_back(std::make_shared<RemoteHealth>(each.shown, gauges->emplace_back()));
  return [all = std::move(all), gauges, health, choices = std::make_shared<SharedChoices>()] {
    std::vector<SourceGroup::Member> members;
    for (std::size_t i = 0; i < all.size(); ++i) members.push_back({all[i].open(), health[i]});
    return std::make_unique<SourceGroup>(std::move(members), choices);
  };
}

std::string names_of(const std::vector<OpenSource>& all) {
  std::string names;
  for (const OpenSource& each : all) names += (names.empty() ? "" : ", ") + each.shown;
  return names;
}

}  // namespace

Result<std::optional<RemoteWish>> remote_wish(const EngineOptions& o) {
  RemoteWish wish;
  ESP_TRY(wish.policy, policy_of(o.cache_remote_policy));
  ESP_TRY(wish.weighs, weighs_of(o.cache_remote_reads));
  ESP_CHECK(read_roles(o, wish));
  if (!o.cache_remote.empty()) {
    ESP_TRY(wish.address, parse_redis_address(o.cache_remote));
    if (!o.cache_remote_password_file.empty()) {
      ESP_TRY(wish.address->password, line_of(o.cache_remote_password_file, "cache-remote-password-file"));
    }
  } else {
    wish.policy = RemotePolicy::never;
  }
  if (!shares_prefixes(o)) return std::optional<RemoteWish>();
  if (!o.cache_remote_secret_file.empty()) {
    ESP_TRY(wish.secret, line_of(o.cache_remote_secret_file, "cache-remote-secret-file"));
  }
  return std::optional<RemoteWish>(std::move(wish));
}

bool shares_prefixes(const EngineOptions& o) {
  return !o.cache_remote.empty() || !o.peers.empty() || o.peer_port != 0 || o.disaggregation_mode != "null";
}

std::unique_ptr<RemoteTier> open_remote_tier(const RemoteWish& wish, const EngineOptions& options, RemoteParts parts,
                                             RemoteTierCounters& counters) {
  RemoteTierOptions tier;
  tier.namer = BlockNamer(parts.key, wish.secret);
  tier.stride = parts.stride;
  tier.weighs = wish.weighs;
  tier.wake = std::move(parts.wake);
  tier.pin = std::move(parts.pin);
  std::vector<OpenSource> all = each_source(wish, options, tier);
  tier.shown = names_of(all);
  tier.open = one_source(std::move(all));
  return std::make_unique<RemoteTier>(std::move(tier), counters);
}

Result<PeerParts> open_peers(const RemoteWish& wish, const EngineOptions& options, RemoteParts parts,
                             PeerCounters& counters) {
  PeerParts peers;
  const PeerIdentity us{BlockNamer(parts.key, wish.secret), parts.stride};
  if (wish.listen) {
    ESP_TRY(peers.listener, PeerListener::open({*wish.listen, us, std::move(parts.wake), std::move(parts.pin),
                                                wish.only_prompts ? "disaggregation-bootstrap-port" : "peer-port"},
                                               counters));
    peers.pieces_a_step = wish.only_prompts ? kPiecesOfPrompts : kPiecesBesideOutput;
    peers.description = fmt::format(
        "{} at {}", wish.only_prompts ? "prompts are computed for others, who ask for them" : "others ask for prefixes",
        describe({wish.listen->host, peers.listener->port()}));
  }
  if (wish.pulls) {
    peers.pulls = RoomPullsOptions{us, {}, options.disaggregation_port, options.disaggregation_seconds};
    if (wish.secret.empty()) peers.pulls->allowed = is_local;
    if (!peers.description.empty()) peers.description += "; ";
    peers.description += wish.secret.empty() ? "prompts come from servers of private networks"
                                             : "prompts come from servers that know the secret";
  }
  return peers;
}

}  // namespace espalier
