// thread_group.h: ranks that are threads of one process, for tests of what ranks compute together.
//
// Threads: one for each rank. A rank that ends early (a failed assertion) must end() its group, or the others wait.
#pragma once

#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <stdexcept>
#include <thread>
#include <vector>

#include "ranks/collective.h"

namespace espalier::testing {

// What the ranks of one group share.
class ThreadGroup {
 public:
  explicit ThreadGroup(int size, std::size_t max_part_bytes = std::size_t{64} << 20)
      : size_(size), most_(max_part_bytes), parts_(static_cast<std::size_t>(size)) {}

  // One rank's place in it.
  class Rank final : public ranks::Collective {
   public:
    Rank(ThreadGroup& group, int rank) : group_(group), rank_(rank) {}
    int rank() const override { return rank_; }
    int size() const override { return group_.size_; }
    std::string_view name() const override { return "threads"; }
    std::size_t max_part_bytes() const override { return group_.most_; }
    std::byte* outgoing(std::size_t bytes) override {
      if (bytes > group_.most_) throw std::length_error("a part is larger than the group allows");
      std::vector<std::byte>& part = group_.part(rank_, turn_);
      if (part.size() < bytes) part.resize(bytes);
      return part.data();
    }
    void exchange(std::span<const std::size_t> bytes) override {
      ++figures_.exchanges;
      for (int r = 0; r < size(); ++r)
        (r == rank_ ? figures_.bytes_sent : figures_.bytes_received) += bytes[static_cast<std::size_t>(r)];
      group_.given(rank_, turn_) = bytes[static_cast<std::size_t>(rank_)];
      group_.meet();
      for (int r = 0; r < size(); ++r)
        if (!ended() && group_.given(r, turn_) != bytes[static_cast<std::size_t>(r)])
          throw std::logic_error("ranks disagree about what one of them gives");
      turn_ ^= 1;
    }
    const std::byte* incoming(int rank) const override { return group_.part(rank, turn_ ^ 1).data(); }
    void broadcast(int root, std::span<std::byte> bytes) override {
      std::vector<std::byte> message(bytes.begin(), bytes.end());
      broadcast(root, message);
      std::copy(message.begin(), message.end(), bytes.begin());
    }
    void broadcast(int root, std::vector<std::byte>& message) override {
      ++figures_.broadcasts;
      if (rank_ == root) group_.message_ = message;
      group_.meet();
      if (rank_ != root) message = group_.message_;
      group_.meet();
    }
    void barrier() override { group_.meet(); }
    void end(const std::string&) override {
      const std::lock_guard lock(group_.mutex_);
      group_.ended_ = true;
      group_.met_.notify_all();
    }
    bool ended() const override {
      const std::lock_guard lock(group_.mutex_);
      return group_.ended_;
    }
    ranks::CollectiveFigures figures() const override { return figures_; }
    std::optional<ranks::LateRank> waiting_for() const override { return std::nullopt; }

   private:
    ThreadGroup& group_;
    int rank_, turn_ = 0;
    ranks::CollectiveFigures figures_;
  };

  // body(rank) on a thread for each; returns when all have.
  template <class Body>
  void run(Body body) {
    std::vector<std::thread> threads;
    for (int r = 0; r < size_; ++r)
      threads.emplace_back([this, r, &body] {
        Rank rank(*this, r);
        body(rank);
      });
    for (std::thread& thread : threads) thread.join();
  }

 private:
  std::vector<std::byte>& part(int rank, int turn) { return parts_[static_cast<std::size_t>(rank)].areas[turn]; }
  void meet() {
    std::unique_lock lock(mutex_);
    const auto round = round_;
    if (++waiting_ == size_) {
      waiting_ = 0;
      ++round_;
      met_.notify_all();
    }
    met_.wait(lock, [&] { return ended_ || round_ != round; });
  }

  std::size_t& given(int rank, int turn) { return parts_[static_cast<std::size_t>(rank)].bytes[turn]; }

  struct Areas {
    std::vector<std::byte> areas[2];
    std::size_t bytes[2] = {};
  };
  int size_;
  std::size_t most_;
  std::vector<Areas> parts_;
  std::vector<std::byte> message_;
  mutable std::mutex mutex_;
  std::condition_variable met_;
  int waiting_ = 0;
  std::uint64_t round_ = 0;
  bool ended_ = false;
};

}  // namespace espalier::testing
