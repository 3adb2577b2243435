// The engine with its thread, over real model files, as a server uses it.
#include "espalier/engine.h"

#include <gtest/gtest.h>

#include <future>
#include <map>
#include <random>
#include <regex>
#include <thread>

#include "engine/engine_metrics.h"
#include "engine/stream/text_stream.h"
#include "testing/data.h"
#include "text/tokenizer/tokenizer.h"

namespace espalier::engine_test {
namespace {

class EngineOnTinyModel : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto folder = testing::golden("models/llama3-tied-gqa");
    if (folder.empty()) GTEST_SKIP() << "left out: no goldens here";
    options.model_path = folder.string();
    options.threads = 2;
    options.max_total_tokens = 4096;
  }
  void open() {
    auto opened = Engine::open(options);
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    engine = std::move(opened).value();
  }
  Result<Request> request(const std::string& text, int max_new_tokens) {
    RequestFields fields;
    fields.prompt = engine->tokenizer()->encode(text).value();
    fields.sampling.max_new_tokens = max_new_tokens;
    fields.sampling.temperature = 0;
    fields.sampling.ignore_eos = true;
    return Request::make(std::move(fields), engine->model().limits);
  }
  // All text of a request's first choice, and how it ended.
  std::pair<std::string, TextEnd> read(TextStream& stream) {
    std::pair<std::string, TextEnd> out;
    while (!stream.finished()) {
      EXPECT_TRUE(stream.stream().wait(std::chrono::seconds(60)));
      for (TextEvent& event : stream.take()) {
        if (auto* delta = std::get_if<TextDelta>(&event)) out.first += delta->text;
        if (auto* end = std::get_if<TextEnd>(&event)) {
          out.first += end->text;
          out.second = *end;
        }
      }
    }
    return out;
  }
  std::pair<std::string, TextEnd> complete(RequestFields fields) {
    auto made = Request::make(std::move(fields), engine->model().limits);
    EXPECT_TRUE(made.ok()) << (made.ok() ? "" : made.error().message);
    const TextRules rules(*made, engine->tokenizer());
    auto stream = engine->submit(std::move(made).value());
    EXPECT_TRUE(stream.ok());
    TextStream text(std::move(stream).value(), rules);
    return read(text);
  }
  void wait_until_idle() {
    for (int i = 0; i < 1000; ++i) {
      const EngineStatus status = engine->status();
      if (status.running == 0 && status.waiting == 0) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    ADD_FAILURE() << "the engine did not become idle";
  }

  EngineOptions options;
  std::unique_ptr<Engine> engine;
};

TEST_F(EngineOnTinyModel, SixtyFourStreamsFromManyThreadsAllFinishAlike) {
  open();
  auto alone = request("hello there", 20);
  const TextRules rules(*alone, engine->tokenizer());
  TextStream first(engine->submit(std::move(alone).value()).value(), rules);
  const std::string want = read(first).first;
  std::vector<std::thread> clients;
  std::atomic<int> right{0};
  for (int i = 0; i < 64; ++i)
    clients.emplace_back([&] {
      auto made = request("hello there", 20);
      TextStream text(engine->submit(std::move(made).value()).value(), rules);
      right += read(text).first == want;
    });
  for (auto& client : clients) client.join();
  EXPECT_EQ(right, 64);
  wait_until_idle();
  EXPECT_TRUE(engine->check().ok());
}

// Two engines of different families step in turn on one team, and one is opened and closed meanwhile: the bits of each
// are those that it gives alone.
TEST_F(EngineOnTinyModel, EnginesThatShareATeamAnswerAsIfAlone) {
  const auto other_folder = testing::golden("models/qwen3-tied");
  const auto ask = [](Engine& of, int i) {
    RequestFields fields;
    fields.prompt = {5, 9, 12 + i, 40, 7};
    fields.sampling.max_new_tokens = 24;
    fields.sampling.temperature = 0;
    fields.sampling.ignore_eos = true;
    auto made = Request::make(std::move(fields), of.model().limits);
    EXPECT_TRUE(made.ok());
    const TextRules rules(*made, of.tokenizer());
    return TextStream(of.submit(std::move(made).value()).value(), rules);
  };
  constexpr int kPrompts = 4;
  std::map<std::string, std::vector<std::string>> want;
  const std::string folders[] = {options.model_path, other_folder.string()};
  for (const std::string& folder : folders) {
    options.model_path = folder;
    open();
    for (int i = 0; i < kPrompts; ++i) {
      TextStream alone = ask(*engine, i);
      want[folder].push_back(read(alone).first);
    }
  }
  engine.reset();
  auto team = start_shared_team(options);
  ASSERT_TRUE(team.ok());
  const auto check = [&](const std::string& folder) {
    EngineOptions own = options;
    own.model_path = folder;
    auto opened = Engine::open(own, {}, *team);
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    std::vector<TextStream> streams;
    for (int i = 0; i < 2 * kPrompts; ++i) streams.push_back(ask(**opened, i % kPrompts));
    for (int i = 0; i < 2 * kPrompts; ++i)
      EXPECT_EQ(read(streams[static_cast<std::size_t>(i)]).first, want[folder][static_cast<std::size_t>(i % kPrompts)]);
  };
  std::vector<std::thread> users;
  for (int i = 0; i < 4; ++i)
    users.emplace_back([&, i] {
      for (int round = 0; round < 3; ++round) check(folders[i % 2]);
    });
  for (auto& user : users) user.join();
}

TEST_F(EngineOnTinyModel, DroppedStreamsFreeTheirSlots) {
  open();
  {
    std::vector<Stream> streams;
    for (int i = 0; i < 40; ++i)
      streams.push_back(engine->submit(request("some prompt " + std::to_string(i), 300).value()).value());
    streams[0].wait(std::chrono::seconds(60));
  }
  wait_until_idle();
  const EngineStatus status = engine->status();
  EXPECT_EQ(status.pinned_tokens, 0);
  EXPECT_EQ(status.free_tokens + status.cached_tokens, status.pool_tokens);
  EXPECT_GE(engine->metrics().finished_abort.value(), 39u);
  EXPECT_TRUE(engine->flush_cache().ok());
  EXPECT_TRUE(engine->check().ok());
}

TEST_F(EngineOnTinyModel, ManyRequestsAreTakenAllOrNone) {
  options.max_running = 2;
  options.max_queued = 4;
  open();
  const auto batch = [&](int count, int tokens) {
    std::vector<Request> requests;
    for (int i = 0; i < count; ++i) requests.push_back(request("p" + std::to_string(i), tokens).value());
    return requests;
  };
  auto too_many = engine->submit(batch(7, 1));
  ASSERT_FALSE(too_many.ok());
  EXPECT_EQ(too_many.error().kind, Error::Kind::bad_request) << "trying again would not help";
  auto running = engine->submit(batch(4, 3000));
  ASSERT_TRUE(running.ok());
  auto later = engine->submit(batch(3, 1));
  ASSERT_FALSE(later.ok());
  EXPECT_EQ(later.error().kind, Error::Kind::busy);
  EXPECT_EQ(engine->metrics().finished_abort.value(), 0u);
  EXPECT_TRUE(engine->submit(batch(2, 1)).ok());
  EXPECT_EQ(engine->cancel("p"), 0);
}

TEST_F(EngineOnTinyModel, AFullQueueAndADrainingEngineRefuse) {
  options.max_running = 1;
  options.max_queued = 2;
  open();
  std::vector<Stream> streams;
  int refused = 0;
  for (int i = 0; i < 20; ++i) {
    auto stream = engine->submit(request("p" + std::to_string(i), 400).value());
    if (stream.ok()) {
      streams.push_back(std::move(stream).value());
      continue;
    }
    ++refused;
    EXPECT_EQ(stream.error().kind, Error::Kind::busy);
    EXPECT_EQ(stream.error().code, "queue_full");
  }
  EXPECT_GE(refused, 1);
  engine->drain();
  auto late = engine->submit(request("late", 1).value());
  ASSERT_FALSE(late.ok());
  EXPECT_EQ(late.error().kind, Error::Kind::unavailable);
}

TEST_F(EngineOnTinyModel, AbortMatchesThePrefixOfTheId) {
  open();
  auto made = request("x", 450);
  RequestFields fields = made->fields();
  fields.id = "job-17";
  auto stream = engine->submit(Request::make(fields, engine->model().limits).value());
  ASSERT_TRUE(stream.ok());
  EXPECT_EQ(engine->abort("nobody"), 0);
  EXPECT_EQ(engine->abort("job-"), 1);
  wait_until_idle();
}

TEST_F(EngineOnTinyModel, AbortWakesAReaderThatWaitsForACallback) {
  open();
  auto stream = engine->submit(request("never ends", 3000).value());
  ASSERT_TRUE(stream.ok());
  std::promise<void> ended;
  std::vector<StreamEvent> events;
  stream->on_ready([&] {
    for (StreamEvent& event : stream->take())
      if (std::holds_alternative<FinishEvent>(event)) ended.set_value();
  });
  EXPECT_EQ(engine->abort(""), 1);
  EXPECT_EQ(ended.get_future().wait_for(std::chrono::seconds(60)), std::future_status::ready);
}

TEST_F(EngineOnTinyModel, AStatedRandomSeedRepeatsRequestsWithoutOne) {
  options.random_seed = 7;
  auto texts = [&] {
    open();
    std::vector<std::string> out;
    for (int i = 0; i < 3; ++i) {
      RequestFields fields;
      fields.prompt = engine->tokenizer()->encode("same").value();
      fields.sampling.max_new_tokens = 16;
      fields.sampling.ignore_eos = true;
      out.push_back(complete(std::move(fields)).first);
    }
    return out;
  };
  const auto first = texts();
  EXPECT_EQ(texts(), first);
  EXPECT_NE(first[0], first[1]);
}

TEST_F(EngineOnTinyModel, TheTextEndsAtAStopStringAndCountsTokensUpToIt) {
  open();
  RequestFields fields;
  fields.prompt = engine->tokenizer()->encode("abc").value();
  fields.sampling.max_new_tokens = 60;
  fields.sampling.temperature = 0;
  fields.sampling.ignore_eos = true;
  const auto [whole, end] = complete(fields);
  EXPECT_EQ(end.reason, FinishReason::length);
  EXPECT_EQ(end.usage.completion_tokens, 60);
  std::string stop;  // some ASCII of the middle that does not occur before
  for (std::size_t at = whole.size() / 2; at + 2 < whole.size() && stop.empty(); ++at)
    if (const std::string piece = whole.substr(at, 2); whole.find(piece) == at &&
                                                       static_cast<unsigned char>(piece[0]) < 128 &&
                                                       static_cast<unsigned char>(piece[1]) < 128)
      stop = piece;
  ASSERT_FALSE(stop.empty()) << whole;
  fields.sampling.stop = {stop, "never seen"};
  const auto [cut, stopped] = complete(fields);
  EXPECT_EQ(cut, whole.substr(0, whole.find(stop)));
  EXPECT_EQ(stopped.reason, FinishReason::stop);
  EXPECT_EQ(stopped.matched_string, stop);
  EXPECT_LT(stopped.usage.completion_tokens, 60);
  fields.sampling.no_stop_trim = true;
  EXPECT_EQ(complete(fields).first, cut + stop);
}

TEST_F(EngineOnTinyModel, PatternsEndTheTextAtTheirFirstMatch) {
  open();
  RequestFields fields;
  fields.prompt = engine->tokenizer()->encode("abc").value();
  fields.sampling.max_new_tokens = 60;
  fields.sampling.temperature = 0;
  fields.sampling.ignore_eos = true;
  const std::string whole = complete(fields).first;
  const std::regex two_letters("[a-z]{2}");
  std::smatch first;
  ASSERT_TRUE(std::regex_search(whole, first, two_letters)) << whole;
  const auto at = static_cast<std::size_t>(first.position());
  fields.sampling.stop_regex = {"\\x00never", "[a-z]{2}"};
  const auto [cut, stopped] = complete(fields);
  EXPECT_EQ(cut, whole.substr(0, at));
  EXPECT_EQ(stopped.reason, FinishReason::stop);
  EXPECT_EQ(stopped.matched_string, "[a-z]{2}");
  EXPECT_LT(stopped.usage.completion_tokens, 60);
  fields.sampling.no_stop_trim = true;
  EXPECT_EQ(complete(fields).first, whole.substr(0, at + 2));
  fields.sampling.stop_regex = {"a("};
  const auto refused = Request::make(fields, engine->model().limits);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().field, "stop_regex");
}

