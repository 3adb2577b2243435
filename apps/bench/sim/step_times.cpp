#include "bench/sim/step_times.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>

namespace espalier::bench {

Result<StepTimes> StepTimes::parse(const std::string& text) {
  StepTimes times;
  double decode_attention = 0;
  const std::array<double*, 5> fields = {&times.base, &times.prefill, &times.decode, &times.attention,
                                         &decode_attention};
  const char* at = text.data();
  const char* const end = at + text.size();
  const auto bad = [&] {
    return bad_request(fmt::format("--cost {} must be four numbers of seconds, base,prefill,decode,attention, or five "
                                   "with the attention of decoding rows, not negative and the first above 0: for "
                                   "example {}",
                                   text, StepTimes().text()),
                       "cost");
  };
  std::size_t read = 0;
  for (; read < fields.size() && (read < 4 || at != end); ++read) {
    if (read > 0 && (at == end || *at != ',')) return bad();
    if (read > 0) ++at;
    const auto [behind, code] = std::from_chars(at, end, *fields[read]);
    if (code != std::errc() || !std::isfinite(*fields[read]) || *fields[read] < 0) return bad();
    at = behind;
  }
  if (at != end || !(times.base > 0)) return bad();
  if (read == fields.size()) times.decode_attention = decode_attention;
  return times;
}

std::string StepTimes::text() const {
  const std::string four = fmt::format("{:.3g},{:.3g},{:.3g},{:.3g}", base, prefill, decode, attention);
  return decode_attention ? fmt::format("{},{:.3g}", four, *decode_attention) : four;
}

StepWork StepWork::of(const StepPlan& plan) {
  StepWork work;
  for (const auto& [sequence, count] : plan.chunks) {
    const bool decodes = sequence->generated() > 0 && sequence->to_compute() == 1;
    (decodes ? work.decode_rows : work.prompt_rows) += count;
    const double pairs = count * (sequence->computed + (count + 1) / 2.0);
    work.pairs += pairs;
    if (decodes) work.decode_pairs += pairs;
  }
  return work;
}

}  // namespace espalier::bench
