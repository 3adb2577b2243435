#include "bench/fleet/machines.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

namespace espalier::bench {
namespace {

// Published: 4.8 TB/s, 989 dense TFLOP/s of bf16, 141 GB. Assumed: 75 % of the first for weights and for keys and values,
// half of the second for prompts, 30 % of it for their attention. 8.03e9 weights and 131,072 bytes a token, of two bytes.
Machine llama_8b_h200() {
  constexpr double kRead = 0.75 * 4.8e12, kMultiply = 0.5 * 989e12, kAttend = 0.3 * 989e12;
  constexpr double kWeights = 8.03e9, kTokenBytes = 131'072, kPairOperations = 4.0 * 4096 * 32;
  StepTimes times;
  times.base = 2 * kWeights / kRead;
  times.prefill = 2 * kWeights / kMultiply;
  times.decode = 2 * kWeights / kMultiply;
  times.attention = kPairOperations / kAttend;
  times.decode_attention = kTokenBytes / kRead;
  return {"llama-8b-h200",
          "an 8B model in bf16 on one H200, from published limits",
          false,
          times,
          gathers_of({32, 4096, 4096, 14336, 128'256}),
          kTokenBytes,
          800'000};
}

const std::vector<Machine>& all() {
  static const std::vector<Machine> list = {
      {"smollm2-135m-2-threads", "SmolLM2-135M Q4_1 on 2 threads (AVX-512), measured", true, StepTimes(),
       gathers_of({30, 576, 576, 1536, 49'152}), 23'040, 1 << 18},
      llama_8b_h200(),
  };
  return list;
}

}  // namespace

GatherWork gathers_of(const LlamaShape& s) {
  const auto input = [](std::int64_t values) { return (values + 31) / 32 * 48; };
  const std::int64_t layer = input(s.query_width) + input(s.inner) + std::int64_t{2} * 4 * s.hidden;
  return {4 * s.layers + 1, (s.layers - 1) * layer, layer, std::int64_t{4} * s.vocabulary};
}

std::span<const Machine> machines() {
  return all();
}

Result<const Machine*> machine(const std::string& name) {
  std::vector<std::string_view> names;
  for (const Machine& m : all()) {
    if (m.name == name) return &m;
    names.push_back(m.name);
  }
  return bad_request(fmt::format("--machine {} is not known; there are {}", name, fmt::join(names, ", ")), "machine");
}

}  // namespace espalier::bench
