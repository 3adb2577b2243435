// What a pick costs: microseconds (of processor time) a row, for vocabularies and distributions a server meets.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <random>
#include <string>

#include "base/threads/thread_time.h"
#include "sampling/logprobs.h"
#include "sampling/measured_logits.h"
#include "sampling/noise.h"
#include "sampling/sampler.h"

namespace espalier {
namespace {

// Of this thread's processor time: what others run on the machine does not count.
double now_us() {
  return std::chrono::duration<double, std::micro>(thread_time()).count();
}

template <class F>
double microseconds(F&& f) {
  f();
  double best = 1e9;
  for (int round = 0; round < 5; ++round) {
    constexpr int calls = 40;
    double start = now_us();
    for (int i = 0; i < calls; ++i) f();
    best = std::min(best, (now_us() - start) / calls);
  }
  return best;
}

struct Case {
  std::string name;
  SamplingParams params;
  bool masked = false;
};

std::vector<Case> cases() {
  std::vector<Case> all(9);
  all[0].name = "greedy";
  all[0].params.temperature = 0;
  all[1].name = "plain";
  all[2].name = "top-k 40";
  all[2].params.top_k = 40;
  all[3].name = "top-p 0.9";
  all[3].params.top_p = 0.9;
  all[4].name = "min-p 0.05";
  all[4].params.min_p = 0.05;
  all[5].name = "all three + penalties (1,000 seen)";
  all[5].params.top_k = 40;
  all[5].params.top_p = 0.9;
  all[5].params.min_p = 0.05;
  all[5].params.repetition_penalty = 1.1;
  all[5].params.presence_penalty = 0.5;
  all[6].name = "top-k 2,000";
  all[6].params.top_k = 2000;
  all[7].name = "plain, mask allows half";
  all[7].masked = true;
  all[8].name = "top-p 0.9, mask allows half";
  all[8].params.top_p = 0.9;
  all[8].masked = true;
  return all;
}

void measure(int vocabulary, bool peaked) {
  std::fputs(fmt::format("\n{} logits, {}\n", vocabulary, peaked ? "peaked" : "flat").c_str(), stdout);
  std::vector<float> logits = measured_logits(vocabulary, peaked);
  TokenCounts counts;
  std::mt19937_64 random(9);
  for (int i = 0; i < 1000; ++i) counts.add_output(static_cast<TokenId>(random() % vocabulary));
  std::vector<std::uint32_t> mask((vocabulary + 31) / 32);
  for (auto& word : mask) word = static_cast<std::uint32_t>(random());
  Sampler sampler;
  std::uint64_t position = 0;
  for (const Case& c : cases()) {
    Noise noise(1);
    double us = microseconds([&] {
      PickInput in{logits, &c.params, &counts, {}, {}, noise.uniform(++position)};
      if (c.masked) in.mask = mask;
      if (!sampler.pick(in)) std::fputs("pick failed\n", stdout);
    });
    std::fputs(fmt::format("  {:<36}{:9.1f} us  {:6.1f} GB/s of logits\n", c.name, us, vocabulary * 4e-3 / us).c_str(),
               stdout);
  }
  Logprobs logprobs;
  double read = microseconds([&] { (void)logprobs.read(logits).ok(); });
  double top = microseconds([&] { (void)logprobs.top(20); });
  std::fputs(fmt::format("  {:<36}{:9.1f} us + {:.1f} us for the top 20\n", "log-probabilities", read, top).c_str(),
             stdout);
}

}  // namespace
}  // namespace espalier

int main() {
  std::fputs(fmt::format("instruction set: {}\n", espalier::sampling::row_kernels().isa).c_str(), stdout);
  for (bool peaked : {true, false}) {
    for (int vocabulary : {49152, 131072, 262144}) espalier::measure(vocabulary, peaked);
  }
}
