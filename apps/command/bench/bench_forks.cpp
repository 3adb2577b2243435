#include "command/bench/bench_forks.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <random>

#include "bench/load/statistics.h"
#include "command/bench/burst.h"
#include "command/bench/limits_probe.h"
#include "command/command.h"

namespace espalier::command {
namespace {

enum Way { kShared, kCopies, kAlone, kWays };
constexpr std::array<const char*, kWays> kNames = {"shared", "copies", "alone"};

// The same for every way but for what stands before it, and in which cache scope.
std::vector<RequestFields> requests_of(Way way, const ForksArguments& a, int output, int vocabulary) {
  std::mt19937_64 rng(1);
  const std::vector<TokenId> prefix = random_tokens(rng, a.prefix, vocabulary);
  std::vector<RequestFields> out;
  for (int i = 0; i < a.forks; ++i) {
    std::vector<TokenId> prompt;
    if (way != kAlone) prompt = prefix;
    std::ranges::copy(random_tokens(rng, a.own, vocabulary), std::back_inserter(prompt));
    out.push_back(endless(std::move(prompt), output));
    if (way == kCopies) out.back().scope = fmt::format("copy {}", i);
  }
  return out;
}

Result<> fits(const Engine& engine, const ForksArguments& a) {
  const std::int64_t one = std::int64_t{a.prefix} + a.own + a.output, all = a.forks * one + one;
  const ModelLimits& limits = engine.model().limits;
  if (one > limits.context_length)
    return bad_request(fmt::format("a sequence has {} tokens, but the context {}: lower --prefix-len or --output-len",
                                   one, limits.context_length),
                       "--prefix-len");
  if (all > limits.pool_tokens)
    return bad_request(fmt::format("{} copies need {} tokens, but the pool has {}: lower --forks, or raise "
                                   "--max-total-tokens",
                                   a.forks, all, limits.pool_tokens),
                       "--forks");
  return success();
}

// Puts the prompts of a way into the cache, one after another.
Result<> warm(Engine& engine, Way way, const ForksArguments& a) {
  int done = 0;
  const bool shown = isatty(STDERR_FILENO) != 0;
  for (RequestFields& fields : requests_of(way, a, 1, engine.model().limits.vocabulary)) {
    if (shown) fmt::print(stderr, "\r{}: prompt {} of {}   ", kNames[way], ++done, a.forks);
    ESP_CHECK(burst(engine, {std::move(fields)}));
  }
  if (shown) fmt::print(stderr, "\r{:40}\r", "");
  return success();
}

struct Results {
  std::array<std::vector<double>, kWays> rate;  // tokens a second, a round
  bool same = true;
};

Result<Results> measure(Engine& engine, const ForksArguments& a) {
  for (const Way way : {kShared, kCopies, kAlone}) ESP_CHECK(warm(engine, way, a));
  Results r;
  for (int round = 0; round < a.rounds; ++round) {
    std::array<Burst, kWays> of;
    for (int turn = 0; turn < kWays; ++turn) {
      const auto way = static_cast<Way>((round + turn) % kWays);  // nobody is always first
      ESP_TRY(of[way], burst(engine, requests_of(way, a, a.output, engine.model().limits.vocabulary)));
      r.rate[way].push_back(of[way].rates);
    }
    r.same = r.same && of[kShared].answers == of[kCopies].answers;
  }
  return r;
}

std::vector<double> ratios(const std::vector<double>& above, const std::vector<double>& below) {
  std::vector<double> out;
  for (std::size_t i = 0; i < above.size(); ++i) out.push_back(above[i] / below[i]);
  return out;
}

void print(const Results& r, bool json) {
  for (std::size_t way = 0; way < kWays; ++way) {
    const bench::Summary rate = bench::summarise(r.rate[way]),
                         ratio = bench::summarise(ratios(r.rate[kShared], r.rate[way]));
    fmt::print(fmt::runtime(json ? "{{\"way\":\"{}\",\"tokens_per_second\":{:.2f},\"shared_ratio\":{:.4f},\"least\":"
                                   "{:.4f},\"most\":{:.4f}}}\n"
                                 : "{:<7} {:>8.1f} tok/s   shared is {:.3f} of it ({:.3f} .. {:.3f})\n"),
               kNames[way], rate.median, ratio.median, ratio.least, ratio.most);
  }
}

}  // namespace

int bench_forks(const EngineOptions& options, const ForksArguments& a) {
  EngineOptions o = options;
  o.max_running = std::max(o.max_running, a.forks);
  o.max_queued = std::max(o.max_queued, a.forks);
  auto engine = Engine::open(std::move(o));
  if (!engine.ok()) return fail(engine.error());
  if (const auto fine = fits(**engine, a); !fine.ok()) return fail(fine.error());
  const ModelInfo& model = (*engine)->model();
  if (!a.json)
    fmt::print("{}: {}, activations {}, keys and values {}, {}; {} sequences, prefix {}, own {}, {} out\n", model.path,
               model.quantisation, model.activations, model.kv_type, computed_by(model), a.forks, a.prefix, a.own,
               a.output);
  auto results = measure(**engine, a);
  if (!results.ok()) return fail(results.error());
  print(*results, a.json);
  return results->same ? 0 : fail(internal_error("forks and copies gave different tokens, which must not be"));
}

}  // namespace espalier::command
