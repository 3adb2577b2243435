#include "engine/output/choose_token.h"

#include <algorithm>

#include "sampling/noise.h"
#include "sampling/tiled_row.h"

namespace espalier {
namespace {

// The end and stop tokens, where they may not be the output number `index`: min_new_tokens must come first, or what
// a constraint demands.
std::vector<TokenId> forbidden_at(const Sequence& s, int index, std::span<const TokenId> end_tokens, bool may_end) {
  const SamplingParams& p = s.request->sampling();
  if (may_end && index >= p.min_new_tokens) return {};
  std::vector<TokenId> out = p.stop_token_ids;
  out.insert(out.end(), end_tokens.begin(), end_tokens.end());
  return out;
}

// The constraint's tokens, and where its text may end those that end it.
class Mask {
 public:
  std::span<const std::uint32_t> of(const grammar::Allowed& allowed, const Sequence& s, std::size_t vocabulary,
                                    std::span<const TokenId> end_tokens) {
    const grammar::MaskWords& tokens = *allowed.tokens;
    const std::size_t words = (vocabulary + 31) / 32;
    if (!allowed.end && tokens.size() >= words) return tokens;
    words_.assign(words, 0);
    std::copy_n(tokens.begin(), std::min(words, tokens.size()), words_.begin());
    const SamplingParams& p = s.request->sampling();
    if (allowed.end) {
      for (const TokenId token : p.stop_token_ids) allow(token, vocabulary);
      if (!p.ignore_eos)
        for (const TokenId token : end_tokens) allow(token, vocabulary);
    }
    return words_;
  }

 private:
  void allow(TokenId token, std::size_t vocabulary) {
    const auto at = static_cast<std::size_t>(token);
    if (at < vocabulary) words_[at / 32] |= 1u << (at % 32);
  }
  std::vector<std::uint32_t> words_;
};

}  // namespace

double uniform_at(const Sequence& s, int index) {
  return Noise(s.request->seed(), static_cast<std::uint32_t>(s.choice)).uniform(static_cast<std::uint64_t>(index));
}

bool chooses_plainly(const Sequence& s, int index, std::span<const TokenId> end_tokens, int vocabulary) {
  const SamplingParams& p = s.request->sampling();
  const bool forbids = index < p.min_new_tokens && !(p.stop_token_ids.empty() && end_tokens.empty());
  return !forbids && TiledRow::suits(p, static_cast<std::size_t>(vocabulary));
}

Result<Pick> choose_token(std::span<float> logits, const Sequence& s, int index, std::span<const TokenId> end_tokens,
                          const grammar::Allowed* allowed, bool may_end) {
  thread_local Mask mask;
  thread_local Sampler sampler;  // keeps scratch memory; which thread picks does not matter to the result
  const std::vector<TokenId> forbidden = forbidden_at(s, index, end_tokens, may_end);
  PickInput input;
  input.logits = logits;
  input.params = &s.request->sampling();
  input.counts = &s.counts;
  input.forbidden = forbidden;
  if (allowed) input.mask = mask.of(*allowed, s, logits.size(), end_tokens);
  input.uniform = uniform_at(s, index);
  return sampler.pick(input);
}

}  // namespace espalier
