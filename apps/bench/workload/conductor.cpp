#include "bench/workload/conductor.h"

#include <algorithm>
#include <cmath>
#include <memory>

namespace espalier::bench {
namespace {

constexpr double kProgressSeconds = 0.25;

std::vector<double> due_times(const Workload& workload, const Pace& pace) {
  const std::size_t count = pace.items > 0 ? pace.items : workload.items.size();
  if (!pace.recorded_arrivals) return arrival_times(count, pace.arrivals);
  const double speed = std::isinf(pace.arrivals.rate) ? 1 : pace.arrivals.rate;
  double last = 0;
  for (const Item& item : workload.items) last = std::max(last, item.arrival.value_or(0));
  std::vector<double> times;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t size = workload.items.size();
    const std::size_t round = i / size;
    times.push_back((static_cast<double>(round) * last + workload.items[i % size].arrival.value_or(0)) / speed);
  }
  return times;
}

class Conductor {
 public:
  Conductor(const Workload& workload, Transport& transport, const CallPolicy& policy, const Pace& pace,
            const RunHooks& hooks)
      : workload_(workload),
        transport_(transport),
        hooks_(hooks),
        caller_(transport, policy, result_.journal),
        due_(due_times(workload, pace)),
        room_(workload.serial ? 1 : std::max<std::size_t>(pace.max_concurrency, 1)) {
    order_.resize(due_.size());
    for (std::size_t i = 0; i < order_.size(); ++i) order_[i] = i;
    if (!workload.serial)
      std::stable_sort(order_.begin(), order_.end(), [&](std::size_t a, std::size_t b) { return due_[a] < due_[b]; });
    result_.journal.kept = hooks.keep_results;
    if (hooks.keep_results) result_.items.resize(due_.size());
  }

  RunResult run() {
    result_.began = transport_.now();
    while (result_.ended < order_.size() && !result_.interrupted) {
      start_due_items();
      if (result_.ended == order_.size()) break;
      transport_.run(next_event());
      finished_.clear();
      tell();
    }
    result_.finished = transport_.now();
    return std::move(result_);
  }

 private:
  double elapsed() const { return transport_.now() - result_.began; }

  void start_due_items() {
    while (started_ < order_.size() && in_flight_ < room_ && due_[order_[started_]] <= elapsed())
      start(order_[started_++]);
    finished_.clear();
  }

  void start(std::size_t number) {
    ++in_flight_;
    const Item& item = workload_.items[number % workload_.items.size()];
    if (const auto* program = std::get_if<Program>(&item.work)) {
      auto run = std::make_unique<ProgramRun>(*program, number, caller_,
                                              [this, number](ItemResult result) { end(number, std::move(result)); });
      ProgramRun& started = *(running_[number] = std::move(run));
      return started.start();
    }
    const auto& request = std::get<RequestWork>(item.work);
    if (request.choices.empty()) {
      caller_.generate(number, request.call,
                       [this, number](bool ok, const std::string& text) { end(number, {ok, {text}}); });
    } else {
      caller_.select(number, request.call, request.choices, [this, number, &request](bool ok, std::size_t choice) {
        end(number, {ok, {request.choices[choice]}});
      });
    }
  }

  void end(std::size_t number, ItemResult result) {
    if (hooks_.keep_results) result_.items[number] = std::move(result);
    ++result_.ended;
    --in_flight_;
    if (auto run = running_.extract(number)) finished_.push_back(std::move(run.mapped()));  // it is still on the stack
  }

  double next_event() const {
    double until = transport_.now() + kProgressSeconds;
    if (started_ < order_.size() && in_flight_ < room_) until = std::min(until, result_.began + due_[order_[started_]]);
    return until;
  }

  void tell() {
    if (hooks_.interrupted && hooks_.interrupted()) result_.interrupted = true;
    if (!hooks_.on_progress || transport_.now() < next_tell_) return;
    next_tell_ = transport_.now() + kProgressSeconds;
    hooks_.on_progress({order_.size(), started_, result_.ended, elapsed()});
  }

  const Workload& workload_;
  Transport& transport_;
  const RunHooks& hooks_;
  RunResult result_;
  Caller caller_;
  const std::vector<double> due_;
  const std::size_t room_;
  std::vector<std::size_t> order_;
  std::size_t started_ = 0, in_flight_ = 0;
  std::map<std::size_t, std::unique_ptr<ProgramRun>> running_;
  std::vector<std::unique_ptr<ProgramRun>> finished_;
  double next_tell_ = 0;
};

}  // namespace

RunResult conduct(const Workload& workload, Transport& transport, const CallPolicy& policy, const Pace& pace,
                  const RunHooks& hooks) {
  return Conductor(workload, transport, policy, pace, hooks).run();
}

Accuracy accuracy_of(const Workload& workload, const RunResult& result) {
  Accuracy accuracy;
  for (std::size_t i = 0; i < workload.items.size(); ++i) {
    const auto& outputs = result.items[i].outputs;
    if (!result.items[i].ok || outputs.empty()) continue;
    const auto right = is_answer(workload.items[i].answer, outputs.back());
    accuracy.checked += right.has_value();
    accuracy.right += right.value_or(false);
  }
  return accuracy;
}

}  // namespace espalier::bench
