// Rows, parameters and masks from bytes: whatever validate() accepts, pick() answers with an allowed token or one of
// its named errors, and leaves the row as it was.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <vector>

#include "sampling/logprobs.h"
#include "sampling/sampler.h"

namespace espalier {
namespace {

void demand(bool holds) {
  if (!holds) std::abort();
}

class Bytes {
 public:
  Bytes(const std::uint8_t* data, std::size_t size) : data_(data), left_(size) {}
  template <class T>
  T next() {
    T value{};
    std::size_t n = left_ < sizeof value ? left_ : sizeof value;
    std::memcpy(&value, data_, n);
    data_ += n;
    left_ -= n;
    return value;
  }
  // Mostly a value in range, sometimes any bits at all.
  double number(double low, double high) {
    auto code = next<std::uint8_t>();
    if (code == 255) return next<double>();
    return low + (high - low) * code / 254;
  }

 private:
  const std::uint8_t* data_;
  std::size_t left_;
};

SamplingParams some_params(Bytes& bytes, int vocabulary) {
  SamplingParams p;
  auto used = bytes.next<std::uint8_t>();
  if (used & 1) p.temperature = bytes.number(0, 3);
  if (used & 2) p.top_p = bytes.number(0.01, 1);
  if (used & 4) p.top_k = bytes.next<std::uint16_t>();
  if (used & 8) p.min_p = bytes.number(0, 1);
  if (used & 16) p.repetition_penalty = bytes.number(0.1, 10);
  if (used & 32) p.frequency_penalty = bytes.number(-2, 2);
  if (used & 64) p.presence_penalty = bytes.number(-2, 2);
  if (used & 128) {
    p.logit_bias.emplace_back(bytes.next<std::uint16_t>() % vocabulary, static_cast<float>(bytes.number(-100, 100)));
  }
  return p;
}

// Few bytes make a long row: a pattern with some exact values put into it.
std::vector<float> some_row(Bytes& bytes) {
  std::size_t size = 1 + bytes.next<std::uint16_t>() % 3000;
  auto spread = static_cast<float>(bytes.number(0, 20));
  std::uint32_t state = bytes.next<std::uint32_t>();
  std::vector<float> logits(size);
  for (float& x : logits) {
    state = state * 1664525u + 1013904223u;
    x = spread * static_cast<float>(static_cast<std::int32_t>(state)) * 0x1p-31f;
  }
  for (int exact = bytes.next<std::uint8_t>() % 8; exact > 0; --exact) {
    logits[bytes.next<std::uint16_t>() % size] = bytes.next<float>();
  }
  return logits;
}

void run(Bytes bytes) {
  std::vector<float> logits = some_row(bytes);
  const std::vector<float> before = logits;
  SamplingParams params = some_params(bytes, static_cast<int>(logits.size()));
  TokenCounts counts;
  for (int i = bytes.next<std::uint8_t>() % 16; i > 0; --i) counts.add_output(bytes.next<std::int16_t>());
  std::vector<std::uint32_t> mask;
  if (bytes.next<std::uint8_t>() % 2) {
    mask.resize((logits.size() + 31) / 32);
    auto pattern = bytes.next<std::uint32_t>();
    for (std::size_t i = 0; i < mask.size(); ++i) mask[i] = i % 5 == 0 ? 0 : pattern << (i % 7);
  }
  std::vector<TokenId> forbidden(bytes.next<std::uint8_t>() % 4);
  for (TokenId& t : forbidden) t = bytes.next<std::int16_t>();
  if (!params.validate(static_cast<int>(logits.size())).ok()) return;

  bool finite = true;
  for (float x : logits) finite = finite && std::isfinite(x);
  Sampler sampler;
  PickInput in{logits, &params, &counts, mask, forbidden, bytes.next<std::uint32_t>() * 0x1p-32};
  auto pick = sampler.pick(in);
  demand(std::memcmp(logits.data(), before.data(), sizeof(float) * logits.size()) == 0);
  if (pick.ok()) {
    demand(pick->token >= 0 && static_cast<std::size_t>(pick->token) < logits.size());
    demand(sampling::allowed(mask, pick->token));
    demand(logits[pick->token] > -std::numeric_limits<float>::infinity());
    for (TokenId t : forbidden) demand(pick->token != t);
    demand(pick->probability > 0 && pick->probability <= 1 + 1e-9);
  } else {
    demand(pick.error().code == "no_token_allowed" || (!finite && pick.error().code == "logits_not_finite"));
  }
  Logprobs logprobs;
  if (logprobs.read(logits).ok()) {
    auto top = logprobs.top(bytes.next<std::uint16_t>());
    for (std::size_t i = 1; i < top.size(); ++i) demand(top[i].logprob <= top[i - 1].logprob);
    for (const auto& t : top) demand(t.logprob <= 1e-6);
  } else {
    demand(!finite);
  }
}

}  // namespace
}  // namespace espalier

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  espalier::run(espalier::Bytes(data, size));
  return 0;
}
