// Models that are loaded, used and unloaded by many at once: nobody fails, and nothing leaves while it is used.
#include "server/models/model_set.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <future>
#include <random>

#include "base/log.h"
#include "testing/data.h"

namespace espalier::server::model_set_test {
namespace {

using State = ModelState;

// Models without engines, which count themselves.
class Models {
 public:
  explicit Models(ModelSetLimits limits, int count = 3, std::int64_t bytes = 0) : set(std::move(limits)) {
    std::vector<ModelSource> sources;
    for (int i = 0; i < count; ++i) {
      const std::string name(1, static_cast<char>('a' + i));
      sources.push_back({{name}, "/" + name, bytes, [this, i, name](const Engine::Progress& progress) {
                           return load(i, name, progress);
                         }});
    }
    EXPECT_TRUE(set.add(std::move(sources)).ok());
  }

  // Waits for it as a request does.
  Result<std::shared_ptr<ServedModel>> get(int place) {
    if (auto model = set.use(place)) return model;
    struct Signal {
      std::mutex mutex;
      std::condition_variable raised;
      bool there = false;
    };
    const auto signal = std::make_shared<Signal>();
    auto wait = set.wait_for(place, [signal] {
      const std::scoped_lock lock(signal->mutex);
      signal->there = true;
      signal->raised.notify_all();
    });
    if (!wait.ok()) return wait.error();
    for (;;) {
      if (auto outcome = (*wait)->take()) return std::move(*outcome);
      std::unique_lock lock(signal->mutex);
      if (!signal->raised.wait_for(lock, std::chrono::seconds(60), [&] { return signal->there; }))
        return internal_error("nothing came in a minute");
      signal->there = false;
    }
  }

