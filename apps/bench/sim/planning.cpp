#include "bench/sim/planning.h"

#include <algorithm>
#include <ctime>

#include "bench/load/random.h"

namespace espalier::bench {
namespace {

// The processor's time of this thread: what others on the machine do does not count.
struct HostClock {
  static double now() {
    timespec t{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
  }
};

constexpr int kGroups = 57, kSharedTokens = 500, kOwnTokens = 120;  // as MMLU's five shots have them
constexpr int kSteps = 400, kWarmUp = 20;
constexpr int kPool = 1 << 17;

// Takes no time, so that what is left of a step is the scheduler's.
class StoppedModel final : public StepRunner {
 public:
  std::vector<espalier::Outcome> run(const StepPlan& plan) override {
    planned = HostClock::now();
    std::vector<espalier::Outcome> outcomes(plan.rows.size());
    for (std::size_t i = 0; i < outcomes.size(); ++i) outcomes[i].token = static_cast<TokenId>(++token_ % 1000);
    done = HostClock::now();
    return outcomes;
  }
  void copy(const ExtentList&, const ExtentList&) override {}
  double planned = 0, done = 0;

 private:
  unsigned token_ = 0;
};

std::vector<TokenId> ids(Random& random, int count) {
  std::vector<TokenId> out;
  for (int i = 0; i < count; ++i) out.push_back(static_cast<TokenId>(random.below(30'000)));
  return out;
}

class Fixture {
 public:
  explicit Fixture(CoreOptions options) : core(std::move(options), model_, kPool, metrics_), random_(7) {
    for (int i = 0; i < kGroups; ++i) groups_.push_back(ids(random_, kSharedTokens));
  }

  void add(int count) {
    for (int i = 0; i < count; ++i) {
      RequestFields fields;
      fields.id = "-";
      fields.prompt = groups_[random_.below(kGroups)];
      for (const TokenId id : ids(random_, kOwnTokens)) fields.prompt.push_back(id);
      fields.sampling.max_new_tokens = static_cast<int>(random_.between(32, 256));
      fields.sampling.ignore_eos = true;
      fields.sampling.temperature = 0;
      fields.sampling.seed = 1;
      const ModelLimits limits{30'000, 1 << 20, kPool, true, 0};
      auto request = std::make_shared<const Request>(Request::make(std::move(fields), limits).value());
      core.add({request, std::make_shared<StreamChannel>(request->id(), 1, [] {})});
    }
  }

  // So many run or wait again.
  void fill(int count) {
    const EngineStatus now = core.status();
    add(std::max(0, count - now.running - now.waiting));
  }

  struct Cost {
    double plan = 0, step = 0;
  };
  Cost step() {
    const double start = HostClock::now();
    core.step();
    const double end = HostClock::now();
    return {model_.planned - start, end - start - (model_.done - model_.planned)};
  }

 private:
  StoppedModel model_;
  EngineMetrics metrics_;

 public:
  EngineCore core;

 private:
  Random random_;
  std::vector<std::vector<TokenId>> groups_;
};

}  // namespace

PlanningCosts measure_planning(SchedulePolicy policy, EvictionKind eviction, int waiting, int running) {
  CoreOptions options;
  options.policy = policy;
  options.eviction = eviction;
  options.max_running = running;
  Fixture fixture(options);
  fixture.add(running);
  while (fixture.core.status().waiting > 0) fixture.step();
  fixture.add(waiting);
  PlanningCosts costs;
  costs.waiting = waiting;
  costs.first_plan = fixture.step().plan;
  for (int i = 0; i < kWarmUp; ++i) {
    fixture.step();
    fixture.fill(running + waiting);
  }
  std::vector<double> plans, steps;
  for (int i = 0; i < kSteps; ++i) {
    const auto cost = fixture.step();
    plans.push_back(cost.plan);
    steps.push_back(cost.step);
    fixture.fill(running + waiting);
  }
  costs.plan = summarise(plans);
  costs.step = summarise(steps);
  return costs;
}

}  // namespace espalier::bench
