#include "bench/sim/step_times.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>

namespace espalier::bench {

Result<StepTimes> StepTimes::parse(const std::string& text) {
  StepTimes times;
  const std::array<double*, 4> fields = {&times.base, &times.prefill, &times.decode, &times.attention};
  const char* at = text.data();
  const char* const end = at + text.size();
  const auto bad = [&] {
    return bad_request(fmt::format("--cost {} must be four numbers of seconds, base,prefill,decode,attention, not "
                                   "negative and the first above 0: for example {}",
                                   text, StepTimes().text()),
                       "cost");
  };
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (i > 0 && (at == end || *at != ',')) return bad();
    if (i > 0) ++at;
    const auto [behind, code] = std::from_chars(at, end, *fields[i]);
    if (code != std::errc() || !std::isfinite(*fields[i]) || *fields[i] < 0) return bad();
    at = behind;
  }
  if (at != end || !(times.base > 0)) return bad();
  return times;
}

std::string StepTimes::text() const {
  return fmt::format("{:.3g},{:.3g},{:.3g},{:.3g}", base, prefill, decode, attention);
}

StepWork StepWork::of(const StepPlan& plan) {
  StepWork work;
  for (const auto& [sequence, count] : plan.chunks) {
    const bool decodes = sequence->generated() > 0 && sequence->to_compute() == 1;
    (decodes ? work.decode_rows : work.prompt_rows) += count;
    work.pairs += count * (sequence->computed + (count + 1) / 2.0);
  }
  return work;
}

}  // namespace espalier::bench
