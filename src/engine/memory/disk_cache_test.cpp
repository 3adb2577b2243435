// The disk tier under the engine: results are the same bits with it and without, over restarts, under memory pressure
// and with requests that come and go; and the key that keeps foreign files out.
#include "engine/memory/disk_cache.h"

#include <gtest/gtest.h>

#include <fstream>
#include <mutex>
#include <random>
#include <thread>

#include "base/log.h"
#include "cache/testing/test_folder.h"
#include "engine/memory/kv_copy.h"
#include "engine/step/core_requests.h"
#include "espalier/stream.h"

namespace espalier::disk_cache_test {
namespace {

using testing::Answers;
using testing::expect_all_finished;
using testing::GoldenModel;
using testing::random_arrivals;
using testing::random_request;
using testing::random_tokens;
using testing::request;

// A core with a disk tier of its own.
class TieredCore : public testing::CoreHarness {
 public:
  TieredCore(GoldenModel& model, CoreOptions options, int slots, KvType type, const std::filesystem::path& folder,
             FileFault fault = {})
      : CoreHarness(model, std::move(options), slots, type),
        copier_(pool(), model.team),
        window_copier_(window_pool(), model.team) {
    DiskTierOptions tier;
    tier.base = folder;
    tier.keep = true;
    tier.key = "test";
    tier.capacity = 256 << 20;
    tier.block_bytes = std::max(copier_.block_bytes(), window_copier_.window_block_bytes() / 16);
    tier.fault = std::move(fault);
    tier.weighs = false;  // the model is so small that computing is quicker now and then
    core.attach(DiskTier::open(std::move(tier), metrics.disk).value(), copier_,
                window_pool().bytes() > 0 ? &window_copier_ : nullptr, true);
  }
  void run() {
    for (int i = 0; i < 200'000 && !core.idle(); ++i)
      if (!step()) std::this_thread::sleep_for(std::chrono::microseconds(200));  // a load goes on
    EXPECT_TRUE(core.idle());
  }
  static DiskTier::Time soon() { return std::chrono::steady_clock::now() + std::chrono::seconds(20); }

 private:
  KvCopier copier_;
  WindowKvCopier window_copier_;
};

// Every second one is sampled with a seed, the others stay greedy.
RequestFields sampled_in_turn(RequestFields fields, int number) {
  if (number % 2 == 0) return fields;
  fields.sampling.temperature = 0.9;
  fields.sampling.seed = static_cast<std::uint64_t>(number);
  return fields;
}

// Five long beginnings, each used several times in turn, so that a small pool has always lost the one that is next.
std::vector<RequestFields> turns(int vocabulary) {
  std::mt19937_64 rng(11);
  std::vector<std::vector<TokenId>> beginnings;
  for (int i = 0; i < 5; ++i) beginnings.push_back(random_tokens(rng, 150 + 13 * i, vocabulary));
  std::vector<RequestFields> all;
  for (int i = 0; i < 20; ++i) {
    auto prompt = beginnings[static_cast<std::size_t>(i) % 5];
    if (i % 3 == 1) prompt.resize(prompt.size() - 29);
    const auto tail = random_tokens(rng, 1 + i % 4 * 9, vocabulary);
    prompt.insert(prompt.end(), tail.begin(), tail.end());
    all.push_back(sampled_in_turn(request(std::move(prompt), 3 + i % 5), i));
    if (i % 7 == 3) all.back().logprobs.prompt_start = 20;
    if (i % 6 == 5) all.back().scope = "tenant";
  }
  return all;
}

Answers alone(GoldenModel& model, KvType type) {
  Answers all;
  for (auto& fields : turns(model.vocabulary)) {
    testing::CoreHarness harness(model, {}, 2048, type);
    harness.add(fields);
    harness.run();
    all.push_back(harness.answers[0]);
  }
  return all;
}

class SameBitsFromDisk : public ::testing::TestWithParam<std::tuple<const char*, Activations, KvType, int>> {
 protected:
  testing::TestFolder folder_{testing::TestFolder::Where::memory};
};

TEST_P(SameBitsFromDisk, InTurnsInABurstAndAfterARestart) {
  const auto [name, mode, type, window_slots] = GetParam();
  GoldenModel model(name, mode, 2);
  if (!model.decoder) GTEST_SKIP() << "left out: no goldens of " << name << " here";
  const Answers expected = alone(model, type);
  const auto requests = turns(model.vocabulary);
  CoreOptions options;
  options.window_slots = window_slots;
  if (window_slots > 0) options.prefill_chunk = 64;
  std::uint64_t computed = 0;
  {
    TieredCore tiered(model, options, 320, type, folder_.path());
    for (const auto& fields : requests) {
      tiered.add(fields);
      tiered.run();
    }
    EXPECT_EQ(tiered.answers, expected) << "one after another in a small pool";
    EXPECT_GT(tiered.metrics.disk.loaded_tokens.value(), 0u);
    computed = tiered.metrics.computed_tokens.value();
    tiered.core.save_cache(TieredCore::soon());
  }
  {
    TieredCore tiered(model, options, 320, type, folder_.path());
    for (const auto& fields : requests) tiered.add(fields);
    tiered.run();
    EXPECT_EQ(tiered.answers, expected) << "a burst after a restart";
    EXPECT_GT(tiered.metrics.disk.loaded_tokens.value(), 0u);
    EXPECT_LT(tiered.metrics.computed_tokens.value(), computed);
    EXPECT_EQ(tiered.metrics.disk.damaged_files.value(), 0u);
  }
  testing::CoreHarness memory_only(model, {}, 320, type);
  for (const auto& fields : requests) memory_only.add(fields);
  memory_only.run();
  EXPECT_EQ(memory_only.answers, expected);
}

INSTANTIATE_TEST_SUITE_P(
    Models, SameBitsFromDisk,
    ::testing::Values(std::tuple("models/llama3-tied-gqa", Activations::f32, KvType::f32, 0),
                      std::tuple("models/llama3-tied-gqa", Activations::int8, KvType::bf16, 0),
                      std::tuple("models/mistral-sliding", Activations::f32, KvType::f16, 0),
                      std::tuple("models/qwen3-tied", Activations::int8, KvType::i8, 0),
                      std::tuple("gguf/gguf-smollm2/gguf-smollm2-Q8_0.gguf", Activations::int8, KvType::f8_e4m3, 0),
                      std::tuple("gguf/gguf-smollm2/gguf-smollm2-Q8_0.gguf", Activations::f32, KvType::f8_e5m2, 0),
                      std::tuple("models/gemma3-v5", Activations::f32, KvType::f32, 192),  // in window slots
                      std::tuple("models/gemma3-v5", Activations::int8, KvType::bf16, 192),
                      std::tuple("models/mistral-sliding", Activations::f32, KvType::i8, 192),
                      std::tuple("models/gpt-oss", Activations::f32, KvType::f16, 192)));

class DiskCacheOnTinyModel : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!model.decoder) GTEST_SKIP() << "left out: no goldens here";
    log::configure(log::Level::error, log::Format::text);
  }
  std::vector<TokenId> prompt(int n) { return random_tokens(rng, n, model.vocabulary); }
  GoldenModel model{"models/llama3-tied-gqa", Activations::f32};
  std::mt19937_64 rng{testing::seed()};
  testing::TestFolder folder{testing::TestFolder::Where::memory};
};

