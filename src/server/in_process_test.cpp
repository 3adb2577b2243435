#include "server/in_process.h"

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <thread>

#include "espalier/json.h"

namespace espalier::server {
namespace {

using std::chrono::milliseconds;

// Waits for what a call is woken by.
struct WakeSignal {
  std::mutex mutex;
  std::condition_variable raised;
  int raises = 0;
  void raise() {
    const std::scoped_lock lock(mutex);
    ++raises;
    raised.notify_all();
  }
  bool wait() {
    std::unique_lock lock(mutex);
    const bool there = raised.wait_for(lock, std::chrono::seconds(60), [this] { return raises > 0; });
    raises = 0;
    return there;
  }
};

class InProcessTest : public ::testing::Test {
 protected:
  void SetUp() override {
    EngineOptions options;
    options.model_path = std::string(std::getenv("ESPALIER_SOURCE_DIR")) + "/tests/data/goldens/models/llama3-tied-gqa";
    options.threads = 1;
    auto engine = Engine::open(options);
    ASSERT_TRUE(engine.ok()) << engine.error().message;
    auto started = InProcess::start({}, std::move(*engine), "tiny");
    ASSERT_TRUE(started.ok()) << started.error().message;
    routes_ = std::move(*started);
  }

  struct Answer {
    int status = 0;
    bool whole = false;
    std::string body;
  };
  Answer ask(net::Method method, std::string_view path, std::string body = {}) {
    const auto signal = std::make_shared<WakeSignal>();  // the last notification may end behind what it told of
    Answer answer;
    auto call = routes_->call(method, path, std::move(body), [signal] { signal->raise(); });
    while (!call.ended())
      if (!call.take(answer.body) && !signal->wait()) ADD_FAILURE() << "nothing came";
    answer.status = call.status();
    answer.whole = call.whole();
    return answer;
  }

  std::unique_ptr<InProcess> routes_;
};

TEST_F(InProcessTest, AnswersAsTheServerDoes) {
  const Answer answer = ask(net::Method::post, "/generate",
                            R"({"text": "Hello", "sampling_params": {"max_new_tokens": 3, "temperature": 0}})");
  EXPECT_EQ(answer.status, 200);
  EXPECT_TRUE(answer.whole);
  const Json reply = Json::parse(answer.body);
  EXPECT_EQ(reply["meta_info"]["completion_tokens"], reply["output_ids"].size());
}

TEST_F(InProcessTest, RefusesInTheServersWords) {
  const Answer answer =
      ask(net::Method::post, "/generate", R"({"text": "Hello", "sampling_params": {"temperature": -1}})");
  EXPECT_EQ(answer.status, 400);
  EXPECT_NE(Json::parse(answer.body)["error"]["message"].get<std::string>().find("temperature"), std::string::npos);
  EXPECT_EQ(ask(net::Method::get, "/no/such/route").status, 404);
  EXPECT_EQ(ask(net::Method::get, "/generate").status, 405);
}

TEST_F(InProcessTest, StreamsEvents) {
  const Answer answer = ask(net::Method::post, "/generate",
                            R"({"text": "Hello", "stream": true, "sampling_params": {"max_new_tokens": 4}})");
  EXPECT_EQ(answer.status, 200);
  EXPECT_TRUE(answer.body.starts_with("data: {"));
  EXPECT_TRUE(answer.body.ends_with("data: [DONE]\n\n"));
}

TEST_F(InProcessTest, ADroppedCallIsCancelled) {
  {
    const auto signal = std::make_shared<WakeSignal>();
    const auto call = routes_->call(
        net::Method::post, "/generate",
        R"({"text": "Hello", "stream": true, "sampling_params": {"max_new_tokens": 400, "ignore_eos": true}})",
        [signal] { signal->raise(); });
    EXPECT_TRUE(signal->wait());
  }
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (routes_->engine()->status().running > 0) {
    ASSERT_LT(std::chrono::steady_clock::now(), end) << "it went on";
    std::this_thread::sleep_for(milliseconds(1));
  }
}

TEST_F(InProcessTest, TheEngineOutlivesTheRoutes) {
  const std::shared_ptr<Engine> engine = routes_->engine();
  routes_.reset();
  EXPECT_GT(engine->model().limits.vocabulary, 0);
}

}  // namespace
}  // namespace espalier::server
