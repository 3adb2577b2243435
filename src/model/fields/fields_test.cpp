#include "model/fields/fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json/json.h"

namespace espalier::fields_test {
namespace {

using ::testing::HasSubstr;

Fields hf(const char* text) {
  return Fields(Json::parse(text), Naming::hf, "");
}

TEST(Fields, HaveTheFirstOfTheirSpellingsThatIsThere) {
  const Fields f = hf(R"({"n_layer":3,"num_layers":7,"head_dim":null})");
  EXPECT_EQ(f.count({"num_hidden_layers|n_layer|num_layers"}), 3);
  EXPECT_EQ(f.count_or({"head_dim"}, 16), 16);  // null is absent
  const Fields g(Json::parse(R"({"block_count":5})"), Naming::gguf, "llama.");
  EXPECT_EQ(g.count({"num_hidden_layers", "block_count"}), 5);
  EXPECT_FALSE(f.problem() || g.problem());
}

TEST(Fields, KeepTheFirstProblemAndGiveSomethingHarmless) {
  const Fields f = hf(R"({"heads":"four","layers":0})");
  EXPECT_EQ(f.count({"heads"}), 1);
  EXPECT_EQ(f.count({"layers"}), 1);
  ASSERT_TRUE(f.problem());
  EXPECT_THAT(f.problem()->message, HasSubstr("heads must be an integer"));
  const Fields missing(Json::object(), Naming::gguf, "llama.");
  missing.count({"heads", "attention.head_count"});
  EXPECT_EQ(missing.problem()->message, "llama.attention.head_count is missing");
}

TEST(Fields, OfLayersComeFromListsOrOneValue) {
  const Fields f = hf(R"({"window":[8,null,16],"same":[4,4,4],"all":9})");
  EXPECT_EQ(f.count_of({"window"}, 0, 0), 8);
  EXPECT_EQ(f.count_of({"window"}, 1, 5), 5);
  EXPECT_EQ(f.count_of({"all"}, 2, 0), 9);
  EXPECT_EQ(f.count({"same"}), 4);
  EXPECT_FALSE(f.problem());
  f.count({"window"});
  EXPECT_THAT(f.problem()->message, HasSubstr("window differs between layers"));
  const Fields g = hf(R"({"window":[8]})");
  g.count_of({"window"}, 3, 0);
  EXPECT_THAT(g.problem()->message, HasSubstr("window has 1 entries, but there is a layer 3"));
}

TEST(Fields, WithinAnObjectNameTheirWholePath) {
  const Fields f = hf(R"({"rope":{"factor":"x"},"flat":3})");
  f.at({"rope"}).number_or({"factor"}, 1);
  ASSERT_TRUE(f.problem());
  EXPECT_THAT(f.problem()->message, HasSubstr("rope.factor"));
  const Fields g = hf(R"({"flat":3})");
  g.at({"flat"});
  EXPECT_THAT(g.problem()->message, HasSubstr("flat must be an object"));
}

}  // namespace
}  // namespace espalier::fields_test
