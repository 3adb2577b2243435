#include "bench/fleet/day.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <ctime>
#include <numbers>
#include <thread>

namespace espalier::bench {
namespace {

constexpr double kDay = 86'400;

double thread_seconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// One window: sessions, the fleet, and what is counted of both.
class Window {
 public:
  Window(const DaySettings& settings, double rate)
      : settings_(settings),
        sessions_(settings.sessions, rate, settings.seed),
        fleet_(settings.fleet, [this](const FleetEnd& end) { ended(end); }),
        start_(fleet_.now()) {
    report_.rate = rate;
    report_.seconds = settings.window;
    report_.server_seconds = settings.window * fleet_.servers();
    sessions_.for_each_begun([this](const Sessions::Turn& turn) { fleet_.remember(*turn.request, turn.client); });
    fleet_.forget_loads();
    fleet_.watch().from = at(settings.warm_up);
    fleet_.watch().until = at(settings.warm_up + settings.window);
  }

  WindowReport run(const std::function<bool()>& interrupted) {
    const double before = thread_seconds();
    run_until(settings_.warm_up, interrupted);
    counts_ = true;
    fleet_.catch_up();
    const FleetTraffic at_start = fleet_.traffic();
    const double computed = computed_tokens();
    run_until(settings_.warm_up + settings_.window, interrupted);
    fleet_.catch_up();
    report_.computed_tokens = computed_tokens() - computed;
    report_.traffic = fleet_.traffic();
    report_.traffic.remote_read -= at_start.remote_read;
    report_.traffic.remote_written -= at_start.remote_written;
    report_.traffic.streamed -= at_start.streamed;
    report_.steps = fleet_.watch().shares;
    report_.gaps = fleet_.watch().gaps;
    const auto [least, most] = std::ranges::minmax(fleet_.calls_of());
    report_.least_calls = least;
    report_.most_calls = most;
    report_.host_seconds = thread_seconds() - before;
    return report_;
  }

 private:
  std::int64_t at(double seconds) const { return start_ + std::llround(1e9 * seconds); }
  double now() const { return 1e-9 * static_cast<double>(fleet_.now() - start_); }

  void run_until(double end, const std::function<bool()>& interrupted) {
    const std::int64_t last = at(end);
    for (int turn = 0; fleet_.now() < last; ++turn) {
      if (turn % 4096 == 0 && interrupted && interrupted()) return;
      const std::int64_t due = std::min(last, at(sessions_.next_due()));
      if (due > fleet_.now()) fleet_.run(due);
      while (at(sessions_.next_due()) <= fleet_.now() && fleet_.now() < last) {
        Sessions::Turn turn_of = sessions_.take();
        report_.sent += counts_;
        fleet_.send(std::move(turn_of.request), turn_of.client, turn_of.session);
      }
    }
  }

  void ended(const FleetEnd& end) {
    sessions_.ended(end.tag, now());
    if (!counts_) return;
    ++report_.calls;
    report_.failed += !end.ok;
    report_.prompt_tokens += end.prompt_tokens;
    report_.cached_tokens += end.cached_tokens;
    report_.brought_tokens += end.brought_tokens;
    report_.output_tokens += end.output_tokens;
    report_.wait.add(end.queued);
    report_.first_token.add(end.first_token);
    report_.finished.add(end.finished);
  }

  double computed_tokens() const {
    double all = 0;
    for (int i = 0; i < fleet_.servers(); ++i)
      all += static_cast<double>(fleet_.server(i).metrics().computed_tokens.value());
    return all;
  }

  const DaySettings& settings_;
  Sessions sessions_;
  Fleet fleet_;
  const std::int64_t start_;
  bool counts_ = false;
  WindowReport report_;
};

}  // namespace

void WindowReport::add(const WindowReport& other, double weight) {
  for (double WindowReport::* field :
       {&WindowReport::rate, &WindowReport::seconds, &WindowReport::calls, &WindowReport::sent, &WindowReport::failed,
        &WindowReport::prompt_tokens, &WindowReport::cached_tokens, &WindowReport::brought_tokens,
        &WindowReport::output_tokens, &WindowReport::computed_tokens, &WindowReport::server_seconds})
    this->*field += weight * (other.*field);
  for (QuantileSketch WindowReport::* sketch :
       {&WindowReport::wait, &WindowReport::first_token, &WindowReport::gaps, &WindowReport::finished})
    (this->*sketch).add(other.*sketch, weight);
  for (double StepShares::* field : {&StepShares::base, &StepShares::prompts, &StepShares::decoding,
                                     &StepShares::attention, &StepShares::gathers, &StepShares::gathered_bytes})
    steps.*field += weight * (other.steps.*field);
  for (double FleetTraffic::* field :
       {&FleetTraffic::ranks, &FleetTraffic::remote_read, &FleetTraffic::remote_written, &FleetTraffic::streamed})
    traffic.*field += weight * (other.traffic.*field);
  host_seconds += other.host_seconds;
}

std::vector<double> levels_of_day(double requests_per_day, double swing, int levels) {
  std::vector<double> rates;
  for (int i = 0; i < levels; ++i)
    rates.push_back(requests_per_day / kDay * (1 + swing * std::cos(std::numbers::pi * (i + 0.5) / levels)));
  return rates;
}

WindowReport simulate_window(const DaySettings& settings, double rate, const std::function<bool()>& interrupted) {
  return Window(settings, rate).run(interrupted);
}

DayReport simulate_day(const DaySettings& settings, const std::function<bool()>& interrupted) {
  const std::vector<double> rates = levels_of_day(settings.requests_per_day, settings.swing, settings.levels);
  DayReport report;
  report.levels.resize(rates.size());
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i = next++; i < rates.size(); i = next++)
      report.levels[i] = simulate_window(settings, rates[i], interrupted);
  };
  std::vector<std::jthread> others;
  for (int i = 1; i < std::min(settings.jobs, settings.levels); ++i) others.emplace_back(work);
  work();
  others.clear();  // waits for them
  const double weight = 1.0 / static_cast<double>(rates.size());
  for (const WindowReport& level : report.levels) report.day.add(level, weight);
  return report;
}

}  // namespace espalier::bench
