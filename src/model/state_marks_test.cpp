// States in the middle of a chunk are those that a chunk which ends there leaves, bit for bit, in every model that keeps
// one.
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "model/config/hf_config.h"
#include "model/small_pool.h"
#include "tensor/file/safetensors.h"
#include "testing/data.h"
#include "testing/golden_name.h"

namespace espalier::state_marks_test {
namespace {

constexpr int kTokens = 80;

// Rows [begin, end) of the text in one chunk, from and to the pool's state.
void run(Decoder& decoder, testing::SmallPool& pool, std::span<const TokenId> text, int begin, int end,
         std::span<const StateMark> marks = {}) {
  std::vector<Slot> slots;
  for (int i = begin; i < end; ++i) slots.push_back(i);
  const KvRun run{0, end};
  BatchSequence sequence{.row_begin = 0, .rows = end - begin, .first_position = begin, .runs = {&run, 1}};
  sequence.state_in = begin > 0 ? pool.state.data() : nullptr;
  sequence.state_out = pool.state.data();
  sequence.state_marks = marks;
  sequence.rope_length = kTokens;
  decoder.forward({text.subspan(static_cast<std::size_t>(begin), slots.size()), slots, {&sequence, 1}, {}},
                  {pool.layers});
}

bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

class EachStatefulModel : public ::testing::TestWithParam<std::string> {};

TEST_P(EachStatefulModel, LeavesInAChunkWhatAChunkThatEndsThereLeaves) {
  const auto folder = testing::golden(std::string("models/") + GetParam());
  if (folder.empty()) GTEST_SKIP() << "left out: no goldens of " << GetParam() << " here";
  auto file = SafetensorsFile::open_folder(folder);
  ASSERT_TRUE(file.ok()) << file.error().message;
  const auto config = load_hf_config(folder);
  ASSERT_TRUE(config.ok()) << config.error().message;
  const Weights weights(*file, Naming::hf);
  ComputeTeam team(2);
  auto decoder = Decoder::load(config->spec, weights, {Activations::f32, 128}, team);
  ASSERT_TRUE(decoder.ok()) << decoder.error().message;
  const std::size_t floats = (*decoder)->keeps().state_floats;
  if (floats == 0) GTEST_SKIP() << "keeps no state";
  std::mt19937 random(3);
  std::vector<TokenId> text(kTokens);
  for (TokenId& token : text)
    token = static_cast<TokenId>(3 + random() % static_cast<unsigned>(config->vocabulary - 3));

  testing::SmallPool cut((*decoder)->keeps(), KvType::f32, kTokens),
      whole = testing::SmallPool((*decoder)->keeps(), KvType::f32, kTokens);
  constexpr int kFirst = 9;  // the chunk with marks begins with a state
  run(**decoder, whole, text, 0, kFirst);
  const int places[] = {kFirst + 1, kFirst + 2, 40, kTokens - 1};
  std::vector<std::vector<float>> states(std::size(places), std::vector<float>(floats));
  std::vector<StateMark> marks;
  for (std::size_t i = 0; i < std::size(places); ++i) marks.push_back({places[i] - kFirst, states[i].data()});
  run(**decoder, whole, text, kFirst, kTokens, marks);

  run(**decoder, cut, text, 0, kFirst);
  int begin = kFirst;
  for (std::size_t i = 0; i < std::size(places); ++i) {
    run(**decoder, cut, text, begin, places[i]);
    EXPECT_TRUE(same_bits(states[i], cut.state)) << "behind " << places[i] << " tokens";
    begin = places[i];
  }
  run(**decoder, cut, text, begin, kTokens);
  EXPECT_TRUE(same_bits(whole.state, cut.state)) << "at the end";
}

INSTANTIATE_TEST_SUITE_P(Goldens, EachStatefulModel, ::testing::ValuesIn(testing::text_goldens()),
                         testing::golden_name);

}  // namespace
}  // namespace espalier::state_marks_test
