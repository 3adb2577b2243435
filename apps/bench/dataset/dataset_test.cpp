#include "bench/dataset/dataset.h"

#include <gtest/gtest.h>

#include <set>

#include "bench/load/statistics.h"
#include "testing/data.h"
#include "testing/temp_folder.h"

namespace espalier::bench {
namespace {

const Call& call_of(const Workload& workload, std::size_t i) {
  return std::get<RequestWork>(workload.items.at(i).work).call;
}

const std::vector<TokenId>& ids_of(const Workload& workload, std::size_t i) {
  return std::get<std::vector<TokenId>>(call_of(workload, i).prompt);
}

Workload made(const DatasetOptions& options) {
  auto workload = make_dataset(options);
  EXPECT_TRUE(workload.ok()) << workload.error().message;
  return std::move(*workload);
}

DatasetOptions random_options() {
  DatasetOptions o;
  o.name = "random";
  o.num_prompts = 200;
  o.random_input_len = 100;
  o.random_output_len = 40;
  o.seed = 7;
  return o;
}

TEST(Dataset, RandomRequestsHaveExactLengthsInTheirRange) {
  DatasetOptions o = random_options();
  o.vocabulary = 320;
  o.random_range_ratio = 0.5;
  const Workload w = made(o);
  ASSERT_EQ(w.items.size(), 200u);
  EXPECT_FALSE(w.salted);
  std::set<std::size_t> lengths;
  for (std::size_t i = 0; i < w.items.size(); ++i) {
    lengths.insert(ids_of(w, i).size());
    EXPECT_EQ(call_of(w, i).expected_prompt_tokens, static_cast<int>(ids_of(w, i).size()));
    EXPECT_GE(call_of(w, i).max_tokens, 20);
    EXPECT_LE(call_of(w, i).max_tokens, 40);
    EXPECT_TRUE(call_of(w, i).ignore_eos);
    for (const TokenId id : ids_of(w, i)) ASSERT_TRUE(id >= 80 && id < 320) << id;
  }
  EXPECT_GE(*lengths.begin(), 50u);
  EXPECT_LE(*lengths.rbegin(), 100u);
  EXPECT_GT(lengths.size(), 20u);
  o.random_range_ratio = 1;
  EXPECT_EQ(ids_of(made(o), 3).size(), 100u);
}

TEST(Dataset, RandomRequestsMayShareAPrefix) {
  DatasetOptions o = random_options();
  o.num_prompts = 5;
  o.random_range_ratio = 1;
  o.random_prefix_len = 30;
  const Workload w = made(o);
  std::set<std::vector<TokenId>> beginnings, all;
  for (std::size_t i = 0; i < w.items.size(); ++i) {
    const auto& ids = ids_of(w, i);
    ASSERT_EQ(ids.size(), 130u);
    EXPECT_EQ(call_of(w, i).expected_prompt_tokens, 130);
    beginnings.insert({ids.begin(), ids.begin() + 30});
    all.insert(ids);
  }
  EXPECT_EQ(beginnings.size(), 1u);
  EXPECT_EQ(all.size(), 5u);
}

TEST(Dataset, TheSeedDecidesTheRequests) {
  DatasetOptions o = random_options();
  const Workload a = made(o), b = made(o);
  o.seed = 8;
  const Workload c = made(o);
  for (std::size_t i = 0; i < a.items.size(); ++i) EXPECT_EQ(ids_of(a, i), ids_of(b, i));
  EXPECT_NE(ids_of(a, 0), ids_of(c, 0));
}

TEST(Dataset, WordsStandInWhereIdsAreNotTaken) {
  DatasetOptions o = random_options();
  o.token_ids = false;
  o.random_range_ratio = 1;
  const Workload w = made(o);
  const std::string& text = std::get<std::string>(call_of(w, 0).prompt);
  EXPECT_EQ(std::count(text.begin(), text.end(), ' '), 100);
  EXPECT_EQ(call_of(w, 0).expected_prompt_tokens, 100);
}

// How many prompts begin with each first `length` tokens; all have `whole`.
std::map<std::vector<TokenId>, int> prefixes_of(const Workload& w, std::size_t length, std::size_t whole) {
  std::map<std::vector<TokenId>, int> counts;
  for (std::size_t i = 0; i < w.items.size(); ++i) {
    std::vector<TokenId> ids = ids_of(w, i);
    EXPECT_EQ(ids.size(), whole);
    ids.resize(length);
    ++counts[ids];
  }
  return counts;
}

TEST(Dataset, SharedPrefixGroupsShareExactlyTheirSystemPrompt) {
  DatasetOptions o;
  o.name = "generated-shared-prefix";
  o.gsp_num_groups = 3;
  o.gsp_prompts_per_group = 4;
  o.gsp_system_prompt_len = 50;
  o.gsp_question_len = 10;
  o.gsp_output_len = 5;
  const Workload w = made(o);
  ASSERT_EQ(w.items.size(), 12u);
  const auto groups = prefixes_of(w, 50, 60);
  std::set<std::vector<TokenId>> whole;
  for (std::size_t i = 0; i < 12; ++i) whole.insert(ids_of(w, i));
  EXPECT_EQ(whole.size(), 12u);
  EXPECT_EQ(groups.size(), 3u);
  for (const auto& [prefix, count] : groups) EXPECT_EQ(count, 4);
}

TEST(Dataset, PrefixRepetitionSharesItsPromptsEvenly) {
  DatasetOptions o;
  o.name = "prefix_repetition";
  o.num_prompts = 11;
  o.repetition_prefixes = 3;
  o.repetition_prefix_len = 20;
  o.repetition_suffix_len = 4;
  const Workload w = made(o);
  ASSERT_EQ(w.items.size(), 9u);  // as vLLM's: the rest of the division is left out
  const auto prefixes = prefixes_of(w, 20, 24);
  ASSERT_EQ(prefixes.size(), 3u);
  for (const auto& [prefix, count] : prefixes) EXPECT_EQ(count, 3);
  o.num_prompts = 2;
  EXPECT_FALSE(make_dataset(o).ok());
}

TEST(Dataset, ShareGptKeepsFirstTurnsThatFit) {
  const testing::TempFolder folder;
  DatasetOptions o;
  o.name = "sharegpt";
  o.path =
      folder
          .write(
              "s.json",
              R"([{"conversations":[{"from":"human","value":"question one two"},{"from":"gpt","value":"a much longer answer"}]},
    {"conversations":[{"value":"only one turn"}]}, {"id":3}, {"conversations":[{"value":"x"},{"value":"y"}]},
    {"conversations":[{"value":"a question that is far too long for the context"},{"value":"an answer"}]}])")
          .string();
  o.sharegpt_context_len = 12;
  const Workload w = made(o);
  ASSERT_EQ(w.items.size(), 1u);
  EXPECT_EQ(std::get<std::string>(call_of(w, 0).prompt), "question one two");
  EXPECT_EQ(call_of(w, 0).max_tokens, 5);
  EXPECT_TRUE(w.salted);
  o.sharegpt_output_len = 3;
  EXPECT_EQ(call_of(made(o), 0).max_tokens, 3);
  o.sharegpt_context_len = 3;
  EXPECT_NE(make_dataset(o).error().message.find("holds no request that fits"), std::string::npos);
}

TEST(Dataset, LinesOfOnesOwnAndOfWholeRequests) {
  const testing::TempFolder folder;
  DatasetOptions o;
  o.name = "custom";
  o.path = folder
               .write("c.jsonl",
                      "{\"prompt\":\"hello "
                      "there\",\"output_tokens\":9}\n{\"conversations\":[{\"content\":\"abcdefgh\"},{\"content\":"
                      "\"ijklmnop\"}]}\n")
               .string();
  Workload w = made(o);
  ASSERT_EQ(w.items.size(), 2u);
  EXPECT_EQ(call_of(w, 0).max_tokens, 9);
  EXPECT_EQ(call_of(w, 1).max_tokens, 2);

  o.name = "openai";
  o.path =
      folder.write("o.jsonl", "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}],\"max_tokens\":4,\"tools\":[]}\n")
          .string();
  w = made(o);
  EXPECT_EQ(call_of(w, 0).verbatim["messages"][0]["content"], "hi");

  o.path = folder.write("bad.jsonl", "{\"messages\":[]}\n{\"message\":[]}\n").string();
  const auto bad = make_dataset(o);
  ASSERT_FALSE(bad.ok());
  EXPECT_NE(bad.error().message.find("bad.jsonl line 2: messages"), std::string::npos) << bad.error().message;
}

TEST(Dataset, MooncakeBlocksWithOneIdAreEqual) {
  const testing::TempFolder folder;
  DatasetOptions o;
  o.name = "mooncake";
  o.mooncake_slowdown_factor = 2;
  o.path = folder
               .write("m.jsonl", R"({"timestamp":0,"input_length":1100,"output_length":5,"hash_ids":[1,2,3]}
{"timestamp":1500,"input_length":1030,"output_length":6,"hash_ids":[1,2,4]})")
               .string();
  const Workload w = made(o);
  ASSERT_EQ(w.items.size(), 2u);
  EXPECT_EQ(ids_of(w, 0).size(), 1100u);
  EXPECT_TRUE(std::equal(ids_of(w, 0).begin(), ids_of(w, 0).begin() + 1024, ids_of(w, 1).begin()));
  EXPECT_NE(ids_of(w, 0)[1024], ids_of(w, 1)[1024]);
  EXPECT_EQ(w.items[1].arrival, 3.0);
}

TEST(Dataset, UnknownAndMissingOnesAreRefusedWithWhatWouldWork) {
  DatasetOptions o;
  o.name = "nothing";
  EXPECT_NE(make_dataset(o).error().message.find("there are random"), std::string::npos);
  o.name = "mmmu";
  EXPECT_NE(make_dataset(o).error().message.find("pictures"), std::string::npos);
  o.name = "sharegpt";
  EXPECT_NE(make_dataset(o).error().message.find("--dataset-path"), std::string::npos);
  o.path = "/nowhere.json";
  EXPECT_EQ(make_dataset(o).error().kind, Error::Kind::not_found);
}

}  // namespace
}  // namespace espalier::bench
