// local_watch.h: sees whether the other ranks of this host live: that their processes have not ended, and that they run.
//
// Every rank counts in its slot while it runs; one that does not for `silence` is lost. Time is counted in rounds of the watcher's
// own, so that a host that slept, or a group that was stopped as a whole, loses nobody.
// Threads: one of its own. Fails: start: no_thread(), out_of_memory.
#pragma once

#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "base/system/wake_descriptor.h"
#include "ranks/ending.h"
#include "ranks/segment.h"

namespace espalier::ranks {

// The thread that looks.
class LocalWatch {
 public:
  static Result<std::unique_ptr<LocalWatch>> start(const RankPlan& plan, std::shared_ptr<Segment> segment,
                                                   std::shared_ptr<Ending> ending, std::chrono::milliseconds silence);
  ~LocalWatch();
  LocalWatch(const LocalWatch&) = delete;
  LocalWatch& operator=(const LocalWatch&) = delete;

 private:
  // What is known of another rank.
  struct Watched {
    int rank = 0;
    UniqueFd process;
    std::uint32_t life = 0;
    int silent_rounds = 0;
    bool gone = false;  // it said goodbye, or was told lost
  };

  LocalWatch(const RankPlan& plan, std::shared_ptr<Segment> segment, std::shared_ptr<Ending> ending,
             std::chrono::milliseconds silence, WakeDescriptor wake);
  void run(const std::stop_token& stop);
  void look(bool round);
  void look_at(Watched& other, bool round);
  void lose(Watched& other, std::string_view how);
  bool has_ended(Watched& other) const;
  void wait() const;

  const RankPlan plan_;
  const std::shared_ptr<Segment> segment_;
  const std::shared_ptr<Ending> ending_;
  std::chrono::milliseconds round_;
  int most_silent_rounds_ = 0;  // 0: any number
  WakeDescriptor wake_;
  std::vector<Watched> others_;
  std::jthread thread_;
};

}  // namespace espalier::ranks
