// Recurrent layers give the same bits however a text is cut, wherever its state lies, in any company, on any number of
// threads (promise 1).
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>

#include "model/blocks/recurrent/delta_rule.h"
#include "model/blocks/recurrent/lightning_attention.h"
#include "model/blocks/recurrent/mamba1.h"
#include "model/blocks/recurrent/mamba2.h"
#include "model/blocks/recurrent/short_conv.h"
#include "model/random_weights.h"
#include "model/small_pool.h"
#include "testing/data.h"

namespace espalier::recurrent_bits {
namespace {

using testing::SmallPool;

constexpr int kVocabulary = 96, kHidden = 64, kSequences = 4, kLength = 75, kSlots = 512;

struct Kind {
  const char* name;
  Block mixer;
};

DeltaRule gated_delta_net() {
  return {.key_heads = 2, .value_heads = 6, .key_dim = 16, .value_dim = 24};
}
DeltaRule kimi_delta_attention() {
  DeltaRule d{.stored = DeltaRule::Stored::apart, .key_heads = 3, .value_heads = 3, .key_dim = 16, .value_dim = 16};
  d.by_channel = true;
  d.decay_rank = d.gate_rank = 16;
  d.gate = GatedNormForm::norm_then_sigmoid;
  return d;
}

std::vector<Kind> kinds() {
  return {{"gated_delta_net", gated_delta_net()},
          {"kimi_delta_attention", kimi_delta_attention()},
          {"mamba2", Mamba2{.heads = 6, .head_dim = 20, .groups = 2, .state = 24}},
          {"mamba1", Mamba1{.inner = 144, .state = 8, .rank = 5, .norms = Mamba1::Norms::with_gain}},
          {"short_conv", ShortConv{.taps = 5}},
          {"lightning_attention", LightningAttention{.heads = 2, .head_dim = 24, .decays = {0.97f, 0.9f}}}};
}

// Two recurrent layers around one with attention.
ModelSpec hybrid(const Block& mixer) {
  ModelSpec spec = testing::SmallSpec{.vocabulary = kVocabulary, .windows = {0}}.make();
  const Layer attention = spec.layers.front(), recurrent{{{mixer, "attn_norm"}, {Mlp{.inner = 96}, "ffn_norm"}}};
  spec.layers = {recurrent, attention, recurrent};
  spec.names.hf = {{"ssm_a", "A_log"}};
  return spec;
}

// Also of what was never written.
bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

// What is kept of one text: where its state lies, and what was computed so far.
struct Text {
  std::vector<TokenId> tokens;
  int slot = 0, done = 0;
  std::vector<float> state[2], logits;
  int at = 0;  // which of the two holds the state
};

std::vector<Text> texts(const Keeps& keeps, std::mt19937_64& rng) {
  std::vector<Text> all(kSequences);
  for (int s = 0; s < kSequences; ++s) {
    Text& text = all[static_cast<std::size_t>(s)];
    text.slot = s * (kSlots / kSequences);
    for (int i = 0; i < kLength; ++i) text.tokens.push_back(static_cast<TokenId>(rng() % kVocabulary));
    for (auto& state : text.state) state.assign(keeps.state_floats, std::nanf(""));
  }
  return all;
}

// One step of these texts by so many rows each; the new state goes into the old one's place, or beside it.
void step(Decoder& decoder, SmallPool& pool, std::span<Text*> some, std::span<const int> rows, bool in_place) {
  std::vector<TokenId> tokens;
  std::vector<Slot> slots;
  std::vector<KvRun> runs(some.size());
  std::vector<BatchSequence> sequences;
  std::vector<std::vector<float>> before;
  for (std::size_t i = 0; i < some.size(); ++i) {
    Text& text = *some[i];
    runs[i] = {text.slot, text.done + rows[i]};
    BatchSequence sequence{static_cast<int>(tokens.size()), rows[i], text.done, {&runs[i], 1}};
    before.push_back(text.state[text.at]);
    sequence.state_in = text.done > 0 ? text.state[text.at].data() : nullptr;
    sequence.state_out = text.state[in_place ? text.at : 1 - text.at].data();
    sequences.push_back(sequence);
    for (int r = 0; r < rows[i]; ++r) {
      tokens.push_back(text.tokens[static_cast<std::size_t>(text.done) + static_cast<std::size_t>(r)]);
      slots.push_back(text.slot + text.done + r);
    }
  }
  std::vector<int> wanted(tokens.size());
  std::iota(wanted.begin(), wanted.end(), 0);
  const auto logits = decoder.forward({tokens, slots, sequences, wanted}, {pool.layers});
  for (std::size_t i = 0, first = 0; i < some.size(); ++i) {
    Text& text = *some[i];
    const auto count = static_cast<std::size_t>(rows[i]) * kVocabulary;
    text.logits.insert(text.logits.end(), logits.begin() + static_cast<std::ptrdiff_t>(first),
                       logits.begin() + static_cast<std::ptrdiff_t>(first + count));
    first += count;
    text.done += rows[i];
    if (in_place) continue;
    EXPECT_TRUE(sequences[i].state_in == nullptr || same_bits(text.state[text.at], before[i]))
        << "the old state was written";
    text.at = 1 - text.at;
  }
}

void in_random_company(Decoder& decoder, SmallPool& pool, std::vector<Text>& all, std::mt19937_64& rng) {
  for (;;) {
    std::vector<Text*> some;
    std::vector<int> rows;
    for (Text& text : all) {
      const int left = static_cast<int>(text.tokens.size()) - text.done;
      if (left == 0 || rng() % 3 == 0) continue;
      some.push_back(&text);
      rows.push_back(rng() % 2 == 0 ? 1 : 1 + static_cast<int>(rng() % static_cast<std::uint64_t>(std::min(left, 40))));
    }
    if (std::ranges::all_of(all, [](const Text& t) { return t.done == static_cast<int>(t.tokens.size()); })) return;
    if (!some.empty()) step(decoder, pool, some, rows, rng() % 2 == 0);
  }
}

class RecurrentLayers : public ::testing::TestWithParam<std::tuple<Kind, Activations, int>> {};

TEST_P(RecurrentLayers, GiveTheSameBitsHoweverATextIsCut) {
  const auto& [kind, mode, threads] = GetParam();
  std::mt19937_64 rng(testing::seed());
  const ModelSpec spec = hybrid(kind.mixer);
  const testing::RandomWeights file(spec, rng());
  const Weights weights(file, Naming::hf);
  ComputeTeam one(1), team(threads);
  const auto alone = Decoder::load(spec, weights, {mode, 256}, one).value(),
             together = Decoder::load(spec, weights, {mode, 256}, team).value();
  std::vector<Text> want = texts(alone->keeps(), rng), got = want;
  SmallPool want_pool(alone->keeps(), KvType::f32, kSlots), got_pool(alone->keeps(), KvType::f32, kSlots);
  for (Text& text : want) {
    Text* some[] = {&text};
    step(*alone, want_pool, some, std::array{kLength}, false);
  }
  in_random_company(*together, got_pool, got, rng);
  for (std::size_t s = 0; s < want.size(); ++s) {
    EXPECT_TRUE(std::ranges::all_of(want[s].logits, [](float logit) { return std::isfinite(logit); }));
    EXPECT_TRUE(same_bits(got[s].logits, want[s].logits)) << "text " << s;
    EXPECT_TRUE(same_bits(got[s].state[got[s].at], want[s].state[want[s].at])) << "the state of text " << s;
  }
}

// A state that is lost shows: what stood early in a text moves the last logits.
TEST_P(RecurrentLayers, RememberTheFirstTokens) {
  const auto& [kind, mode, threads] = GetParam();
  std::mt19937_64 rng(testing::seed());
  ModelSpec spec = hybrid(kind.mixer);
  spec.layers.erase(spec.layers.begin() + 1);  // attention would remember by itself
  const testing::RandomWeights file(spec, rng());
  const Weights weights(file, Naming::hf);
  ComputeTeam team(threads);
  const auto decoder = Decoder::load(spec, weights, {mode, 256}, team).value();
  const int length = std::string_view(kind.name) == "short_conv" ? 8 : 40;  // two layers of four taps before
  std::vector<Text> all = texts(decoder->keeps(), rng);
  all[1].tokens = all[0].tokens;
  all[1].tokens[0] = (all[0].tokens[0] + 1) % kVocabulary;
  SmallPool pool(decoder->keeps(), KvType::f32, kSlots);
  for (const int rows : {length - 1, 1}) {
    Text* some[] = {&all[0], &all[1]};
    step(*decoder, pool, some, std::array{rows, rows}, true);
  }
  EXPECT_FALSE(
      std::ranges::equal(std::span(all[0].logits).last(kVocabulary), std::span(all[1].logits).last(kVocabulary)));
}

std::string name_of(const ::testing::TestParamInfo<RecurrentLayers::ParamType>& test) {
  return std::string(std::get<0>(test.param).name) +
         (std::get<1>(test.param) == Activations::f32 ? "_f32_" : "_int8_") + std::to_string(std::get<2>(test.param));
}

INSTANTIATE_TEST_SUITE_P(Kinds, RecurrentLayers,
                         ::testing::Combine(::testing::ValuesIn(kinds()),
                                            ::testing::Values(Activations::f32, Activations::int8),
                                            ::testing::Values(1, 2)),
                         name_of);

}  // namespace
}  // namespace espalier::recurrent_bits
