// Adapters of a server: who is in memory, who leaves, what a use keeps, what a folder brings.
#include "server/adapters/adapter_set.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "server/adapters/named_adapters.h"
#include "testing/data.h"
#include "testing/temp_folder.h"

namespace espalier::server::adapter_set_test {
namespace {

// The bytes of a safetensors file with factors of q_proj of layer 0, all of whose values are `value`.
std::string factors(float value, int rank, int width = 64) {
  const std::string module = "base_model.model.model.layers.0.self_attn.q_proj.lora_";
  const int floats = rank * width;
  std::string head = fmt::format(R"({{"{0}A.weight":{{"dtype":"F32","shape":[{1},{2}],"data_offsets":[0,{3}]}},)"
                                 R"("{0}B.weight":{{"dtype":"F32","shape":[{2},{1}],"data_offsets":[{3},{4}]}}}})",
                                 module, rank, width, 4 * floats, 8 * floats);
  std::string out(8, '\0');
  const std::uint64_t size = head.size();
  std::memcpy(out.data(), &size, sizeof size);
  out += head;
  for (int i = 0; i < 2 * floats; ++i) out.append(reinterpret_cast<const char*>(&value), sizeof value);
  return out;
}

// A server's model and adapters in a folder of the test's own.
class AdapterSets : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    EngineOptions options;
    options.model_path = testing::data("goldens/models/llama3-tied-gqa").string();
    options.threads = 1;
    auto opened = Engine::open(options);
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    model_ = std::make_shared<ServedModel>();
    model_->engine = std::move(*opened);
    model_->names = {"toy"};
  }
  static void TearDownTestSuite() { model_.reset(); }

  void SetUp() override { ASSERT_TRUE(models_.add({{{"toy"}, "/toy", 0, {}}, {{"other"}, "/other", 0, {}}}).ok()); }
  std::string written(const std::string& name, float value = 0.25f, int rank = 4, int width = 64) const {
    folder_.write(name + "/adapter_config.json", fmt::format(R"({{"peft_type":"LORA","r":{},"lora_alpha":8}})", rank));
    folder_.write(name + "/adapter_model.safetensors", factors(value, rank, width));
    return (folder_.path() / name).string();
  }
  std::unique_ptr<AdapterSet> with(AdapterLimits limits, int count) {
    auto set = std::make_unique<AdapterSet>(std::move(limits), models_);
    for (int i = 0; i < count; ++i) {
      const std::string name(1, static_cast<char>('a' + i));
      EXPECT_TRUE(set->add({.name = name, .path = written(name, 0.1f * static_cast<float>(i + 1))}).ok());
    }
    return set;
  }
  static std::string loaded(AdapterSet& set) {
    std::string names;
    for (const AdapterEntry& one : set.list())
      if (one.loaded) names += one.name;
    return names;
  }
  // One adapter's bytes in memory.
  std::int64_t bytes_of_one() {
    const auto set = with({}, 1);
    EXPECT_TRUE(set->use("a", *model_).ok());
    return set->counts().bytes;
  }

  inline static std::shared_ptr<ServedModel> model_;
  testing::TempFolder folder_;
  ModelSet models_{{}};
};

TEST_F(AdapterSets, OneIsReadWhenItIsFirstUsedAndOnce) {
  const auto set = with({}, 2);
  EXPECT_EQ(set->use_if_loaded("a", *model_), nullptr);
  const auto first = set->use("a", *model_);
  ASSERT_TRUE(first.ok()) << first.error().message;
  EXPECT_EQ(set->use("a", *model_).value(), *first);
  EXPECT_EQ(set->use_if_loaded("a", *model_), *first);
  EXPECT_EQ(loaded(*set), "a");
  EXPECT_EQ(set->counts().loads, 1u);
  EXPECT_EQ(set->counts().known, 2);
  EXPECT_EQ(set->list()[0].rank, 4);
  EXPECT_EQ(set->use("c", *model_).error().kind, Error::Kind::not_found);
}

