// stream_executor.h: one state of a running program: its text, its variables, and the queue of what comes next.
//
// There is no thread in it. Whoever makes progress possible carries the queue on: the program that appends, the back
// end's thread that delivers a result, the state whose variable was waited for. One of them at a time is "at work"; it
// alone changes the document, under the lock, and reads it without. The lock is not held while a back end or another
// state is called, so states that wait for each other cannot block.
// Order:   append* end; children begin with what their origin has when its queue comes to the fork.
// Threads: any (see state_core.h).
// Fails:   the first failure is the state's: its queue is dropped, with it the children that were still to begin.
// Source:  SGLang, lang/interpreter.py (StreamExecutor).
// What an item of the queue does is told by node_steps.h, call_steps.h, score_steps.h and branches.h; speculation_steps.h may take its place.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>

#include "lang/batch/text_budget.h"
#include "lang/execute/branches.h"
#include "lang/execute/call_steps.h"
#include "lang/execute/node_steps.h"
#include "lang/execute/queue_item.h"
#include "lang/execute/score_steps.h"
#include "lang/execute/speculation_steps.h"
#include "lang/execute/variables.h"
#include "lang/state_core.h"

namespace espalier::lang {

// What became of a node of the graph that is carried out.
struct NodeEvent {
  int node = 0;                  // its number
  const Piece* piece = nullptr;  // the next part of its output; null: it is over
  const Value* value = nullptr;  // of one that is over
  const Json* meta = nullptr;
};

// What a run decides for all of its states.
struct RunSetup {
  std::shared_ptr<Backend> backend;
  GenOptions defaults;
  bool stream = false;
  int api_spec_tokens = 0;
  std::function<void(const NodeEvent&)> watch = {};  // on whichever thread brings the news; must not block
  std::shared_ptr<TextBudget> allowance = {};        // null: as much as there is room for
};

// The StateCore that runs nodes against a back end.
class StreamExecutor final : public StateCore, public std::enable_shared_from_this<StreamExecutor> {
 public:
  static std::shared_ptr<StreamExecutor> begin(std::shared_ptr<const RunSetup> setup);
  explicit StreamExecutor(std::shared_ptr<const RunSetup> setup) : setup_(std::move(setup)) {}

  void append(Expr what) override;
  void append(GraphItem item) override;
  void set(std::string name, Value value) override;
  bool contains(std::string_view name) const override;
  std::vector<std::string> names() const;  // of the variables: set, to come, or failed
  Result<Value> read(std::string_view name) override;
  std::optional<Result<Value>> try_read(std::string_view name) const override;
  std::shared_ptr<PromisedValue> promise(std::string_view name) override;
  void hurry() override;
  void when_piece(std::string variable, std::size_t seen, std::function<void()> then) override;
  Result<Json> meta(std::string_view name, Until until) override;
  void when_settled(std::function<void()> then) override;
  void sync() override;
  std::string text() override;
  std::vector<Message> messages() override;
  std::optional<Error> error() override;
  std::vector<std::shared_ptr<StateCore>> fork(int n) override;
  Result<> join(const std::vector<std::shared_ptr<StateCore>>& children, JoinMode mode) override;
  void join_later(const std::vector<std::shared_ptr<StateCore>>& children, JoinMode mode) override;
  Result<std::optional<Piece>> piece(std::string_view variable, std::size_t seen) override;
  void end() override;
  bool await_function(std::string_view name, Until until) override;
  void cancel(Error why) override;

 private:
  friend class Branches;
  friend class CallSteps;
  friend class NodeSteps;
  friend class ScoreSteps;
  friend class SpeculationSteps;
  using Lock = StateLock;

  struct Reader {                 // who is to be told once
    std::function<bool()> there;  // under the lock
    std::function<void()> then;
  };

  void work();    // carries the queue on, unless somebody does
  void resume();  // what was waited for is there
  Progress step(QueueItem item);
  template <class One>
  Progress take(One&& one);  // by whom it is carried out
  Progress taken(const Result<>& result);

  void when(std::function<bool()> there, std::function<void()> then);
  bool piece_there(std::string_view variable, std::size_t seen) const;  // piece() would not wait

  void fail(const Error& why);
  bool afford(std::size_t bytes);  // of the run's allowance; false: the state has failed. Requires: not the lock
  template <class Ready>
  bool wait(Lock& lock, Ready ready, Until until = {});
  void tell(Lock& lock);  // those who wait for something; unlocks
  bool idle() const { return begun_ && queue_.empty() && !at_work_; }
  bool is_stuck() const { return idle() && speculation_.is_recording(); }
  bool has_said_all() const { return error_.has_value() || (idle() && !speculation_.is_recording()); }
  bool settled() const { return error_.has_value() || (has_said_all() && !branches_.gathers_any()); }

  const std::shared_ptr<const RunSetup> setup_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;

  std::deque<QueueItem> queue_;
  bool at_work_ = false, begun_ = true, ended_ = false;
  std::optional<Error> error_;
  Variables variables_;
  std::vector<Reader> readers_;

  Document document_;
  std::size_t fork_begin_ = 0;  // bytes that were the origin's
  std::unique_ptr<Context> context_;
  std::shared_ptr<StreamExecutor> origin_;  // until it has come to the fork

  NodeSteps nodes_{*this};
  ScoreSteps scores_{*this};
  Branches branches_{*this};
  SpeculationSteps speculation_{*this};
  CallSteps calls_{*this};  // goes first
};

template <class One>
Progress StreamExecutor::take(One&& one) {
  if constexpr (requires { calls_.take(std::forward<One>(one)); })
    return calls_.take(std::forward<One>(one));
  else if constexpr (requires { scores_.take(std::forward<One>(one)); })
    return scores_.take(std::forward<One>(one));
  else if constexpr (requires { branches_.take(std::forward<One>(one)); })
    return branches_.take(std::forward<One>(one));
  else
    return nodes_.take(std::forward<One>(one));
}

}  // namespace espalier::lang