TEST_F(DiskCacheOnTinyModel, APromptIsReusedAfterARestartUpToItsLastWholeBlock) {
  const auto tokens = prompt(300);
  {
    TieredCore tiered(model, {}, 1024, KvType::bf16, folder.path());
    tiered.add(request(tokens, 4));
    tiered.run();
    EXPECT_EQ(tiered.core.save_cache(TieredCore::soon()), 288);
  }
  TieredCore tiered(model, {}, 1024, KvType::bf16, folder.path());
  tiered.add(request(tokens, 4));
  tiered.run();
  EXPECT_EQ(tiered.answers[0][0].finish.usage.cached_tokens, 288);
  EXPECT_EQ(tiered.answers[0][0].finish.usage.disk_tokens, 288);
  tiered.add(request(tokens, 4));
  tiered.run();
  EXPECT_EQ(tiered.answers[1][0].finish.usage.cached_tokens, 299);
  EXPECT_EQ(tiered.answers[1][0].finish.usage.disk_tokens, 0) << "it is in memory by now";
}

TEST_F(DiskCacheOnTinyModel, AFlushedCacheIsFlushedOnDiskToo) {
  const auto tokens = prompt(300);
  TieredCore tiered(model, {}, 1024, KvType::bf16, folder.path());
  tiered.add(request(tokens, 4));
  tiered.run();
  tiered.core.save_cache(TieredCore::soon());
  EXPECT_TRUE(tiered.core.flush_cache());
  EXPECT_EQ(tiered.core.status().free_tokens, 1024);
  tiered.add(request(tokens, 4));
  tiered.run();
  EXPECT_EQ(tiered.answers[1][0].finish.usage.cached_tokens, 0);
  EXPECT_EQ(tiered.answers[0], tiered.answers[1]);
}

