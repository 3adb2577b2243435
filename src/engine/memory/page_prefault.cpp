#include "engine/memory/page_prefault.h"

#include <algorithm>

#include "base/log.h"
#include "base/system/memory_room.h"
#include "base/threads/start_thread.h"
#include "base/threads/thread_name.h"
#include "tensor/huge_pages.h"

namespace espalier {
namespace {

constexpr std::size_t kPiece = kHugePage;

bool has_room_for(std::size_t bytes) {
  return memory_room().pages / 2 >= static_cast<std::int64_t>(bytes);
}

}  // namespace

// Nobody needs this thread: it comes after those that all depends on.
void PagePrefault::start() {
  started_ = true;
  auto started = start_thread("page-touching", [this] {
    name_this_thread("esp-touch");
    work();
  });
  if (started.ok())
    thread_ = std::move(started).value();
  else
    log::warning("{}; pages of the token pool are touched as they are used", started.error().message);
}

PagePrefault::~PagePrefault() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void PagePrefault::idle(int slots_reached) {
  if (ahead_ > 0 && !started_) start();
  if (!thread_.joinable()) return;
  const std::size_t used = kv_.bytes_of(slots_reached), goal = std::min(used + ahead_, kv_.data_bytes());
  {
    std::lock_guard lock(mutex_);
    touched_ = std::max(touched_, used);
    if (goal <= touched_) return;
    goal_ = goal;
    idle_.store(true, std::memory_order_relaxed);
  }
  changed_.notify_one();
}

std::size_t PagePrefault::touched() const {
  std::lock_guard lock(mutex_);
  return touched_;
}

void PagePrefault::work() {
  std::size_t allowed = 0;  // what memory had room for when it was last looked at
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stopping_ || (idle_.load(std::memory_order_relaxed) && touched_ < goal_); });
    if (stopping_) return;
    // Whole pieces begin where pages begin, whatever their size.
    const std::size_t begin = touched_ / kPiece * kPiece, end = std::min(begin + kPiece, goal_), goal = goal_;
    lock.unlock();
    if (allowed < goal && has_room_for(goal - begin)) allowed = goal;
    const bool may = end <= allowed;
    if (may && !populate_pages(kv_.data() + begin, end - begin)) return;
    lock.lock();
    if (may)
      touched_ = std::max(touched_, end);
    else
      goal_ = std::min(goal_, touched_);  // until the engine rests again
  }
}

}  // namespace espalier
