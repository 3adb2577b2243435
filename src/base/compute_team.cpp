#include "base/compute_team.h"

#include <sched.h>

#include <chrono>

#include "base/processors.h"
#include "base/spin_pause.h"
#include "base/start_thread.h"
#include "base/thread_name.h"

namespace espalier {
namespace {

using Clock = std::chrono::steady_clock;

// A member that finds no chunk spins as long as others still compute theirs, since the next operation follows at once;
// behind that for as long as the serial parts between two operations of a step take. Then it sleeps: an idle server
// burns no processor, and between two steps the network has this one.
constexpr auto kSpin = std::chrono::microseconds(20), kLongestSpin = std::chrono::microseconds(1000);

constexpr std::uint64_t kClosed = 0x7fffffff;  // a chunk that no job has

std::uint32_t epoch_of(std::uint64_t ticket) {
  return static_cast<std::uint32_t>(ticket >> 32);
}
int chunk_of(std::uint64_t ticket) {
  return static_cast<int>(ticket & 0xffffffffu);
}

}  // namespace

ComputeTeam::ComputeTeam(int threads, Place where) : place_(std::move(where)) {
  members_.reserve(static_cast<std::size_t>(threads));  // no exception once a thread runs
  for (int i = 1; i < threads; ++i) {
    auto member = start_thread("compute", [this, i] {
      name_this_thread("esp-compute");
      place(i);
      member_loop();
    });
    if (!member.ok()) {
      shortage_ = std::move(member).error();
      return;
    }
    members_.push_back(std::move(member).value());
  }
}

void ComputeTeam::place(int member) const {
  const std::span<const int> on = place_.processors;
  if (on.empty()) return;
  keep_this_thread_on(place_.pinned ? on.subspan(static_cast<std::size_t>(member) % on.size(), 1) : on);
}

ComputeTeam::~ComputeTeam() {
  stopping_ = true;
  wake_.fetch_add(1);
  wake_.notify_all();
  for (auto& member : members_) member.join();
}

void ComputeTeam::publish(int chunks, Call call, void* body) {
  // A member may still hold the last job's ticket, all of whose chunks are taken. Closed first, so that it cannot
  // mistake the new job's larger count for more chunks of the old one.
  const std::uint64_t epoch = epoch_of(ticket_.load(std::memory_order_relaxed));
  ticket_.exchange(epoch << 32 | kClosed, std::memory_order_acq_rel);
  call_.store(call, std::memory_order_relaxed);
  body_.store(body, std::memory_order_relaxed);
  finished_.store(0, std::memory_order_relaxed);
  chunks_.store(chunks, std::memory_order_release);  // who sees it also sees the ticket closed
  const std::uint64_t ticket = (epoch + 1) << 32;
  ticket_.store(ticket, std::memory_order_seq_cst);
  if (sleepers_.load(std::memory_order_seq_cst) > 0) {
    wake_.fetch_add(1, std::memory_order_seq_cst);
    wake_.notify_all();
  }
  work(ticket);
  for (int spins = 0; finished_.load(std::memory_order_acquire) != chunks; ++spins) {
    spin_pause();
    if (spins > 4096) sched_yield();  // more runnable threads than processors: let the member that holds a chunk run
  }
}

void ComputeTeam::work(std::uint64_t ticket) {
  const std::uint32_t epoch = epoch_of(ticket);
  for (;;) {
    if (epoch_of(ticket) != epoch || chunk_of(ticket) >= chunks_.load(std::memory_order_acquire)) return;
    if (!ticket_.compare_exchange_weak(ticket, ticket + 1, std::memory_order_acq_rel, std::memory_order_acquire))
      continue;
    call_.load(std::memory_order_relaxed)(body_.load(std::memory_order_relaxed), chunk_of(ticket));
    finished_.fetch_add(1, std::memory_order_release);
    ++ticket;
  }
}

void ComputeTeam::member_loop() {
  std::uint32_t seen = 0;
  auto worked = Clock::now(), ended = worked;  // this member; all of them, as far as it has seen
  for (unsigned spins = 0;; ++spins) {
    if (stopping_.load(std::memory_order_relaxed)) return;
    std::uint64_t ticket = ticket_.load(std::memory_order_acquire);
    if (epoch_of(ticket) != seen) {
      seen = epoch_of(ticket);
      work(ticket);
      spins = 0;
      worked = ended = Clock::now();
      continue;
    }
    spin_pause();
    if (spins % 64 != 63) continue;
    const auto now = Clock::now();
    if (finished_.load(std::memory_order_relaxed) < chunks_.load(std::memory_order_relaxed)) ended = now;
    if (now - ended < kSpin && now - worked < kLongestSpin) continue;
    std::uint32_t awake = wake_.load(std::memory_order_seq_cst);
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    if (epoch_of(ticket_.load(std::memory_order_seq_cst)) == seen && !stopping_) wake_.wait(awake);
    sleepers_.fetch_sub(1, std::memory_order_seq_cst);
    worked = ended = Clock::now();
  }
}

}  // namespace espalier
