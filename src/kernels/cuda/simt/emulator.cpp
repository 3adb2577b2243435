#include "kernels/cuda/simt/emulator.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <boost/context/detail/fcontext.hpp>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <random>
#include <span>
#include <thread>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace espalier::simt::emulator {
namespace {

namespace context = boost::context::detail;

constexpr std::size_t kStackBytes = 256 * 1024, kGuardBytes = 4096;  // pages come as they are used
constexpr int kMostThreads = 1024;
constexpr std::uint64_t kUnwritten = 0xffa5a5a5ffa5a5a5;  // NaN, as one double and as two floats

// ThreadSanitizer sees each of a kernel's threads as a thread of its own, and that they run in turns tells it nothing: only what the
// kernel asks for orders them. tell() and learn() say where; what this file itself shares between them is ESPALIER_UNSEEN.
#if defined(__SANITIZE_THREAD__)
#define ESPALIER_UNSEEN __attribute__((no_sanitize_thread))
void tell(void* what) {
  __tsan_release(what);
}
void learn(void* what) {
  __tsan_acquire(what);
}
#else
#define ESPALIER_UNSEEN
void tell(void*) {}
void learn(void*) {}
#endif

constexpr unsigned kMostBlocksY = 65535;

[[noreturn]] void give_up(const char* why) {
  std::fprintf(stderr, "espalier: emulated device: %s\n", why);
  std::abort();
}

// Threads that wait for one another. `round` changes when the last one has come.
struct Meeting {
  int live = 0, come = 0;
  unsigned round = 0;
  char of_round[2] = {};  // what tell() and learn() are told
  ESPALIER_UNSEEN bool complete() {
    if (come < live || live == 0) return false;
    come = 0;
    ++round;
    return true;
  }
};

class Block;

// One thread of a kernel.
struct Fiber {
  Place place{};
  context::fcontext_t state = nullptr;
  std::byte* stack = nullptr;
  bool over = false;
  const Meeting* awaited = nullptr;  // null: it may run
  unsigned round = 0;
  std::uint64_t given[2][2] = {};  // what neighbours may take: 16 of them or 32, in turns
#if defined(__SANITIZE_THREAD__)
  void* tsan = nullptr;
#endif
};

// The fibers of one processor, and the block that they run.
class Block {
 public:
  Block() : fibers_(kMostThreads) {}
  ~Block() {
    for (Fiber& f : fibers_) {
      if (f.stack == nullptr) continue;
#if defined(__SANITIZE_ADDRESS__)
      __asan_unpoison_memory_region(f.stack, kStackBytes);  // whoever is given these addresses next did nothing wrong
#endif
#if defined(__SANITIZE_THREAD__)
      __tsan_destroy_fiber(f.tsan);
#endif
      ::munmap(f.stack - kGuardBytes, kStackBytes + kGuardBytes);
    }
  }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  void run(const Grid& grid, const std::function<void()>& kernel, unsigned number, std::span<const int> order);

  ESPALIER_UNSEEN Fiber& current() { return *current_; }
  ESPALIER_UNSEEN Meeting& meeting(int width) {
    if (width == kBlock) return whole_;
    const int of = current_->place.thread / width;
    return width == 16 ? sixteens_[of] : warps_[of];
  }
  void wait(Meeting& meeting);
  ESPALIER_UNSEEN Words (&words())[2][32] { return words_[current_->place.thread / 32]; }
  ESPALIER_UNSEEN Fiber& neighbour(int width, int number) {
    const int first = current_->place.thread / width * width;
    return fibers_[static_cast<std::size_t>(first) + static_cast<std::size_t>(number)];
  }
  void enter();

 private:
  void prepare(Fiber& fiber);
  void resume(Fiber& fiber);
  void leave(bool for_good);