TEST_F(DiskCacheOnTinyModel, AFailingDiskDisturbsNobody) {
  std::atomic<int> calls{0};
  TieredCore tiered(model, {}, 320, KvType::bf16, folder.path(), [&](FileCall) { return ++calls > 12 ? EIO : 0; });
  const auto requests = turns(model.vocabulary);
  for (const auto& fields : requests) {
    tiered.add(fields);
    tiered.run();
  }
  EXPECT_EQ(tiered.answers, alone(model, KvType::bf16));
  EXPECT_EQ(tiered.metrics.disk.on.value(), 0);
}

TEST_F(DiskCacheOnTinyModel, RandomArrivalsAndDeparturesInAFullPoolKeepEveryInvariant) {
  CoreOptions options;
  options.prefill_chunk = 48;
  options.conservativeness = 0.1;
  options.max_running = 9;
  TieredCore tiered(model, options, 400, KvType::bf16, folder.path());
  std::vector<std::vector<TokenId>> systems;
  for (int i = 0; i < 6; ++i) systems.push_back(prompt(40 + 37 * i));
  random_arrivals(tiered, rng, 500, [&](int i) {
    auto beginning = rng() % 4 ? systems[rng() % systems.size()] : std::vector<TokenId>{};
    return sampled_in_turn(random_request(rng, std::move(beginning), 60, model.vocabulary), i);
  });
  tiered.run();
  expect_all_finished(tiered);
}

// --- the whole engine ---

