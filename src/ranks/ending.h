// ending.h: how a group ends against its will, in one process: once, with one line for each host, whoever notices.
//
// Until arm() a loss is only kept, for whoever joins the group; from then on the loss handler is called.
// A node's first rank tells the line; another one does when the first is what was lost.
// Threads: any. Fails: never.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "espalier/error.h"
#include "ranks/group.h"
#include "ranks/segment.h"

namespace espalier::ranks {

// "rank 2 of 4 (pid 123, host a)", "ranks 2 to 3 of 4 (pid 123, host a)"; pid 0, host "": this host's name.
std::string describe_ranks(int first, int last, int size, int pid, const std::string& host);
std::string own_host();

// Called with the exit code before log_and_exit() ends the process; null: nothing is.
void before_exit(void (*call)(int code));

// The end of a group.
class Ending {
 public:
  Ending(const RankPlan& plan, std::shared_ptr<Segment> segment, LossHandler on_loss);

  // `rank`: who was lost, -1: nobody of this host. The first call counts.
  void lose(const Error& why, int rank);
  // Whether the group has ended, also by another process of this host, which this process then tells its handler.
  bool ended();
  // Returns when the handler has, if the group has ended: no call goes on while the process is being ended.
  void settle();
  // What else must know, before the handler does.
  void on_end(std::function<void(const Error& why)> also);
  // From now on the handler is called. Fails with what has ended the group already.
  Result<> arm();
  void disarm();  // this rank leaves: nothing is told any more

 private:
  const RankPlan plan_;
  const std::shared_ptr<Segment> segment_;
  const LossHandler on_loss_;
  std::atomic<bool> over_ = false;
  std::mutex mutex_;  // of what follows
  bool armed_ = false, left_ = false;
  std::function<void(const Error& why)> also_;
};

}  // namespace espalier::ranks
