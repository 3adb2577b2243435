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

bool is_inside(TokenId token, std::size_t vocabulary) {
  return token >= 0 && static_cast<std::size_t>(token) < vocabulary;
}

// The constraint's tokens, and where its text may end those that end it. words: room for it where it is not the constraint's own.
std::span<const std::uint32_t> mask_of(const grammar::Allowed& allowed, const Sequence& s, std::size_t vocabulary,
                                       std::span<const TokenId> end_tokens, std::vector<std::uint32_t>& words) {
  const grammar::MaskWords& tokens = *allowed.tokens;
  const std::size_t count = (vocabulary + 31) / 32;
  if (!allowed.end && tokens.size() >= count) return tokens;
  words.assign(count, 0);
  std::copy_n(tokens.begin(), std::min(count, tokens.size()), words.begin());
  const auto allow = [&](TokenId token) {
    if (is_inside(token, vocabulary)) words[static_cast<std::size_t>(token) / 32] |= 1u << (token % 32);
  };
  const SamplingParams& p = s.request->sampling();
  if (allowed.end) {
    for (const TokenId token : p.stop_token_ids) allow(token);
    if (!p.ignore_eos)
      for (const TokenId token : end_tokens) allow(token);
  }
  return words;
}

}  // namespace

double uniform_at(const Sequence& s, int index) {
  return Noise(s.request->seed(), static_cast<std::uint32_t>(s.choice)).uniform(static_cast<std::uint64_t>(index));
}

RowDraw draw_at(const Sequence& s, int index, int logit_row) {
  return {logit_row, &s.request->sampling(), uniform_at(s, index)};
}

bool can_be_drawn(const SamplingParams& params) {
  return !params.penalises() && params.logit_bias.empty();
}

bool forbids_tokens(const Sequence& s, int index, std::span<const TokenId> end_tokens) {
  const SamplingParams& p = s.request->sampling();
  return index < p.min_new_tokens && !(p.stop_token_ids.empty() && end_tokens.empty());
}

bool chooses_plainly(const Sequence& s, int index, std::span<const TokenId> end_tokens, int vocabulary) {
  return !forbids_tokens(s, index, end_tokens) &&
         TiledRow::suits(s.request->sampling(), static_cast<std::size_t>(vocabulary));
}

std::span<const std::uint32_t> mask_at(const Sequence& s, int index, std::span<const TokenId> end_tokens,
                                       const grammar::Allowed* allowed, bool may_end, int vocabulary,
                                       std::vector<std::uint32_t>& words) {
  const auto size = static_cast<std::size_t>(vocabulary);
  const std::vector<TokenId> forbidden = forbidden_at(s, index, end_tokens, may_end);
  std::span<const std::uint32_t> mask;
  if (allowed != nullptr) mask = mask_of(*allowed, s, size, end_tokens, words);
  if (forbidden.empty()) return mask;
  if (allowed == nullptr)
    words.assign((size + 31) / 32, ~0u);
  else if (mask.data() != words.data())
    words.assign(mask.begin(), mask.end());
  for (const TokenId token : forbidden)
    if (is_inside(token, size)) words[static_cast<std::size_t>(token) / 32] &= ~(1u << (token % 32));
  return words;
}

Result<Pick> choose_token(std::span<float> logits, const Sequence& s, int index, std::span<const TokenId> end_tokens,
                          const grammar::Allowed* allowed, bool may_end) {
  thread_local std::vector<std::uint32_t> words;
  thread_local Sampler sampler;  // keeps scratch memory; which thread picks does not matter to the result
  const std::vector<TokenId> forbidden = forbidden_at(s, index, end_tokens, may_end);
  PickInput input;
  input.logits = logits;
  input.params = &s.request->sampling();
  input.counts = &s.counts;
  input.forbidden = forbidden;
  if (allowed) input.mask = mask_of(*allowed, s, logits.size(), end_tokens, words);
  input.uniform = uniform_at(s, index);
  return sampler.pick(input);
}

}  // namespace espalier
