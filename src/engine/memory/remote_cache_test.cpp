// Engines over real model files that share their prefixes through a real Redis.
#include "engine/memory/remote_cache.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "cache/testing/redis_server.h"
#include "cache/testing/test_folder.h"
#include "engine/engine_metrics.h"
#include "testing/data.h"

namespace espalier::remote_cache_test {
namespace {

class EnginesWithARemoteCache : public ::testing::Test {
 protected:
  void SetUp() override {
    if (testing::redis_program().empty())
      GTEST_SKIP() << "left out: there is no Redis server here (Debian: redis-tools)";
    model = testing::golden("models/llama3-tied-gqa");
    if (model.empty()) GTEST_SKIP() << "left out: no goldens here";
    redis.emplace();
    ASSERT_TRUE(redis->running());
    options.model_path = model.string();
    options.threads = 1;
    options.max_total_tokens = 2048;
    options.cache_remote = "unix://" + redis->address().path;
    options.cache_remote_reads = "always";
  }
  // The model's files in another folder, with other times.
  std::filesystem::path copy(const char* name) const {
    const auto to = folder.path() / name;
    std::filesystem::copy(model, to, std::filesystem::copy_options::recursive);
    for (const auto& entry : std::filesystem::recursive_directory_iterator(to))
      std::filesystem::permissions(entry.path(), std::filesystem::perms::owner_write,
                                   std::filesystem::perm_options::add);
    return to;
  }
  // Opens an engine, asks one thing, ends it. How many tokens of the prompt it had; what it said is always the same.
  int cached(const EngineOptions& with, std::string scope = "") {
    auto engine = Engine::open(with);
    EXPECT_TRUE(engine.ok()) << (engine.ok() ? "" : engine.error().message);
    if (!engine.ok()) return -1;
    RequestFields fields;
    for (int i = 0; i < 200; ++i) fields.prompt.push_back(3 + i % 100);
    fields.sampling.max_new_tokens = 40;
    fields.sampling.temperature = 0;
    fields.sampling.ignore_eos = true;
    fields.scope = std::move(scope);
    Stream stream = (*engine)->submit(Request::make(fields, (*engine)->model().limits).value()).value();
    std::vector<TokenId> tokens;
    int found = -1;
    while (found < 0 && stream.wait(std::chrono::seconds(60))) {
      for (StreamEvent& event : stream.take()) {
        if (auto* token = std::get_if<TokenEvent>(&event)) tokens.push_back(token->id);
        if (auto* end = std::get_if<FinishEvent>(&event)) found = end->usage.cached_tokens;
      }
    }
    if (said.empty()) said = tokens;
    EXPECT_EQ(tokens, said);
    EXPECT_TRUE((*engine)->check().ok());
    written = (*engine)->metrics().remote.written_tokens.value();
    return found;
  }

  std::filesystem::path model;
  testing::TestFolder folder{testing::TestFolder::Where::memory};
  std::optional<testing::RedisServer> redis;
  EngineOptions options;
  std::vector<TokenId> said;
  std::uint64_t written = 0;
};

TEST_F(EnginesWithARemoteCache, FindWhatOthersComputedAndSayTheSame) {
  EXPECT_EQ(cached(options), 0);
  EXPECT_EQ(cached(options), 192) << "the end of an engine gives what waits";
  EXPECT_EQ(cached(options, "tenant"), 0);
  EXPECT_EQ(cached(options, "tenant"), 192);
  options.cache_scratch = (folder.path() / "scratch").string();
  options.cache_disk_bytes = 64 << 20;
  options.cache_host_bytes = 64 << 20;
  EXPECT_EQ(cached(options), 192) << "beside a disk and the host's memory";
}

TEST_F(EnginesWithARemoteCache, ACopyOfTheModelOnAnotherMachineIsTheSameModel) {
  EXPECT_EQ(cached(options), 0);
  options.model_path = copy("another name").string();
  EXPECT_EQ(cached(options), 192);
}

TEST_F(EnginesWithARemoteCache, OtherConfigurationsAndWeightsShareNothing) {
  EXPECT_EQ(cached(options), 0);
  const auto nothing_of = [&](const EngineOptions& other) {
    said.clear();
    EXPECT_EQ(cached(other), 0);
  };
  EngineOptions other = options;
  other.kv_type = "f16";
  nothing_of(other);
  other = options;
  other.activations = "f32";
  nothing_of(other);
  other = options;
  other.cache_remote_prefix = "another fleet";
  nothing_of(other);
  other = options;
  const auto secret = folder.path() / "secret";
  std::ofstream(secret) << "of the fleet\n";
  other.cache_remote_secret_file = secret.string();
  nothing_of(other);
  other = options;
  const auto changed = copy("changed");
  {
    std::fstream weights(changed / "model.safetensors", std::ios::in | std::ios::out | std::ios::binary);
    weights.seekp(-64, std::ios::end);
    weights.put('\x11');
  }
  other.model_path = changed.string();
  nothing_of(other);
}

TEST_F(EnginesWithARemoteCache, AModelThatReadsThroughWindowsSharesWholeTokens) {
  const auto windowed = testing::golden("models/gemma2");
  if (windowed.empty()) GTEST_SKIP() << "left out: no goldens of it here";
  options.model_path = windowed.string();
  EXPECT_EQ(cached(options), 0);
  EXPECT_EQ(cached(options), 192);
}

TEST_F(EnginesWithARemoteCache, AModelThatKeepsStatesSharesNothingAndServes) {
  const auto recurrent = testing::data("goldens/models/n26-qwen3-next");
  if (recurrent.empty() || !std::filesystem::exists(recurrent)) GTEST_SKIP() << "left out: no goldens of it here";
  options.model_path = recurrent.string();
  EXPECT_EQ(cached(options), 0);
  EXPECT_EQ(written, 0u);
}

TEST_F(EnginesWithARemoteCache, WithoutItsServerAnEngineServesAlone) {
  EXPECT_EQ(cached(options), 0);
  redis->freeze();
  EXPECT_EQ(cached(options), 0);
  redis->kill();
  EXPECT_EQ(cached(options), 0);
}

TEST(RemoteWish, IsRefusedWhereItCannotBe) {
  EngineOptions options;
  EXPECT_FALSE(remote_wish(options)->has_value());
  options.cache_remote = "redis://host";
  EXPECT_TRUE(remote_wish(options)->has_value());
  const auto refused = [&](auto&& change) {
    EngineOptions other = options;
    change(other);
    const auto wish = remote_wish(other);
    EXPECT_FALSE(wish.ok());
    return wish.ok() ? std::string() : wish.error().field;
  };
  EXPECT_EQ(refused([](EngineOptions& o) { o.cache_remote = "host"; }), "cache-remote");
  EXPECT_EQ(refused([](EngineOptions& o) { o.cache_remote_policy = "never"; }), "cache_remote_policy");
  EXPECT_EQ(refused([](EngineOptions& o) { o.cache_remote_reads = "never"; }), "cache_remote_reads");
  EXPECT_EQ(refused([](EngineOptions& o) { o.cache_remote_password_file = "/nowhere"; }), "cache-remote-password-file");
  EXPECT_EQ(refused([](EngineOptions& o) { o.cache_remote_secret_file = "/dev/null"; }), "cache-remote-secret-file");
}

}  // namespace
}  // namespace espalier::remote_cache_test
