// compute_team.h: the few threads that compute a step together; their caller is one of them.
//
// run(chunks, body) calls body(chunk) once for every chunk in 0..chunks-1, on whichever member claims it, and returns
// when all are done. Which member computes a chunk must not matter to the result (promise 1): bodies write disjoint
// outputs. A member that the system has not scheduled yet delays nobody: only claimed chunks are waited for. Threads:
// one caller at a time. Members spin for a short while between calls, then sleep. Fails: body must not throw; when the
// system grants fewer threads than asked for, the team is smaller (size() tells, shortage() says why) and still works.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <thread>
#include <type_traits>
#include <vector>

#include "espalier/error.h"

namespace espalier {

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

  template <class Body>
  void run(int chunks, Body&& body) {
    if (chunks <= 1 || members_.empty()) {
      for (int i = 0; i < chunks; ++i) body(i);
      return;
    }
    auto* address = std::addressof(body);
    publish(chunks, [](void* b, int chunk) { (*static_cast<std::remove_reference_t<Body>*>(b))(chunk); }, address);
  }

 private:
  using Call = void (*)(void*, int);
  void publish(int chunks, Call call, void* body);
  void work(std::uint64_t ticket);
  void member_loop();
  void place(int member) const;  // the calling thread

  // ticket_ = epoch << 32 | next unclaimed chunk. Job fields change only while the ticket is closed (its chunk is one
  // that no job has), and a job cannot end while a claimed chunk is unfinished, so a successful claim proves that the
  // fields read after it are its own.
  alignas(64) std::atomic<std::uint64_t> ticket_{0};
  alignas(64) std::atomic<int> finished_{0};
  alignas(64) std::atomic<int> chunks_{0};
  std::atomic<Call> call_{nullptr};
  std::atomic<void*> body_{nullptr};
  std::atomic<int> sleepers_{0};
  std::atomic<std::uint32_t> wake_{0};
  std::atomic<bool> stopping_{false};
  Place place_;
  std::vector<std::thread> members_;
  std::optional<Error> shortage_;
};

}  // namespace espalier
