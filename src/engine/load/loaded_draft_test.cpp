// An engine with a draft model, over real model files, as a server uses it.
#include "engine/load/loaded_draft.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "engine/engine_metrics.h"
#include "testing/data.h"

namespace espalier::loaded_draft_test {
namespace {

using Tokens = std::vector<TokenId>;

class EngineWithDraftModel : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto model = testing::golden("models/llama3-tied-gqa");
    if (model.empty()) GTEST_SKIP() << "left out: no goldens here";
    options.model_path = options.draft_model = model.string();
    options.speculative = "DRAFT";
    options.threads = 2;
    options.max_total_tokens = 1024;
  }
  void TearDown() override {
    std::error_code ignored;
    std::filesystem::remove_all(scratch, ignored);
  }
  static Error refusal(const EngineOptions& o) {
    auto opened = Engine::open(o);
    EXPECT_FALSE(opened.ok());
    return opened.ok() ? Error{} : opened.error();
  }
  // What an engine answers to conversations that share a beginning, longer together than its pool; three times over,
  // so that they come back from the tree or from disk.
  static std::vector<Tokens> talk(const EngineOptions& o, std::uint64_t* accepted = nullptr) {
    auto opened = Engine::open(o);
    EXPECT_TRUE(opened.ok()) << opened.error().message;
    Engine& engine = **opened;
    std::mt19937_64 rng(5);
    std::vector<Tokens> prompts(12, Tokens(150));
    for (Tokens& prompt : prompts)
      for (TokenId& token : prompt) token = static_cast<TokenId>(3 + rng() % 300);
    for (std::size_t i = 1; i < prompts.size(); i += 2) std::copy_n(prompts[0].begin(), 100, prompts[i].begin());
    std::vector<Tokens> answers;
    for (int round = 0; round < 3; ++round) {
      std::vector<Stream> streams;
      for (std::size_t i = 0; i < prompts.size(); ++i) {
        RequestFields fields;
        fields.prompt = prompts[i];
        fields.sampling.max_new_tokens = 40;
        fields.sampling.ignore_eos = true;
        fields.sampling.temperature = i % 2 ? 0 : 0.8;
        fields.sampling.seed = i;
        streams.push_back(engine.submit(Request::make(std::move(fields), engine.model().limits).value()).value());
      }
      for (Stream& stream : streams) {
        answers.emplace_back();
        for (bool open = true; open;) {
          EXPECT_TRUE(stream.wait(std::chrono::seconds(60)));
          for (StreamEvent& event : stream.take()) {
            if (const auto* token = std::get_if<TokenEvent>(&event)) answers.back().push_back(token->id);
            if (std::holds_alternative<FinishEvent>(event)) open = false;
          }
        }
      }
    }
    EXPECT_TRUE(engine.check().ok());
    if (accepted) *accepted = engine.metrics().accepted_tokens.value();
    return answers;
  }

  EngineOptions options;
  std::filesystem::path scratch =
      std::filesystem::temp_directory_path() / ("espalier-draft-" + std::to_string(std::random_device{}()));
};

TEST_F(EngineWithDraftModel, AnswersAsWithoutAlsoFromDisk) {
  EngineOptions off = options;
  off.speculative = "none";
  off.draft_model.clear();
  const auto plain = talk(off);
  std::uint64_t accepted = 0;
  EXPECT_EQ(talk(options, &accepted), plain);
  EXPECT_GT(accepted, 0u);
  options.cache_scratch = scratch.string();
  options.cache_disk_bytes = 64 << 20;
  EXPECT_EQ(talk(options), plain);
}

TEST_F(EngineWithDraftModel, ALayerOfTheCheckpointsOwnAnswersAsWithoutAlsoFromDisk) {
  for (const char* model : {"nextn-deepseek-v3", "nextn-glm4-moe", "nextn-qwen3-next", "nextn-mimo", "nextn-ernie",
                            "nextn-glm4-moe.gguf", "nextn-qwen3-next.gguf"}) {
    options.model_path = testing::data(std::string("goldens/nextn/") + model).string();
    options.draft_model.clear();
    options.cache_scratch.clear();
    options.cache_disk_bytes = 0;
    options.speculative = "none";
    const auto plain = talk(options);
    std::uint64_t accepted = 0;
    options.speculative = "NEXTN";
    EXPECT_EQ(talk(options, &accepted), plain) << model;
    EXPECT_GT(accepted, 0u) << model;
    options.speculative = "eagle";
    options.cache_scratch = (scratch / model).string();
    options.cache_disk_bytes = 64 << 20;
    EXPECT_EQ(talk(options), plain) << model << ", from disk";
  }
}

TEST_F(EngineWithDraftModel, ACheckpointWithoutALayerThatDraftsIsRefused) {
  options.draft_model.clear();
  options.speculative = "NEXTN";
  EXPECT_EQ(refusal(options).field, "speculative_algorithm");
  options.model_path = testing::golden("models/deepseek-v3").string();
  if (options.model_path.empty()) GTEST_SKIP() << "left out: the whole set of goldens is not here";
  EXPECT_NE(refusal(options).message.find("tensor model.layers.3.eh_proj.weight is missing"), std::string::npos)
      << refusal(options).message;
}

TEST_F(EngineWithDraftModel, SaysWhatItIsAndStaysWithinHalfOfThePool) {
  auto opened = Engine::open(options);
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  EXPECT_NE((*opened)->model().draft_model.find("pool 512 tokens"), std::string::npos)
      << (*opened)->model().draft_model;
}

TEST_F(EngineWithDraftModel, AModelOfAnotherVocabularyIsRefused) {
  options.draft_model = testing::golden("models/llama2-untied-mha").string();
  const Error error = refusal(options);
  EXPECT_EQ(error.field, "speculative_draft_model");
  EXPECT_NE(error.message.find("288 ids instead of 320"), std::string::npos) << error.message;
  // As many, but one is another: a copy of the model whose end token is spelled otherwise.
  std::filesystem::copy(options.model_path, scratch, std::filesystem::copy_options::recursive);
  std::string spelled = testing::read_file(scratch / "tokenizer.json");
  for (std::size_t at; (at = spelled.find("<|end|>")) != std::string::npos;) spelled.replace(at, 7, "<|other|>");
  std::ofstream(scratch / "tokenizer.json") << spelled;
  options.draft_model = scratch.string();
  EXPECT_NE(refusal(options).message.find("\"<|other|>\" instead of \"<|end|>\""), std::string::npos)
      << refusal(options).message;
}

TEST_F(EngineWithDraftModel, WordsAndModelMustFit) {
  EngineOptions no_model = options;
  no_model.draft_model.clear();
  EXPECT_EQ(refusal(no_model).field, "speculative_draft_model");
  EngineOptions no_use = options;
  no_use.speculative = "NGRAM";
  EXPECT_EQ(refusal(no_use).field, "speculative_algorithm");
  EngineOptions nowhere = options;
  nowhere.draft_model = "/nowhere/draft.gguf";
  EXPECT_EQ(refusal(nowhere).field, "speculative_draft_model");
  EngineOptions many = options;
  many.draft_tokens = 65;
  EXPECT_EQ(refusal(many).field, "speculative_num_draft_tokens");
  for (const char* word : {"draft", "Draft", "STANDALONE", "DRAFT"}) {
    options.speculative = word;
    EXPECT_TRUE(options.check().ok()) << word;
  }
}

}  // namespace
}  // namespace espalier::loaded_draft_test
