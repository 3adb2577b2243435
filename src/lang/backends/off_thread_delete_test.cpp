#include "lang/backends/off_thread_delete.h"

#include <gtest/gtest.h>

#include <future>

namespace espalier::lang {
namespace {

// Its thread takes what it is given, lets go of it and ends; the destructor waits for that.
struct Worker {
  Worker(std::promise<std::thread::id>& gone_on, std::future<std::shared_ptr<Worker>> given)
      : gone(gone_on), thread([from = std::move(given)]() mutable { from.get().reset(); }) {}
  ~Worker() {
    thread.join();
    gone.set_value(std::this_thread::get_id());
  }
  bool is_own_thread() const { return thread.get_id() == std::this_thread::get_id(); }

  std::promise<std::thread::id>& gone;
  std::thread thread;
};

TEST(DeleteOffOwnThread, TheLastOwnerMayBeOnTheThreadThatIsWaitedFor) {
  std::promise<std::thread::id> gone;
  std::promise<std::shared_ptr<Worker>> given;
  auto worker = delete_off_own_thread(std::make_shared<Worker>(gone, given.get_future()));
  const std::thread::id its_own = worker->thread.get_id();
  given.set_value(std::move(worker));
  const std::thread::id gone_on = gone.get_future().get();
  EXPECT_NE(gone_on, its_own);
  EXPECT_NE(gone_on, std::this_thread::get_id());
}

TEST(DeleteOffOwnThread, AnyOtherThreadDestroysItItself) {
  std::promise<std::thread::id> gone;
  std::promise<std::shared_ptr<Worker>> given;
  auto worker = delete_off_own_thread(std::make_shared<Worker>(gone, given.get_future()));
  given.set_value(nullptr);
  worker.reset();
  EXPECT_EQ(gone.get_future().get(), std::this_thread::get_id());
}

}  // namespace
}  // namespace espalier::lang
