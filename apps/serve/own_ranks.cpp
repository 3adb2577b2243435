#include "serve/own_ranks.h"

#include <fmt/format.h>

#include <cstdlib>

#include "ranks/group.h"

namespace espalier::serve {
namespace {

// What others than the one model of a group are is not told to its ranks.
Result<> check_models(const ServeOptions& options) {
  if (options.models.size() > 1)
    return bad_request(fmt::format("there are {} ranks, but --model names {} models: several ranks serve one model",
                                   options.ranks.of_group().tp_size, options.models.size()),
                       "model");
  if (options.allow_pull)
    return bad_request(
        "--allow-pull serves several models, and --tp-size more than 1 serves one: leave one of them out",
        "allow_pull");
  return success();
}

}  // namespace

Result<std::unique_ptr<OwnRanks>> OwnRanks::take(const ServeOptions& options,
                                                 const std::vector<std::string>& arguments) {
  auto own = std::make_unique<OwnRanks>();
  ESP_TRY(own->plan_, ranks::rank_plan(options.ranks.of_group(), ranks::own_environment()));
  own->start_seconds_ = options.ranks.start_seconds;
  if (own->plan_.alone()) return own;
  ESP_CHECK(check_models(options));
  if (own->plan_.segment_fd >= 0) ESP_CHECK(ranks::follow_parent(own->plan_));
  ESP_TRY(own->started_, ranks::start_ranks(own->plan_, arguments));
  return own;
}

void OwnRanks::give_to(EngineOptions& engine) {
  if (plan_.alone()) return;
  engine.local_rank = plan_.local_rank;
  engine.local_ranks = plan_.local_size;
  engine.host_rank = plan_.host_rank;
  engine.host_ranks = plan_.host_size;
  engine.join_ranks = [this](const std::string& key) { return join(key); };
}

Result<std::shared_ptr<ranks::Collective>> OwnRanks::join(const std::string& key) {
  if (joined_.exchange(true))
    return Error{Error::Kind::unavailable,
                 "the model's ranks have ended with its first engine; start the server again",
                 "model",
                 {}};
  ranks::GroupOptions options;
  options.key = key;
  options.start_limit = std::chrono::milliseconds(static_cast<std::int64_t>(1000 * start_seconds_));
  if (const char* secret = std::getenv(ranks::kSecretVariable)) options.secret = secret;
  ESP_TRY(std::unique_ptr<ranks::Collective> group, ranks::join_group(plan_, started_, options));
  return std::shared_ptr<ranks::Collective>(std::move(group));
}

}  // namespace espalier::serve
