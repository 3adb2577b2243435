#include "base/threads/compute_team.h"

#include <sched.h>

#include <chrono>

#include "base/threads/processors.h"
#include "base/threads/spin_pause.h"
#include "base/threads/start_thread.h"
#include "base/threads/thread_name.h"
#include "base/threads/yield_to_model.h"

namespace espalier {
namespace {

using Clock = std::chrono::steady_clock;

// A member that finds no chunk spins as long as others still compute theirs, since the next operation follows at once;
// behind that for as long as the serial parts between two operations of a step take. Then it sleeps: an idle server
// burns no processor, and between two steps the network has this one.
constexpr auto kSpin = std::chrono::microseconds(20), kLongestSpin = std::chrono::microseconds(1000);

// Of what is expected, a member calls in no more than its nearer caches can spare.
constexpr std::size_t kMostAhead = std::size_t{128} << 10, kLine = 64, kLinesAStep = 4;

std::uint32_t epoch_of(std::uint64_t word) {
  return static_cast<std::uint32_t>(word >> 32);
}
int chunks_of(std::uint64_t ticket) {
  return static_cast<int>(ticket & 0xffffffffu);
}
bool is_older(std::uint32_t epoch, std::uint32_t than) {
  return static_cast<std::int32_t>(epoch - than) < 0;
}

}  // namespace

ComputeTeam::ComputeTeam(int threads, Place where) : place_(std::move(where)) {
  shares_ = std::make_unique<Share[]>(static_cast<std::size_t>(threads));
  members_.reserve(static_cast<std::size_t>(threads));  // no exception once a thread runs
  for (int i = 1; i < threads; ++i) {
    auto member = start_thread("compute", [this, i] {
      name_this_thread("esp-compute");
      place(i);
      member_loop(i);
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

// Each member for itself, before it works: so nobody needs to know the others' threads.
void ComputeTeam::follow_spread(int member) {
  bool& apart = shares_[static_cast<std::size_t>(member)].apart;
  const bool wanted = spread_.load(std::memory_order_relaxed) > 0;
  if (wanted == apart) return;
  const std::span<const int> all = own_processors().allowed;
  if (place_.pinned || static_cast<int>(all.size()) != size()) return;
  apart = wanted;
  keep_this_thread_on(wanted ? all.subspan(static_cast<std::size_t>(member), 1) : all);
}

ComputeTeam::~ComputeTeam() {
  stopping_ = true;
  wake_.fetch_add(1);
  wake_.notify_all();
  for (auto& member : members_) member.join();
}

int ComputeTeam::behind(int chunk, int chunks) const {
  const int next = chunk + 1,
            owner = static_cast<int>((static_cast<std::int64_t>(next) * size() + chunks - 1) / chunks);
  return next < chunks && share_begin(owner, chunks) != next ? next : -1;
}

void ComputeTeam::expect(const Ahead& ahead) {
  ahead_share_.store(ahead.share, std::memory_order_relaxed);
  ahead_bytes_.store(ahead.bytes, std::memory_order_relaxed);
  ahead_.store(ahead.memory, std::memory_order_release);
}

bool ComputeTeam::Caller::step() {
  const std::byte* const memory = team_.ahead_.load(std::memory_order_acquire);
  if (memory != memory_) {
    memory_ = memory;
    at_ = member_ * team_.ahead_share_.load(std::memory_order_relaxed);
    end_ = std::min(at_ + kMostAhead, team_.ahead_bytes_.load(std::memory_order_relaxed));
  }
  if (at_ >= end_) return false;
  for (std::size_t i = 0; i < kLinesAStep; ++i) __builtin_prefetch(memory + at_ + i * kLine, 0, 2);
  at_ += kLinesAStep * kLine;
  return true;
}

void ComputeTeam::publish(int chunks, Call call, void* body) {
  call_.store(call, std::memory_order_relaxed);
  body_.store(body, std::memory_order_relaxed);
  finished_.store(0, std::memory_order_relaxed);
  const std::uint64_t epoch = epoch_of(ticket_.load(std::memory_order_relaxed)) + 1u,
                      ticket = epoch << 32 | static_cast<std::uint32_t>(chunks);
  ticket_.store(ticket, std::memory_order_seq_cst);
  if (sleepers_.load(std::memory_order_seq_cst) > 0) {
    reclaim_spare_processors();
    wake_.fetch_add(1, std::memory_order_seq_cst);
    wake_.notify_all();
  }
  finished_.fetch_add(work(0, ticket), std::memory_order_release);
  for (int spins = 0; finished_.load(std::memory_order_acquire) != chunks; ++spins) {
    if (caller_.step()) continue;
    spin_pause();
    if (spins > 4096) sched_yield();  // more runnable threads than processors: let the member that holds a chunk run
  }
}

// A chunk of the owner's share, or -1 when none is left.
int ComputeTeam::claim(int owner, std::uint64_t ticket, bool from_front) {
  const std::uint32_t epoch = epoch_of(ticket);
  const int chunks = chunks_of(ticket);
  std::atomic<std::uint64_t>& left = shares_[static_cast<std::size_t>(owner)].left;
  std::uint64_t seen = left.load(std::memory_order_acquire);
  for (;;) {
    if (is_older(epoch, epoch_of(seen))) return -1;
    const bool untouched = epoch_of(seen) != epoch;
    int begin = untouched ? share_begin(owner, chunks) : static_cast<int>(seen >> 16 & kMostChunks),
        end = untouched ? share_begin(owner + 1, chunks) : static_cast<int>(seen & kMostChunks);
    if (begin >= end) return -1;
    const int chunk = from_front ? begin++ : --end;
    const std::uint64_t claimed =
        std::uint64_t{epoch} << 32 | static_cast<std::uint64_t>(begin) << 16 | static_cast<std::uint64_t>(end);
    if (left.compare_exchange_weak(seen, claimed, std::memory_order_acq_rel, std::memory_order_acquire)) return chunk;
  }
}

// How many chunks this member computed.
int ComputeTeam::work(int member, std::uint64_t ticket) {
  follow_spread(member);
  int done = 0;
  for (int i = 0; i < size(); ++i) {
    const int owner = (member + i) % size();
    for (int chunk = 0; (chunk = claim(owner, ticket, i == 0)) >= 0; ++done)
      call_.load(std::memory_order_relaxed)(body_.load(std::memory_order_relaxed), chunk);
  }
  return done;
}

void ComputeTeam::member_loop(int member) {
  Caller caller(*this, member);
  std::uint64_t seen = 0;                      // ticket
  auto worked = Clock::now(), ended = worked;  // this member; all of them, as far as it has seen
  for (unsigned spins = 0;; ++spins) {
    if (stopping_.load(std::memory_order_relaxed)) return;
    const std::uint64_t ticket = ticket_.load(std::memory_order_acquire);
    if (ticket != seen) {
      seen = ticket;
      if (const int done = work(member, ticket); done > 0) finished_.fetch_add(done, std::memory_order_release);
      spins = 0;
      worked = ended = Clock::now();
      continue;
    }
    if (caller.step()) continue;
    spin_pause();
    if (spins % 64 != 63) continue;
    const auto now = Clock::now();
    if (finished_.load(std::memory_order_relaxed) < chunks_of(ticket)) ended = now;
    if (now - ended < kSpin && now - worked < kLongestSpin) continue;
    std::uint32_t awake = wake_.load(std::memory_order_seq_cst);
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    if (ticket_.load(std::memory_order_seq_cst) == seen && !stopping_) {
      report_spare_processor();
      wake_.wait(awake);
      reclaim_spare_processors();
    }
    sleepers_.fetch_sub(1, std::memory_order_seq_cst);
    worked = ended = Clock::now();
  }
}

}  // namespace espalier
