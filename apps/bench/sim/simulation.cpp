#include "bench/sim/simulation.h"

#include <algorithm>
#include <ctime>

namespace espalier::bench {
namespace {

constexpr int kUnlimitedPool = 1 << 29;

double processor_seconds() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// Rounds of the workload that items in flight can belong to; stragglers beyond them lose what only the ideal knows.
std::size_t rounds_in_flight(std::size_t concurrency, std::size_t items) {
  return 2 + 4 * (std::min<std::size_t>(concurrency, 1 << 20) / std::max<std::size_t>(items, 1) + 1);
}

double share(std::int64_t part, std::int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0;
}

}  // namespace

SimWorkload::SimWorkload(Workload workload, const PromptEncoder& encoder, std::uint64_t seed)
    : workload_(std::move(workload)), encoder_(encoder), answers_(encoder), prompts_(workload_.items.size()) {
  std::int64_t answers = 0;
  for (std::size_t i = 0; i < workload_.items.size(); ++i) {
    auto* request = std::get_if<RequestWork>(&workload_.items[i].work);
    if (!request) continue;
    prompts_[i] = encoder.encode(request->call.prompt, workload_.items[i].shared);
    request->call.prompt = std::vector<TokenId>();  // kept once
  }
  SimSettings settings;
  settings.transport.fleet.server.pool_tokens = kUnlimitedPool;
  settings.transport.seed = seed;
  settings.transport.fleet.server.core.policy = SchedulePolicy::fcfs;
  settings.transport.fleet.server.core.end_tokens = {PromptEncoder::end_token};
  settings.transport.on_call = [&](const SimCall& call) { answers += call.output_tokens; };
  settings.pace.max_concurrency = 64;
  SimTransport transport(workload_, prompts_, encoder_, answers_, settings.transport);
  conduct(workload_, transport, {}, settings.pace, {{}, {}, false});
  longest_ = transport.counts().longest;
  working_set_ = transport.working_set() + (workload_.programs ? 0 : answers);
}

double SimReport::hit_rate() const {
  return share(counts.cached_tokens, counts.prompt_tokens);
}
double SimReport::ideal_hit_rate() const {
  return share(counts.ideal_tokens, counts.prompt_tokens);
}

SimReport simulate(const SimWorkload& w, const SimSettings& settings, const std::function<bool()>& interrupted) {
  const double before = processor_seconds();
  SimTransport::Settings with_rounds = settings.transport;
  with_rounds.kept_rounds = rounds_in_flight(settings.pace.max_concurrency, w.workload().items.size());
  with_rounds.fleet.server.core.end_tokens = {PromptEncoder::end_token};
  SimTransport transport(w.workload(), w.prompts(), w.encoder(), w.answers(), with_rounds);
  const RunResult run = conduct(w.workload(), transport, {}, settings.pace, {{}, interrupted, false});
  SimReport r;
  r.counts = transport.counts();
  r.wait = summarise(std::exchange(r.counts.waits, {}));
  r.ttft = summarise(std::exchange(r.counts.first_tokens, {}));
  r.e2e = summarise(std::exchange(r.counts.ends, {}));
  r.duration = run.seconds();
  r.items = run.ended;
  const Fleet& fleet = transport.fleet();
  std::int64_t read_tokens = 0, read_extents = 0;
  const auto add = [](std::int64_t& to, const Counter& counter) { to += static_cast<std::int64_t>(counter.value()); };
  for (int i = 0; i < fleet.servers(); ++i) {
    const EngineMetrics& m = fleet.server(i).metrics();
    r.busy_of.push_back(fleet.server(i).busy_seconds());
    add(r.steps, m.steps);
    add(r.retractions, m.preemptions);
    add(r.retracted_tokens, m.retracted_tokens);
    add(r.evicted_tokens, m.evicted_tokens);
    add(r.computed_tokens, m.computed_tokens);
    add(read_tokens, m.read_tokens);
    add(read_extents, m.read_extents);
  }
  r.tokens_per_extent = share(read_tokens, read_extents);
  r.traffic = fleet.traffic();
  r.calls_of.assign(fleet.calls_of().begin(), fleet.calls_of().end());
  r.host_seconds = processor_seconds() - before;
  return r;
}

}  // namespace espalier::bench
