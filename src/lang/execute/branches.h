// branches.h: forks and joins of a state: what its children begin with, and what they bring back.
//
// Threads: any; what says so requires the state's lock. Fails: what a child failed to set is the parent's to fail with
// where it reads it.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lang/execute/gather.h"
#include "lang/execute/queue_item.h"
#include "lang/execute/variables.h"

namespace espalier::lang {

// The variables that joins are still to bring to one state, and its branches' beginnings and ends.
class Branches {
 public:
  using Children = std::vector<std::shared_ptr<StreamExecutor>>;

  explicit Branches(StreamExecutor& state) : state_(state) {}

  Progress take(const ForkPoint& fork);
  Progress take(ConcatPoint point);

  // A join that nobody waits for; and one whose children have ended.
  void gather_later(const Children& children);
  Result<> gather(const std::vector<std::shared_ptr<StateCore>>& children);
  Result<> concatenate(const std::vector<std::shared_ptr<StateCore>>& children);

  // --- require the lock ---
  bool gathers(std::string_view name) const { return coming_.contains(name); }
  bool gathers_any() const { return !coming_.empty(); }
  void overtake(std::string_view name);  // this state has set it itself, behind the join
  void fulfil(const std::string& name, Value value, Json meta = nullptr);  // by one of this state's own nodes

  // A variable that joined states are still to bring.
  struct Gathering {
    std::shared_ptr<Gather> gather;
    bool overtaken = false;
  };
  using Gatherings = std::map<std::string, Gathering, std::less<>>;
  Gatherings give_up() { return std::exchange(coming_, {}); }  // to be dropped without the lock

 private:
  // Called by the origin, which is at work: nobody changes its document meanwhile. `variables`: the origin's, and
  // `gathering` what joins are still to bring to it.
  void begin_from(const StreamExecutor& origin, const Variables& variables, Gatherings gathering);
  void await(const std::string& name, const std::shared_ptr<Gather>& gather);
  void gathered(const std::string& name);

  StreamExecutor& state_;
  Gatherings coming_;
};

}  // namespace espalier::lang
