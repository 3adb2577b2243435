// compute_team.h: the few threads that compute a step together; their caller is one of them.
//
// run(chunks, body) calls body(chunk) once for every chunk in 0..chunks-1 and returns when all are done. Each member
// has an equal share of neighbouring chunks, which it computes in their order; then it takes what the others have left,
// from the end of their shares. So operations whose chunks are cut alike leave what they write in the caches of who
// reads it next, and nobody waits for a member that is slow or was interrupted. Which member computes a chunk must not
// matter to the result (promise 1): bodies write disjoint outputs. A member that the system has not scheduled yet
// delays nobody: only claimed chunks are waited for.
// Threads: one caller at a time. Members spin for a short while between calls, then sleep. Fails: body must not throw;
// when the system grants fewer threads than asked for, the team is smaller (size() tells, shortage() says why) and
// still works.
// Why shares: docs/decisions/team-shares.md; why apart: docs/decisions/constraints.md.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "espalier/error.h"

namespace espalier {

// The compute threads of a model: run() spreads the chunks of one operation over them.
class ComputeTeam {
 public:
  struct Place {
    std::vector<int> processors;  // where members run; empty = wherever the process may
    bool pinned = false;          // one processor each, in turn
  };
  explicit ComputeTeam(int threads) : ComputeTeam(threads, Place{}) {}  // threads >= 1, the caller included
  ComputeTeam(int threads, Place place);
  ~ComputeTeam();
  ComputeTeam(const ComputeTeam&) = delete;
  ComputeTeam& operator=(const ComputeTeam&) = delete;

  int size() const { return static_cast<int>(members_.size()) + 1; }
  const std::optional<Error>& shortage() const { return shortage_; }  // set when size() is less than asked for
  void place_caller() const { place(0); }  // the calling thread, which is to call run(), where a member belongs

  // While it lives, and the team has as many members as the process has processors, each stays on one of its own from
  // its next job on. For as long as a thread beside the team computes, too: the system gives that one a processor to
  // itself and wakes two members on another, where each waits for the other's turn to end. Any thread; others may hold
  // one too.
  class SpreadMembers {
   public:
    explicit SpreadMembers(ComputeTeam& team) : team_(team) { team_.spread_.fetch_add(1, std::memory_order_relaxed); }
    ~SpreadMembers() { team_.spread_.fetch_sub(1, std::memory_order_relaxed); }
    SpreadMembers(const SpreadMembers&) = delete;
    SpreadMembers& operator=(const SpreadMembers&) = delete;

   private:
    ComputeTeam& team_;
  };

  int share_begin(int member, int chunks) const {  // its first chunk
    return static_cast<int>(static_cast<std::int64_t>(chunks) * member / size());
  }
  // The chunk that whoever computes this one computes next, if it is in its share; else -1.
  int behind(int chunk, int chunks) const;

  // What the members probably read next from memory: member m's part begins m * share bytes behind the first. Who waits
  // for the others, or for the next operation, calls in the beginning of its part. Holds until it is said again; the
  // memory may be gone by then.
  struct Ahead {
    const std::byte* memory = nullptr;
    std::size_t share = 0, bytes = 0;
  };
  void expect(const Ahead& ahead);

  template <class Body>
  void run(int chunks, Body&& body) {
    if (chunks <= 1 || members_.empty()) {
      for (int i = 0; i < chunks; ++i) body(i);
      return;
    }
    for (int first = 0; first < chunks; first += kMostChunks) {
      auto call = [&body, first](int chunk) { body(first + chunk); };
      publish(
          std::min(chunks - first, kMostChunks), [](void* b, int chunk) { (*static_cast<decltype(call)*>(b))(chunk); },
          &call);
    }
  }

 private:
  using Call = void (*)(void*, int);
  static constexpr int kMostChunks = 0xffff;  // of a job

  // What is left of a member's share: epoch << 32 | begin << 16 | end. One of an earlier job stands for all of it: so
  // nobody has to fill in the shares of a job, and a member that sleeps need not wake for it.
  struct alignas(64) Share {
    std::atomic<std::uint64_t> left{0};
    bool apart = false;  // its owner keeps to one processor; the owner's
  };

  // What one member called in of what it was told to expect.
  class Caller {
   public:
    Caller(const ComputeTeam& team, int member) : team_(team), member_(static_cast<std::size_t>(member)) {}
    bool step();  // calls in a few lines; false when there is nothing left

   private:
    const ComputeTeam& team_;
    std::size_t member_, at_ = 0, end_ = 0;  // bytes
    const std::byte* memory_ = nullptr;
  };

  void publish(int chunks, Call call, void* body);
  int work(int member, std::uint64_t ticket);
  int claim(int owner, std::uint64_t ticket, bool from_front);
  void member_loop(int member);
  void place(int member) const;  // the calling thread
  void follow_spread(int member);

  // ticket_ = epoch << 32 | chunks of the job. A job cannot end while a claimed chunk is unfinished, so a successful
  // claim proves that the fields read after it are its own.
  alignas(64) std::atomic<std::uint64_t> ticket_{0};
  std::atomic<Call> call_{nullptr};
  std::atomic<void*> body_{nullptr};
  alignas(64) std::atomic<int> finished_{0};  // chunks of the job; each member adds its own when it finds no more
  alignas(64) std::atomic<int> sleepers_{0};
  std::atomic<std::uint32_t> wake_{0};
  std::atomic<bool> stopping_{false};
  std::atomic<int> spread_{0};  // how many want it
  // Read one by one: of two expectations that are mixed the worst is that lines are called in that nobody needs.
  std::atomic<const std::byte*> ahead_{nullptr};
  std::atomic<std::size_t> ahead_share_{0}, ahead_bytes_{0};
  Caller caller_{*this, 0};  // of run()'s caller
  std::unique_ptr<Share[]> shares_;
  Place place_;
  std::vector<std::thread> members_;
  std::optional<Error> shortage_;
};

}  // namespace espalier
