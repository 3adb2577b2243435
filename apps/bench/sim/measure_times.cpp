#include "bench/sim/measure_times.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>

#include "bench/load/random.h"
#include "bench/load/statistics.h"
#include "engine/engine_options.h"
#include "engine/load/loaded_model.h"
#include "engine/run/model_runner.h"
#include "engine/step/engine_core.h"

namespace espalier::bench {
namespace {

constexpr int kRunning = 64;

class ObservedRunner final : public StepRunner {
 public:
  // alone: one thread computes, so the processor's time is what it takes, whatever others do beside it.
  ObservedRunner(StepRunner& runner, bool alone) : runner_(runner), alone_(alone) {}
  std::vector<espalier::Outcome> run(const StepPlan& plan) override {
    const StepWork work = StepWork::of(plan);
    const double start = now();
    auto outcomes = runner_.run(plan);
    steps.push_back({work, now() - start});
    return outcomes;
  }
  void copy(const ExtentList& from, const ExtentList& to) override { runner_.copy(from, to); }
  std::vector<ObservedStep> steps;

 private:
  double now() const {
    timespec t{};
    clock_gettime(alone_ ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
  }

  StepRunner& runner_;
  const bool alone_;
};

struct Load {
  int requests, prompt, output;
};
// Prompts alone, decoding of batches small and large, on short and long contexts.
constexpr Load kLoads[] = {{1, 16, 8},   {1, 1024, 16}, {1, 2000, 16}, {4, 300, 24},
                           {16, 64, 32}, {16, 500, 24}, {64, 48, 32},  {64, 150, 24}};

Result<> run_load(EngineCore& core, const ModelLimits& limits, const Load& load, Random& random) {
  for (int i = 0; i < load.requests; ++i) {
    RequestFields fields;
    const int length = std::min(load.prompt, limits.context_length - load.output - 1);
    for (int t = 0; t < length; ++t)
      fields.prompt.push_back(static_cast<TokenId>(random.below(static_cast<std::uint64_t>(limits.vocabulary))));
    fields.sampling.max_new_tokens = load.output;
    fields.sampling.ignore_eos = true;
    fields.sampling.temperature = 0;
    ESP_TRY(Request request, Request::make(std::move(fields), limits));
    auto shared = std::make_shared<const Request>(std::move(request));
    core.add({shared, std::make_shared<StreamChannel>(shared->id(), 1, [] {})});
  }
  while (core.step()) continue;
  core.flush_cache();
  return success();
}

}  // namespace

// Coordinate descent: each coefficient in turn is set to its best value for the others', or to 0.
MeasuredTimes fit_times(const std::vector<ObservedStep>& steps) {
  std::array<double, 4> x{};
  const auto terms = [](const ObservedStep& s) {
    const std::array<double, 4> all = {1, s.work.prompt_rows, s.work.decode_rows, s.work.pairs};
    std::array<double, 4> relative{};
    for (std::size_t i = 0; i < 4; ++i) relative[i] = all[i] / s.seconds;
    return relative;
  };
  std::array<std::array<double, 4>, 4> square{};
  std::array<double, 4> right{};
  for (const ObservedStep& s : steps) {
    const auto t = terms(s);
    for (std::size_t i = 0; i < 4; ++i) {
      right[i] += t[i];
      for (std::size_t j = 0; j < 4; ++j) square[i][j] += t[i] * t[j];
    }
  }
  for (int round = 0; round < 20'000; ++round)
    for (std::size_t i = 0; i < 4; ++i) {
      double rest = right[i];
      for (std::size_t j = 0; j < 4; ++j)
        if (j != i) rest -= square[i][j] * x[j];
      x[i] = square[i][i] > 0 ? std::max(0.0, rest / square[i][i]) : 0;
    }
  MeasuredTimes m;
  m.times = {x[0], x[1], x[2], x[3], {}};
  m.steps = steps.size();
  std::vector<double> errors, full;
  for (const ObservedStep& s : steps) {
    errors.push_back(std::abs(s.work.seconds(m.times) / s.seconds - 1));
    if (s.work.decode_rows == kRunning && s.work.prompt_rows == 0) full.push_back(s.seconds);
  }
  m.median_error = summarise(errors).median;
  m.step_of_64 = summarise(full).median;
  return m;
}

Result<MeasuredTimes> measure_times(const EngineOptions& options) {
  ESP_TRY(const EngineChoices chosen, choices_of(options));
  ESP_TRY(const ModelFiles files, open_model_files(options));
  ComputeTeam team(chosen.threads);
  CoreOptions core_options;
  core_options.max_running = kRunning;
  const Weights weights(*files.weights, files.naming);
  const DecoderOptions decoder_options{chosen.activations, core_options.prefill_chunk + kRunning};
  ESP_TRY(const auto decoder, Decoder::load(files.config.spec, weights, decoder_options, team));
  constexpr int kPool = 16384;
  ESP_TRY(KvPools kv, KvPools::allocate({decoder->keeps().per_token, chosen.kv}, kPool));
  EngineMetrics metrics;
  ModelRunner runner(*decoder, kv, nullptr, team, {}, metrics);
  ObservedRunner observed(runner, chosen.threads == 1);
  EngineCore core(core_options, observed, kPool, metrics);
  const int context = static_cast<int>(std::min<std::int64_t>(files.config.context_length, kPool));
  const ModelLimits limits{files.config.vocabulary, context, kPool, false, 0};
  Random random(1);
  ESP_CHECK(run_load(core, limits, kLoads[0], random));  // pages are touched, processors awake
  observed.steps.clear();
  for (const Load& load : kLoads) ESP_CHECK(run_load(core, limits, load, random));
  return fit_times(observed.steps);
}

}  // namespace espalier::bench