  std::vector<Fiber> fibers_;
  std::vector<std::uint64_t> shared_;
  Meeting whole_, warps_[kMostThreads / 32], sixteens_[kMostThreads / 16];
  Words words_[kMostThreads / 32][2][32];  // of neighbours, in turns
  Fiber* current_ = nullptr;
  char begins_ = 0, ends_ = 0;  // what tell() and learn() are told
  const std::function<void()>* kernel_ = nullptr;
  context::fcontext_t scheduler_ = nullptr;
#if defined(__SANITIZE_ADDRESS__)
  void* fake_stack_ = nullptr;
  const void* scheduler_stack_ = nullptr;
  std::size_t scheduler_bytes_ = 0;
#endif
#if defined(__SANITIZE_THREAD__)
  void* tsan_scheduler_ = nullptr;
#endif
};

thread_local Block* block = nullptr;

ESPALIER_UNSEEN void entry(context::transfer_t from) {
  *static_cast<context::fcontext_t*>(from.data) = from.fctx;
  block->enter();
}

void Block::prepare(Fiber& fiber) {
  if (fiber.stack == nullptr) {
    void* memory = ::mmap(nullptr, kStackBytes + kGuardBytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) give_up("no memory for the stacks of its threads");
    ::mprotect(memory, kGuardBytes, PROT_NONE);
    fiber.stack = static_cast<std::byte*>(memory) + kGuardBytes;
#if defined(__SANITIZE_THREAD__)
    fiber.tsan = __tsan_create_fiber(0);
#endif
  }
  fiber.state = context::make_fcontext(fiber.stack + kStackBytes, kStackBytes, entry);
  fiber.over = false;
  fiber.awaited = nullptr;
}

ESPALIER_UNSEEN void Block::resume(Fiber& fiber) {
  current_ = &fiber;
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&fake_stack_, fiber.stack, kStackBytes);
#endif
#if defined(__SANITIZE_THREAD__)
  tsan_scheduler_ = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(fiber.tsan, __tsan_switch_to_fiber_no_sync);
#endif
  fiber.state = context::jump_fcontext(fiber.state, static_cast<void*>(&scheduler_)).fctx;
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(fake_stack_, nullptr, nullptr);
#endif
}

// On the fiber's stack: back to the scheduler.
ESPALIER_UNSEEN void Block::leave(bool for_good) {
#if defined(__SANITIZE_ADDRESS__)
  void* fake = nullptr;
  __sanitizer_start_switch_fiber(for_good ? nullptr : &fake, scheduler_stack_, scheduler_bytes_);
#else
  static_cast<void>(for_good);
#endif
#if defined(__SANITIZE_THREAD__)
  __tsan_switch_to_fiber(tsan_scheduler_, __tsan_switch_to_fiber_no_sync);
#endif
  scheduler_ = context::jump_fcontext(scheduler_, nullptr).fctx;
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(fake, &scheduler_stack_, &scheduler_bytes_);
#endif
}

ESPALIER_UNSEEN void Block::enter() {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(nullptr, &scheduler_stack_, &scheduler_bytes_);
#endif
  learn(&begins_);
  (*kernel_)();
  tell(&ends_);
  Fiber& self = *current_;
  self.over = true;
  const int thread = self.place.thread;
  for (Meeting* m : {&whole_, &warps_[thread / 32], &sixteens_[thread / 16]}) {
    tell(&m->of_round[m->round % 2]);
    --m->live;
    m->complete();
  }
  leave(true);
}

ESPALIER_UNSEEN void Block::wait(Meeting& meeting) {
  Fiber& self = *current_;
  ++meeting.come;
  const unsigned round = meeting.round;
  tell(&meeting.of_round[round % 2]);
  if (!meeting.complete()) {
    self.awaited = &meeting;
    self.round = round;
    leave(false);
  }
  learn(&meeting.of_round[round % 2]);
}

unsigned order_number() {
  static const unsigned number = [] {
    const char* text = std::getenv("ESPALIER_EMU_ORDER");
    return text == nullptr ? 0u : static_cast<unsigned>(std::strtoul(text, nullptr, 10));
  }();
  return number;
}

// Whether 32 neighbours run as far as they come without others, instead of all threads in turns.
bool warps_run_far() {
  return order_number() > 1 && order_number() % 2 == 0;
}

// In which order the threads of a block are looked at: 0 ascending, 1 descending, others shuffled.
std::vector<int> order_of(int threads) {
  std::vector<int> order(static_cast<std::size_t>(threads));
  for (int i = 0; i < threads; ++i) order[static_cast<std::size_t>(i)] = i;
  if (order_number() == 1) std::ranges::reverse(order);
  if (order_number() > 1) std::ranges::shuffle(order, std::mt19937(order_number()));
  return order;
}

void Block::run(const Grid& grid, const std::function<void()>& kernel, unsigned number, std::span<const int> order) {
  block = this;
  kernel_ = &kernel;
  shared_.assign(grid.shared_bytes / 8 + 2, kUnwritten);
  const int threads = static_cast<int>(grid.threads);
  whole_ = {.live = threads};
  for (int i = 0; i < threads; ++i) {
    if (i % 16 == 0) sixteens_[i / 16] = {.live = std::min(16, threads - i)};
    if (i % 32 == 0) warps_[i / 32] = {.live = std::min(32, threads - i)};
    Fiber& fiber = fibers_[static_cast<std::size_t>(i)];
    prepare(fiber);
    fiber.place = {i,
                   threads,
                   static_cast<int>(number % grid.blocks_x),
                   static_cast<int>(number / grid.blocks_x),
                   static_cast<int>(grid.blocks_x),
                   reinterpret_cast<std::byte*>(shared_.data())};
  }
  tell(&begins_);
  int left = threads;
  const auto runs = [&](int i) ESPALIER_UNSEEN {
    Fiber& fiber = fibers_[static_cast<std::size_t>(i)];
    if (fiber.over || (fiber.awaited != nullptr && fiber.awaited->round == fiber.round)) return false;
    fiber.awaited = nullptr;
    resume(fiber);
    if (fiber.over) --left;
    return true;
  };
  while (left > 0) {
    bool ran = false;
    for (const int i : order) {
      if (!runs(i)) continue;
      ran = true;
      for (bool more = warps_run_far(); more;) {
        more = false;
        for (int j = i / 32 * 32; j < std::min(threads, i / 32 * 32 + 32); ++j) more |= runs(j);
      }
    }
    if (!ran) give_up("threads of a block wait for others that never come: not all of them reach a barrier");
  }
  learn(&ends_);
}