class EngineWithDiskCache : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto golden = testing::golden("models/llama3-tied-gqa");
    if (golden.empty()) GTEST_SKIP() << "left out: no goldens here";
    std::filesystem::copy(golden, model(), std::filesystem::copy_options::recursive);
    for (const auto& entry : std::filesystem::recursive_directory_iterator(model()))
      std::filesystem::permissions(entry.path(), std::filesystem::perms::owner_write,
                                   std::filesystem::perm_options::add);
    options.model_path = model().string();
    options.threads = 1;
    options.max_total_tokens = 2048;
    options.cache_dir = (folder.path() / "cache").string();
    options.cache_disk_bytes = 64 << 20;
  }
  std::filesystem::path model() const { return folder.path() / "model"; }

  // Opens an engine, asks one thing, ends it. How many tokens of the prompt it had.
  int cached_after_start(const EngineOptions& with) {
    auto engine = Engine::open(with);
    EXPECT_TRUE(engine.ok()) << (engine.ok() ? "" : engine.error().message);
    if (!engine.ok()) return -1;
    RequestFields fields;
    for (int i = 0; i < 200; ++i) fields.prompt.push_back(3 + i % 100);
    fields.sampling.max_new_tokens = 5;
    fields.sampling.temperature = 0;
    fields.sampling.ignore_eos = true;
    auto made = Request::make(fields, (*engine)->model().limits);
    Stream stream = (*engine)->submit(std::move(made).value()).value();
    std::vector<TokenId> tokens;
    int cached = -1;
    while (cached < 0 && stream.wait(std::chrono::seconds(60))) {
      for (StreamEvent& event : stream.take()) {
        if (auto* token = std::get_if<TokenEvent>(&event)) tokens.push_back(token->id);
        if (auto* end = std::get_if<FinishEvent>(&event)) cached = end->usage.cached_tokens;
      }
    }
    if (said.empty()) said = tokens;
    EXPECT_EQ(tokens, said);
    return cached;
  }

  testing::TestFolder folder{testing::TestFolder::Where::memory};
  EngineOptions options;
  std::vector<TokenId> said;
};

TEST_F(EngineWithDiskCache, ARestartKeepsItsPrefixesAndTheSameAnswer) {
  EXPECT_EQ(cached_after_start(options), 0);
  EXPECT_EQ(cached_after_start(options), 192);
  EngineOptions at_the_end_only = options;
  at_the_end_only.cache_disk_bytes = 0;
  EXPECT_EQ(cached_after_start(at_the_end_only), 192);
}

TEST_F(EngineWithDiskCache, WithoutAFolderNothingOutlivesTheEngine) {
  options.cache_dir.clear();
  options.cache_scratch = (folder.path() / "scratch").string();
  EXPECT_EQ(cached_after_start(options), 0);
  EXPECT_EQ(cached_after_start(options), 0);
  EXPECT_TRUE(std::filesystem::is_empty(options.cache_scratch));
}

TEST_F(EngineWithDiskCache, AnotherConfigurationFindsNothingOfIt) {
  EXPECT_EQ(cached_after_start(options), 0);
  const std::vector<TokenId> said_first = said;
  EngineOptions other = options;
  other.kv_type = "f16";
  said.clear();
  EXPECT_EQ(cached_after_start(other), 0);
  other = options;
  other.activations = "f32";
  said.clear();
  EXPECT_EQ(cached_after_start(other), 0);
  said = said_first;
  EXPECT_EQ(cached_after_start(options =
                                   [&] {
                                     EngineOptions same = options;
                                     same.threads = 2;
                                     return same;
                                   }()),
            192)
      << "threads change nothing";
}

TEST_F(EngineWithDiskCache, ChangedWeightsOrTokenizerFindNothingOfIt) {
  EXPECT_EQ(cached_after_start(options), 0);
  for (const char* file : {"model.safetensors", "tokenizer.json"}) {
    const auto path = model() / file;
    if (!std::filesystem::exists(path)) continue;
    std::filesystem::last_write_time(path, std::filesystem::last_write_time(path) + std::chrono::seconds(1));
    EXPECT_EQ(cached_after_start(options), 0) << file;
    EXPECT_EQ(cached_after_start(options), 192) << file;
  }
}

TEST_F(EngineWithDiskCache, AFolderThatCannotBeHadIsNoReasonNotToServe) {
  log::configure(log::Level::error, log::Format::text);
  {
    std::ofstream(folder.path() / "file") << "text";
  }
  options.cache_dir = (folder.path() / "file").string();
  EXPECT_EQ(cached_after_start(options), 0);
  options.cache_dir = (folder.path() / "cache").string();
  auto first = Engine::open(options);
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(cached_after_start(options), 0) << "another engine has the folder";
}

}  // namespace
}  // namespace espalier::disk_cache_test