TEST_F(AdapterSets, ManyWhoWantOneAtOnceReadItOnce) {
  const auto set = with({}, 1);
  std::atomic<int> had{0};
  std::vector<std::thread> callers;
  for (int i = 0; i < 8; ++i) callers.emplace_back([&] { had += set->use("a", *model_).ok(); });
  for (auto& caller : callers) caller.join();
  EXPECT_EQ(had, 8);
  EXPECT_EQ(set->counts().loads, 1u);
}

TEST_F(AdapterSets, TheLeastLatelyUsedLeavesAndComesBack) {
  const auto set = with({.most_loaded = 2}, 3);
  for (const char* name : {"a", "b", "a", "c"}) ASSERT_TRUE(set->use(name, *model_).ok());
  EXPECT_EQ(loaded(*set), "ac");
  EXPECT_EQ(set->counts().evictions, 1u);
  ASSERT_TRUE(set->use("b", *model_).ok());
  EXPECT_EQ(loaded(*set), "bc");
  EXPECT_EQ(set->counts().loads, 4u);
}

TEST_F(AdapterSets, WhatIsUsedOrPinnedStays) {
  const auto set = with({.most_loaded = 1}, 2);
  ASSERT_TRUE(set->load({.name = "pinned", .path = written("pinned"), .pinned = true}, *model_).ok());
  {
    const auto used = set->use("a", *model_);
    ASSERT_TRUE(used.ok());
    ASSERT_TRUE(set->use("b", *model_).ok()) << "a count is no reason to refuse: those in use stay beside it";
    EXPECT_NE(loaded(*set).find('a'), std::string::npos);
    EXPECT_TRUE(set->list()[0].in_use);
  }
  EXPECT_FALSE(set->list()[0].in_use);
  ASSERT_TRUE(set->load({.name = "c", .path = written("c")}, *model_).ok());
  EXPECT_EQ(loaded(*set), "cpinned") << "who is used no more leaves with the next that comes";
}

TEST_F(AdapterSets, MemoryIsKeptAndWhoFindsItFullOfUsedOnesIsToldSo) {
  const std::int64_t each = bytes_of_one();
  ASSERT_GT(each, 0);
  const auto set = with({.most_bytes = 2 * each}, 3);
  auto a = set->use("a", *model_).value(), b = set->use("b", *model_).value();
  const auto refused = set->use("c", *model_);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, Error::Kind::busy);
  EXPECT_NE(refused.error().message.find("max-lora-memory"), std::string::npos);
  EXPECT_EQ(loaded(*set), "ab");
  b.reset();
  EXPECT_TRUE(set->use("c", *model_).ok());
  EXPECT_EQ(loaded(*set), "ac");
  EXPECT_LE(set->counts().bytes, 2 * each);
}

TEST_F(AdapterSets, OneThatCannotBeReadIsAnErrorEachTimeAndLeavesTheOthers) {
  const auto set = with({.most_rank = 8}, 1);
  ASSERT_TRUE(set->add({.name = "wide", .path = written("wide", 1, 16)}).ok());
  ASSERT_TRUE(set->add({.name = "narrow", .path = written("narrow", 1, 4, 60)}).ok());
  ASSERT_TRUE(set->add({.name = "gone", .path = (folder_.path() / "nowhere").string()}).ok());
  for (const char* name : {"wide", "narrow", "gone", "wide"}) {
    const auto failed = set->use(name, *model_);
    ASSERT_FALSE(failed.ok()) << name;
    EXPECT_NE(failed.error().message.find(name), std::string::npos) << failed.error().message;
  }
  EXPECT_EQ(set->counts().failures, 4u);
  EXPECT_TRUE(set->use("a", *model_).ok());
  written("gone");
  ASSERT_TRUE(set->remove("gone").ok());
  EXPECT_FALSE(set->load({.name = "gone", .path = written("wide", 1, 16)}, *model_).ok());
  EXPECT_FALSE(set->find("gone")) << "what could not be loaded is not there";
}