  State state(int place) const { return set.list()[static_cast<std::size_t>(place)].state; }
  void wait_until(int place, State wanted) const {
    for (int i = 0; i < 12000 && state(place) != wanted; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_EQ(state(place), wanted);
  }

  std::array<std::atomic<int>, 8> alive{}, loads{};
  std::atomic<int> loaded{0}, most{0};
  std::atomic<int> fail{0};  // so many loads fail
  std::atomic<Error::Kind> failure{Error::Kind::bad_file};
  std::shared_future<void> hold;  // loads wait for it; none: they do not
  ModelSet set;                   // last: its thread uses the above

 private:
  Result<std::shared_ptr<ServedModel>> load(int i, const std::string& name, const Engine::Progress& progress) {
    progress("reading", 0.5);
    if (hold.valid()) hold.wait();
    ++loads[static_cast<std::size_t>(i)];
    if (fail.fetch_sub(1) > 0) return Error{failure.load(), "no", {}, {}};
    ++fail;
    most = std::max(most.load(), ++loaded);
    ++alive[static_cast<std::size_t>(i)];
    std::shared_ptr<ServedModel> model(new ServedModel, [this, i](ServedModel* gone) {
      --alive[static_cast<std::size_t>(i)];
      --loaded;
      const std::unique_ptr<ServedModel> ended(gone);
    });
    model->names = {name};
    return model;
  }
};

TEST(ModelSet, NamesAreFoundAndOthersAreListed) {
  Models models({});
  EXPECT_EQ(models.set.place_of("b").value(), 1);
  for (const char* any : {"", "default", "unknown"}) EXPECT_EQ(models.set.place_of(any).value(), 0) << any;
  EXPECT_EQ(models.set.place_of("c:latest").value(), 2);
  const auto none = models.set.place_of("d");
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().code, "model_not_found");
  EXPECT_NE(none.error().message.find("a, b, c"), std::string::npos);
}

TEST(ModelSet, ANameGivenTwiceIsRefused) {
  ModelSet set({});
  EXPECT_FALSE(set.add({{{"a"}, "/x", 0, {}}, {{"a"}, "/y", 0, {}}}).ok());
}

TEST(ModelSet, AModelIsLoadedOnceForAllWhoWait) {
  Models models({});
  std::vector<std::thread> callers;
  std::atomic<int> had{0};
  for (int i = 0; i < 16; ++i)
    callers.emplace_back([&] {
      const auto model = models.get(1);
      had += model.ok() && (*model)->name() == "b";
    });
  for (auto& caller : callers) caller.join();
  EXPECT_EQ(had, 16);
  EXPECT_EQ(models.loads[1], 1);
}

TEST(ModelSet, TheLeastLatelyUsedIdleOneLeaves) {
  Models models({.most_loaded = 2, .free_bytes = {}});
  ASSERT_TRUE(models.get(0).ok());
  ASSERT_TRUE(models.get(1).ok());
  ASSERT_TRUE(models.get(0).ok());
  ASSERT_TRUE(models.get(2).ok());
  EXPECT_EQ(models.state(0), State::loaded);
  EXPECT_EQ(models.state(1), State::unloaded);
}

TEST(ModelSet, AModelThatIsUsedLeavesOnlyBehindItsLastUse) {
  Models models({.most_loaded = 1, .free_bytes = {}});
  auto first = models.get(0);
  ASSERT_TRUE(first.ok());
  std::thread other([&] { EXPECT_TRUE(models.get(1).ok()); });
  models.wait_until(0, State::unloading);
  EXPECT_EQ(models.alive[0], 1);
  EXPECT_EQ(models.set.use(0), nullptr);  // who comes now waits
  EXPECT_EQ(models.loads[1], 0);
  *first = nullptr;
  other.join();
  EXPECT_EQ(models.alive[0], 0);
  EXPECT_TRUE(models.get(0).ok());
}

TEST(ModelSet, UnloadingWaitsForUsesAndTheNextUseLoadsAgain) {
  Models models({});
  auto model = models.get(2);
  ASSERT_TRUE(model.ok());
  ASSERT_TRUE(models.set.unload(2).ok());
  EXPECT_EQ(models.state(2), State::unloading);
  std::thread later([&] { EXPECT_TRUE(models.get(2).ok()); });
  EXPECT_EQ(models.alive[2], 1);
  *model = nullptr;
  later.join();
  EXPECT_EQ(models.loads[2], 2);
  ASSERT_TRUE(models.set.unload(2).ok());
  models.wait_until(2, State::unloaded);
  EXPECT_EQ(models.alive[2], 0);
  ASSERT_TRUE(models.set.load(2).ok());
  models.wait_until(2, State::loaded);
}

TEST(ModelSet, AModelThatIsUnwantedWhileItIsLoadedLeavesBehindThoseWhoWaited) {
  Models models({});
  std::promise<void> go;
  models.hold = go.get_future().share();
  std::thread caller([&] { EXPECT_TRUE(models.get(1).ok()); });
  models.wait_until(1, State::loading);
  EXPECT_TRUE(models.set.unload(1).ok());
  go.set_value();
  caller.join();
  models.wait_until(1, State::unloaded);
  EXPECT_EQ(models.loads[1], 1);
}

TEST(ModelSet, AModelThatNobodyUsesLeavesAfterItsTime) {
  Models models({.idle_seconds = 0.05, .free_bytes = {}});
  {
    const auto model = models.get(0);
    ASSERT_TRUE(model.ok());
    EXPECT_TRUE(models.set.list()[0].expires_in.has_value());
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    EXPECT_EQ(models.state(0), State::loaded);  // it is used
  }
  models.wait_until(0, State::unloaded);
  ASSERT_TRUE(models.get(0).ok());
  ASSERT_TRUE(models.set.keep(0, -1).ok());
  EXPECT_FALSE(models.set.list()[0].expires_in.has_value());
  ASSERT_TRUE(models.set.keep(0, 0).ok());
  models.wait_until(0, State::unloaded);
}

TEST(ModelSet, LookingAtAModelIsNoUse) {
  Models models({.idle_seconds = 0.05, .free_bytes = {}});
  ASSERT_TRUE(models.get(0).ok());
  for (int i = 0; i < 12000 && models.state(0) != State::unloaded; ++i) {
    (void)models.set.look(0);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_EQ(models.state(0), State::unloaded);
  EXPECT_EQ(models.set.look(0), nullptr);
}

TEST(ModelSet, WhoWaitsLearnsWhyALoadFailedAndOthersForAWhile) {
  Models models({});
  models.fail = 1;
  const auto model = models.get(0);
  ASSERT_FALSE(model.ok());
  EXPECT_EQ(model.error().code, "model_load_failed");
  EXPECT_FALSE(models.get(0).ok());  // without another load
  EXPECT_EQ(models.loads[0], 1);
  EXPECT_TRUE(models.get(1).ok());
}

TEST(ModelSet, ALoadWithoutMemoryIsTriedAgainWhenAnotherModelHasLeft) {
  Models models({});
  models.failure = Error::Kind::out_of_memory;
  ASSERT_TRUE(models.get(0).ok());
  models.fail = 1;
  EXPECT_TRUE(models.get(1).ok());
  EXPECT_EQ(models.state(0), State::unloaded);
  EXPECT_EQ(models.loads[1], 2);
}

TEST(ModelSet, IdleModelsLeaveWhereTheFilesOfAnotherDoNotFitBesideThem) {
  Models models({.free_bytes = [] { return 99; }}, 3, 100);
  ASSERT_TRUE(models.get(0).ok());
  ASSERT_TRUE(models.get(1).ok());
  EXPECT_EQ(models.state(0), State::unloaded);
  const auto used = models.get(1);
  ASSERT_TRUE(models.get(2).ok());  // beside one that is used: it is the system's matter whether that works
  EXPECT_EQ(models.state(1), State::loaded);
}

TEST(ModelSet, TooManyWaitsAreRefused) {
  Models models({.most_loaded = 1, .waits = 2, .free_bytes = {}});
  const auto used = models.get(0);
  std::vector<std::shared_ptr<ModelWait>> waits;
  for (int i = 0; i < 2; ++i) waits.push_back(models.set.wait_for(1, [] {}).value());
  const auto refused = models.set.wait_for(2, [] {});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, Error::Kind::busy);
  waits.clear();  // given up
  EXPECT_TRUE(models.set.wait_for(2, [] {}).ok());
}

TEST(ModelSet, TheEndTellsWhoeverWaits) {
  Models models({.most_loaded = 1, .free_bytes = {}});
  const auto used = models.get(0);
  const auto wait = models.set.wait_for(1, [] {}).value();
  models.wait_until(0, State::unloading);
  models.set.stop();
  const auto outcome = wait->take();
  ASSERT_TRUE(outcome.has_value());
  EXPECT_EQ(outcome->error().code, "draining");
}

TEST(ModelSet, WhatWasPutWithoutASourceStays) {
  ModelSet set({.most_loaded = 1, .free_bytes = {}});
  auto model = std::make_shared<ServedModel>();
  model->names = {"only"};
  set.put(model);
  EXPECT_EQ(set.use(0).get(), model.get());
  EXPECT_FALSE(set.unload(0).ok());
  EXPECT_FALSE(set.list()[0].may_leave);
}

// Whatever many callers do at once: each gets the model it asked for, alive while it has it, and no more are in memory than
// may be.
TEST(ModelSet, RandomUsesLoadsAndUnloadsByManyNeverFail) {
  log::configure(log::Level::error, log::Format::text);  // thousands of loads
  constexpr int kModels = 5, kCallers = 8, kTurns = 400;
  Models models({.most_loaded = 2, .idle_seconds = 0.001, .free_bytes = {}}, kModels);
  std::atomic<int> failures{0}, dead{0}, wrong{0};
  std::vector<std::thread> callers;
  for (int c = 0; c < kCallers; ++c)
    callers.emplace_back([&, c] {
      std::mt19937_64 random(testing::seed() + static_cast<std::uint64_t>(c));
      std::vector<std::pair<int, std::shared_ptr<ServedModel>>> held;
      for (int turn = 0; turn < kTurns; ++turn) {
        const int place = static_cast<int>(random() % kModels);
        switch (random() % 8) {
          case 0:
            (void)models.set.unload(place);
            break;
          case 1:
            (void)models.set.load(place);
            break;
          case 2:
            (void)models.set.wait_for(place, [] {});  // and gives up
            break;
          default:
            held.clear();  // a request has one model; nobody waits for a second one with the first in hand
            auto model = models.get(place);
            failures += !model.ok();
            if (!model.ok()) break;
            wrong += (*model)->name() != std::string(1, static_cast<char>('a' + place));
            held.emplace_back(place, *model);
        }
        for (const auto& [at, model] : held) dead += models.alive[static_cast<std::size_t>(at)] != 1;
      }
    });
  for (auto& caller : callers) caller.join();
  EXPECT_EQ(failures, 0);
  EXPECT_EQ(dead, 0);
  EXPECT_EQ(wrong, 0);
  EXPECT_LE(models.most, 2);
  models.set.stop();
  int in_use = 0;
  for (const ModelEntry& entry : models.set.list()) in_use += entry.in_use;
  EXPECT_EQ(in_use, 0);
  log::configure(log::Level::info, log::Format::text);
}

}  // namespace
}  // namespace espalier::server::model_set_test
