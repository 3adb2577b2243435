#include "engine/choose_token.h"

#include "sampling/noise.h"

namespace espalier {
namespace {

// The end and stop tokens, which may not be the output number `index` because min_new_tokens must come first.
std::vector<TokenId> forbidden_at(const Sequence& s, int index, std::span<const TokenId> end_tokens) {
  const SamplingParams& p = s.request->sampling();
  if (index >= p.min_new_tokens) return {};
  std::vector<TokenId> out = p.stop_token_ids;
  out.insert(out.end(), end_tokens.begin(), end_tokens.end());
  return out;
}

}  // namespace

Result<Pick> choose_token(std::span<float> logits, const Sequence& s, int index, std::span<const TokenId> end_tokens) {
  thread_local Sampler sampler;  // keeps scratch memory; which thread picks does not matter to the result
  const std::vector<TokenId> forbidden = forbidden_at(s, index, end_tokens);
  PickInput input;
  input.logits = logits;
  input.params = &s.request->sampling();
  input.counts = &s.counts;
  input.forbidden = forbidden;
  input.uniform =
      Noise(s.request->seed(), static_cast<std::uint32_t>(s.choice)).uniform(static_cast<std::uint64_t>(index));
  return sampler.pick(input);
}

}  // namespace espalier