TEST_F(AdapterSets, WhatIsDroppedOrReplacedLivesAsLongAsItIsUsed) {
  const auto set = with({}, 1);
  auto used = set->use("a", *model_).value();
  const std::weak_ptr<const LoraAdapter> old = used;
  ASSERT_TRUE(set->remove("a").ok());
  EXPECT_FALSE(set->find("a"));
  EXPECT_EQ(set->use("a", *model_).error().kind, Error::Kind::not_found);
  EXPECT_EQ(set->remove("a").error().kind, Error::Kind::not_found);
  ASSERT_TRUE(set->load({.name = "a", .path = written("a2", 3)}, *model_).ok());
  EXPECT_FALSE(set->load({.name = "a", .path = written("a3", 4)}, *model_).ok()) << "the name is taken";
  const auto second = set->use("a", *model_).value();
  ASSERT_TRUE(set->load({.name = "a", .path = written("a3", 4)}, *model_, true).ok());
  EXPECT_NE(set->use("a", *model_).value(), second);
  EXPECT_FALSE(old.expired());
  used.reset();
  EXPECT_TRUE(old.expired());
}

TEST_F(AdapterSets, NamesAreFoundAloneAndBehindTheirModels) {
  AdapterSet set({}, models_);
  ASSERT_TRUE(set.add({.name = "a", .path = written("a")}).ok());
  ASSERT_TRUE(set.add({.name = "b:v2", .path = written("b"), .place = 1}).ok());
  for (const char* name : {"a", "a:latest", "toy:a"}) EXPECT_EQ(set.find(name).value().name, "a") << name;
  EXPECT_EQ(set.find("b:v2").value().place, 1);
  EXPECT_EQ(set.find("other:b:v2").value().name, "b:v2");
  for (const char* name : {"", "other:a", "toy", "a:b", "toy:"}) EXPECT_FALSE(set.find(name)) << name;
  for (const char* name : {"a", "toy", "default", ""}) EXPECT_FALSE(set.add({.name = name, .path = "/x"}).ok()) << name;
}

TEST_F(AdapterSets, TheFolderIsLookedAtByWhoNeedsIt) {
  int asides = 0;
  std::function<void()> look;
  AdapterSet set({.folder = folder_.path().string()}, models_, [&](std::function<void()> work) {
    ++asides;
    look = std::move(work);
    return true;
  });
  written("first");
  folder_.write("half/adapter_config.json", "{}");
  folder_.write(".hidden/adapter_config.json", "{}");
  folder_.write("toy/adapter_config.json", "{}");
  folder_.write("toy/adapter_model.safetensors", "");
  EXPECT_TRUE(set.list().empty()) << "who must not wait is told what is known";
  EXPECT_FALSE(set.find_known("first"));
  EXPECT_EQ(asides, 1) << "and somebody is asked to look, once";
  look();
  ASSERT_EQ(set.list().size(), 1u);
  EXPECT_EQ(set.list()[0].name, "first");
  EXPECT_TRUE(set.find_known("first"));
  const auto used = set.use("first", *model_);
  ASSERT_TRUE(used.ok()) << used.error().message;
  written("second");
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));
  EXPECT_TRUE(set.find("second")) << "who names one looks at once";
  written("first", 0.5f, 8);  // has another size
  std::filesystem::remove_all(folder_.path() / "second");
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));
  EXPECT_FALSE(set.find("second"));
  ASSERT_TRUE(set.find("first"));
  EXPECT_EQ(set.use_if_loaded("first", *model_), nullptr) << "a changed one is read again";
  EXPECT_NE(set.use("first", *model_).value(), *used);
  ASSERT_TRUE(set.remove("first").ok());
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));
  EXPECT_FALSE(set.find("first")) << "what a client unloads stays away until its files change";
}

