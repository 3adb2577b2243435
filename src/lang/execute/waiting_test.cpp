// How waits end before what they wait for is there, and how one is told instead of waiting.
#include "lang/execute/waiting.h"

#include <gtest/gtest.h>

#include <future>
#include <stdexcept>

#include "espalier/program.h"
#include "lang/backends/scripted_backend.h"
#include "lang/batch/batch.h"

namespace espalier {
namespace {

using testing::ScriptedBackend;

std::shared_ptr<ScriptedBackend> held_back() {
  auto backend = ScriptedBackend::make([](const std::string&, const GenCall&) { return Result<std::string>("value"); });
  backend->hold();
  return backend;
}

struct Interrupted : std::runtime_error {
  Interrupted() : std::runtime_error("the host wants its thread") {}
};

struct Hook {
  explicit Hook(std::function<void()> hook) { lang::set_wait_hook(std::move(hook)); }
  ~Hook() { lang::set_wait_hook({}); }
};

TEST(Waiting, WhatTheHostThrowsEndsAWaitAndLeavesTheState) {
  const auto backend = held_back();
  State state = run([](State& s) { s += "x" + gen("a"); }, {.backend = backend});
  {
    const Hook hook([] { throw Interrupted(); });
    EXPECT_THROW(state.sync(), Interrupted);
    EXPECT_THROW((void)state["a"].text(), Interrupted);
    EXPECT_THROW((void)state.text(), Interrupted);
    EXPECT_THROW((void)state.meta("a"), Interrupted);
    EXPECT_THROW((void)state.pieces().next(), Interrupted);
  }
  backend->release();
  EXPECT_EQ(state["a"].text(), "value");
}

TEST(Waiting, PiecesTellWhenTheyAreReady) {
  const auto backend = held_back();
  State state = run([](State& s) { s += "x" + gen("a"); }, {.backend = backend});
  Pieces pieces = state.pieces("a");
  std::promise<void> ready;
  pieces.when_ready([&ready] { ready.set_value(); });
  auto told = ready.get_future();
  EXPECT_EQ(told.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  backend->release();
  ASSERT_EQ(told.wait_for(std::chrono::seconds(60)), std::future_status::ready);
  EXPECT_EQ(pieces.next()->text, "value");
  EXPECT_FALSE(pieces.next());
  bool at_once = false;
  pieces.when_ready([&at_once] { at_once = true; });
  EXPECT_TRUE(at_once);
}

TEST(Waiting, ABatchThatIsDroppedCallsItsFunctionsAway) {
  const auto backend = held_back();
  const Function waits([](State& s) {
    s += "x" + gen("a");
    (void)s["a"].text();
  });
  {
    lang::Batch batch(50, 4, {.ahead = 50}, [&](std::size_t) { return waits.run({}, {.backend = backend}); });
  }
  EXPECT_LE(backend->prompts().size(), 4u);  // nobody went on
}

TEST(Waiting, AFailureOfOneFunctionCallsTheOthersAway) {
  const auto backend = held_back();
  const Function waits([](State& s) {
    s += "x" + gen("a");
    (void)s["a"].text();
  });
  lang::Batch batch(3, 3, {.ahead = 3}, [&](std::size_t i) {
    if (i == 2) throw std::out_of_range("two");
    return waits.run({}, {.backend = backend});
  });
  EXPECT_THROW((void)batch.next(), std::out_of_range);
}

}  // namespace
}  // namespace espalier