// Processors that share the blocks of a grid.
class Workers {
 public:
  explicit Workers(unsigned count) {
    for (unsigned i = 1; i < count; ++i) threads_.emplace_back([this] { work(); });
  }
  ~Workers() {
    {
      const std::scoped_lock lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  void run(const Grid& grid, const std::function<void()>& kernel) {
    const std::scoped_lock one_at_a_time(running_);
    const std::vector<int> order = order_of(static_cast<int>(grid.threads));
    grid_ = &grid;
    kernel_ = &kernel;
    order_ = order;
    count_ = grid.blocks_x * grid.blocks_y;
    next_ = 0;
    if (count_ > 1) {
      {
        const std::scoped_lock lock(mutex_);
        ++round_;
        open_ = true;
      }
      changed_.notify_all();
    }
    take_blocks();
    std::unique_lock lock(mutex_);
    open_ = false;  // who did not come by now is not waited for
    done_.wait(lock, [this] { return busy_ == 0; });
  }

 private:
  void take_blocks() {
    static thread_local Block own;
    for (unsigned i = next_++; i < count_; i = next_++)
      own.run(*grid_, *kernel_, order_number() == 1 ? count_ - 1 - i : i, order_);
  }
  void work() {
    unsigned seen = 0;
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return stopping_ || (open_ && round_ != seen); });
      if (stopping_) return;
      seen = round_;
      ++busy_;
      lock.unlock();
      take_blocks();
      lock.lock();
      if (--busy_ == 0) done_.notify_all();
    }
  }

  std::mutex running_, mutex_;
  std::condition_variable changed_, done_;
  std::vector<std::thread> threads_;
  const Grid* grid_ = nullptr;
  const std::function<void()>* kernel_ = nullptr;
  std::span<const int> order_;
  unsigned count_ = 0, round_ = 0;
  std::atomic<unsigned> next_{0};
  int busy_ = 0;
  bool open_ = false, stopping_ = false;
};

}  // namespace

const Place& at() {
  return block->current().place;
}

void meet(int width) {
  block->wait(block->meeting(width));
}

ESPALIER_UNSEEN std::uint64_t exchange(int width, std::uint64_t bits, int number) {
  Fiber& self = block->current();
  Meeting& meeting = block->meeting(width);
  // Two places in turns: a neighbour that is a round ahead does not overwrite what others still read.
  const unsigned turn = meeting.round % 2, kind = width == 32 ? 1 : 0;
  self.given[kind][turn] = bits;
  block->wait(meeting);
  return block->neighbour(width, number).given[kind][turn];
}

ESPALIER_UNSEEN const Words* exchange_words(const Words& mine) {
  Meeting& meeting = block->meeting(32);
  Words(&all)[32] = block->words()[meeting.round % 2];  // as in exchange()
  all[block->current().place.thread % 32] = mine;
  block->wait(meeting);
  return all;
}

bool copies_come_early() {
  return order_number() == 1;
}

void must_be_aligned(const void* address, std::size_t bytes) {
  if (reinterpret_cast<std::uintptr_t>(address) % bytes != 0)
    give_up("what is copied or loaded together is not aligned");
}

std::size_t most_shared_bytes() {
  static const std::size_t most = [] {
    const char* const text = std::getenv("ESPALIER_EMU_SHARED");
    return (text == nullptr ? 227 : std::strtoul(text, nullptr, 10)) * 1024;
  }();
  return most;
}

void run(const Grid& grid, const std::function<void()>& kernel) {
  if (grid.threads == 0 || grid.threads > kMostThreads) give_up("a block has 1 to 1024 threads");
  if (grid.shared_bytes > most_shared_bytes()) give_up("a block has more shared memory than there is");
  if (grid.blocks_y > kMostBlocksY) give_up("a grid is 65,535 blocks high at most");
  if (grid.blocks_x == 0 || grid.blocks_y == 0) return;
  static Workers workers(std::max(1u, std::thread::hardware_concurrency()));
  workers.run(grid, kernel);
}

}  // namespace espalier::simt::emulator