TEST_F(AdapterSets, OfAFolderAndAFileOfOneNameTheFolderCountsAndStays) {
  written("twice");
  folder_.write("twice.gguf", "GGUF");
  AdapterFolder folder(folder_.path().string());
  for (int i = 0; i < 2; ++i) {
    const auto& there = folder.look();
    ASSERT_EQ(there.size(), 1u);
    EXPECT_EQ(there.at("twice").path, (folder_.path() / "twice").string());
  }
}

TEST_F(AdapterSets, ClientsNameWhatLiesBelowTheFolder) {
  written("in/deep");
  const testing::TempFolder elsewhere;
  elsewhere.write("x/adapter_config.json", "{}");
  std::filesystem::create_directory_symlink(elsewhere.path() / "x", folder_.path() / "link");
  const AdapterSet set({.folder = folder_.path().string()}, models_), without({}, models_);
  EXPECT_TRUE(set.below_folder("in/deep").ok());
  EXPECT_TRUE(set.below_folder((folder_.path() / "in" / "deep").string()).ok());
  for (const std::string& path : {std::string("../x"), std::string("link"), std::string(""), std::string("in/../.."),
                                  (elsewhere.path() / "x").string(), std::string("in\0/deep", 8)})
    EXPECT_EQ(set.below_folder(path).error().kind, Error::Kind::not_found) << path;
  EXPECT_EQ(without.below_folder("in/deep").error().kind, Error::Kind::forbidden);
}

TEST_F(AdapterSets, ABodyNamesOneForAllOrOneForEachPrompt) {
  const auto set = with({}, 2);
  const auto named = [&](const char* body, AdapterUse use, std::string_view model = "") -> Result<NamedAdapters> {
    const Json parsed = Json::parse(body);
    ESP_TRY(const auto target, NamedAdapters::target(*set, models_, model, parsed));
    ESP_TRY(NamedAdapters names, NamedAdapters::of(*set, target, model, parsed, use));
    ESP_CHECK(names.load(*set, *model_));
    return names;
  };
  const auto a = set->use("a", *model_).value(), b = set->use("b", *model_).value();
  const auto one = named(R"({"lora_path": "a"})", AdapterUse::one);
  EXPECT_EQ(one->get(), a);
  EXPECT_EQ(one->get(5), a);
  EXPECT_EQ(named(R"({"lora_path": "b"})", AdapterUse::one, "a")->get(), b) << "counts before model";
  EXPECT_EQ(named(R"({"lora_path": ["b"]})", AdapterUse::one)->get(), b);
  EXPECT_EQ(named("{}", AdapterUse::one, "toy:a")->get(), a);
  EXPECT_EQ(named("{}", AdapterUse::one)->get(), nullptr);
  EXPECT_EQ(named(R"({"lora": [{"id": 1, "scale": 1}]})", AdapterUse::one, "a")->get(), b);
  EXPECT_EQ(named(R"({"lora_path": "a"})", AdapterUse::named)->get(), nullptr) << "only names are looked at";
  const auto each = named(R"({"lora_path": ["a", null, "b"]})", AdapterUse::each, "b");
  EXPECT_EQ(each->get(0), a);
  EXPECT_EQ(each->get(1), b) << "of the model";
  EXPECT_EQ(each->get(2), b);
  EXPECT_TRUE(each->check_count(3).ok());
  EXPECT_EQ(each->check_count(2).error().field, "lora_path");
  for (const char* wrong : {R"({"lora_path": ["a", "b"]})", R"({"lora_path": 5})", R"({"lora_path": [5]})",
                            R"({"lora_path": "c"})", R"({"lora_path": {"a": 1}})"}) {
    const auto refused = named(wrong, AdapterUse::one);
    ASSERT_FALSE(refused.ok()) << wrong;
    EXPECT_TRUE(refused.error().field.starts_with("lora_path")) << refused.error().field;
  }
}

}  // namespace
}  // namespace espalier::server::adapter_set_test
