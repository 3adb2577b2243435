// page_prefault.h: gives the token pool's memory its pages before a prompt needs them, while the engine has nothing to
// do.
//
// The kernel clears a page when it is first written to, and a virtual machine may have to fetch it from its host then:
// 2.2 s for each GiB were measured in a Firecracker guest, a tenth of the time of SmolLM2's prompts. So the pages of
// the slots that come next are asked for between bursts, `ahead` bytes beyond the last slot that was handed out, as
// long as that is less than half of what memory is left. Pages that were touched stay with the process.
//
// Units:   bytes.
// Threads: idle() and busy(): the engine's. One thread of its own from the first idle() on, which sleeps while the
//          engine works; a piece that it has begun (2 MiB) it ends.
// Fails:   never; where the system cannot do it, or gives no thread, pages come as they are used.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <thread>

#include "engine/memory/kv_pool.h"

namespace espalier {

// A thread that touches the pool's next pages while the engine is idle.
class PagePrefault {
 public:
  PagePrefault(const KvPool& kv, std::size_t ahead) : kv_(kv), ahead_(ahead) {}  // kv outlives it
  ~PagePrefault();
  PagePrefault(const PagePrefault&) = delete;
  PagePrefault& operator=(const PagePrefault&) = delete;

  void idle(int slots_reached);  // the engine rests; slots from there on were never used
  void busy() { idle_.store(false, std::memory_order_relaxed); }

  std::size_t touched() const;  // bytes of the pool, from its start

 private:
  void start();
  void work();

  const KvPool& kv_;
  const std::size_t ahead_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t touched_ = 0, goal_ = 0;
  bool stopping_ = false;
  std::atomic<bool> idle_{false};  // becomes true under the mutex alone
  bool started_ = false;           // the engine's
  std::thread thread_;
};

}  // namespace espalier