TEST_F(EngineOnTinyModel, RefusalsNameTheFieldAndBothNumbers) {
  options.context_length = 64;
  open();
  RequestFields fields;
  fields.prompt.assign(64, 5);
  auto made = Request::make(fields, engine->model().limits);
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().code, "context_length_exceeded");
  EXPECT_NE(made.error().message.find("64"), std::string::npos);
  fields.prompt = {5, 1'000'000};
  EXPECT_EQ(Request::make(fields, engine->model().limits).error().field, "input_ids");
  fields.prompt = {5};
  fields.logprobs.prompt_start = 3;
  EXPECT_EQ(Request::make(fields, engine->model().limits).error().field, "logprob_start_len");
}

TEST_F(EngineOnTinyModel, OptionsThatMakeNoSenseAreRefusedByName) {
  options.kv_type = "fp3";
  EXPECT_EQ(Engine::open(options).error().field, "kv_cache_dtype");
  options.kv_type = "auto";
  options.schedule_policy = "best";
  EXPECT_EQ(Engine::open(options).error().field, "schedule_policy");
  options.schedule_policy = "lpm";
  options.model_path = "/nowhere/at/all";
  EXPECT_EQ(Engine::open(options).error().kind, Error::Kind::not_found);
}

TEST_F(EngineOnTinyModel, ThePoolTakesNoMoreThanItWasGiven) {
  options.max_total_tokens = 0;
  for (const std::int64_t mebibytes : {1, 3, 8}) {
    options.kv_memory = std::to_string(mebibytes) + "M";
    ASSERT_NO_FATAL_FAILURE(open());
    EXPECT_LE(engine->model().kv_bytes, mebibytes << 20);
    EXPECT_GT(engine->model().kv_bytes, mebibytes << 19);
  }
}

TEST_F(EngineOnTinyModel, DummyWeightsNeedOnlyAConfiguration) {
  const auto folder = std::filesystem::temp_directory_path() / ("espalier-dummy-" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  std::filesystem::copy_file(std::filesystem::path(options.model_path) / "config.json", folder / "config.json",
                             std::filesystem::copy_options::overwrite_existing);
  options.model_path = folder.string();
  options.load_format = "dummy";
  for (const char* type : {"auto", "q8_0", "q4_0", "f32"}) {
    options.dummy_type = type;
    open();
    EXPECT_EQ(engine->tokenizer(), nullptr);
    RequestFields fields;
    fields.prompt = {1, 2, 3};
    fields.sampling.max_new_tokens = 4;
    fields.sampling.ignore_eos = true;
    const auto made = Request::make(fields, engine->model().limits);
    auto stream = engine->submit(made.value());
    ASSERT_TRUE(stream.ok());
    TextStream text(std::move(stream).value(), TextRules(*made, nullptr));
    EXPECT_EQ(read(text).second.usage.completion_tokens, 4) << type;
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace espalier::engine_test
