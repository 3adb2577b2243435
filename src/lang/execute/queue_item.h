// queue_item.h: what stands in the queue of a state: a program's nodes, and what is added to them.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <variant>
#include <vector>

#include "lang/batch/served_runs.h"
#include "lang/execute/sample_group.h"
#include "lang/state_core.h"

namespace espalier::lang {

class StreamExecutor;
using StateLock = std::unique_lock<std::mutex>;  // of one

// An item is done at once, or goes on when something comes back; then StreamExecutor::resume() follows.
enum class Progress { done, waiting };

// The prefix becomes cached at the back end before children ask for it.
struct PrefixCommit {};
// Children begin here with what is there by then.
struct ForkPoint {
  std::vector<std::shared_ptr<StreamExecutor>> children;
};
// What the children say is appended.
struct ConcatPoint {
  std::vector<std::shared_ptr<StreamExecutor>> children;
  std::size_t next = 0;
};
using ServedRun = std::shared_ptr<const ServedItem>;
using QueueItem =
    std::variant<Node, PrefixCommit, ForkPoint, ConcatPoint, ReasoningSplit, SampleItem, ChainItem, ServedRun>;

// The names that a list of nodes will set, those of nested ones too; one that is set twice is there twice.
std::vector<std::string> names_of(const std::vector<Node>& nodes);

}  // namespace espalier::lang
