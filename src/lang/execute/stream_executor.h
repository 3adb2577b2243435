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
// Files:   stream_executor.cpp: the queue and the nodes; stream_executor_graph.cpp: what a graph adds;
//          stream_executor_speculation.cpp: API speculation.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>

#include "lang/batch/served_runs.h"
#include "lang/batch/text_budget.h"
#include "lang/execute/gather.h"
#include "lang/execute/sample_group.h"
#include "lang/execute/speculation.h"
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
  using Lock = std::unique_lock<std::mutex>;

  // What is queued: a program's node, or what this class adds to it.
  struct Commit {};  // the prefix becomes cached at the back end before children ask for it
  using ReasoningEnd = ReasoningSplit;
  struct ForkPoint {
    std::vector<std::shared_ptr<StreamExecutor>> children;
  };
  struct ConcatPoint {  // what the children say is appended
    std::vector<std::shared_ptr<StreamExecutor>> children;
    std::size_t next = 0;
  };
  using ServedRun = std::shared_ptr<const ServedItem>;
  using Item = std::variant<Node, Commit, ForkPoint, ConcatPoint, ReasoningEnd, SampleItem, ChainItem, ServedRun>;

  // A variable that joined states are still to bring.
  struct Gathering {
    std::shared_ptr<Gather> gather;
    bool overtaken = false;  // this state set it itself, behind the join
  };

  struct Reader {                 // who is to be told once
    std::function<bool()> there;  // under the lock
    std::function<void()> then;
  };

  // A step is done at once, or goes on when something comes back; then resume() follows.
  enum class Progress { done, waiting };

  void promise_variables(std::vector<Node>& nodes);
  void enqueue(std::vector<Node> nodes);
  void work();    // carries the queue on, unless somebody does
  void resume();  // what was waited for is there
  Progress step(Item item);

  Progress take(const node::Text& text);
  Progress take(const node::Argument& argument);
  Progress take(const node::Gen& gen);
  Progress take(const node::Select& select);
  Progress take(const node::RoleBegin& role);
  Progress take(const node::RoleEnd& role);
  Progress take(node::Media media);
  Progress take(const node::Variable& variable);
  Progress take(const Result<Value>& value);
  Progress take_own(const std::string& name);
  Progress take(node::ScopeBegin scope);
  Progress take(const node::ScopeEnd& scope);
  Progress take(const node::Reasoning&) { return Progress::done; }  // was taken apart when it was queued
  Progress take(Commit);
  Progress take(const ForkPoint& fork);
  Progress take(const ReasoningEnd& end);
  Progress take(node::MovableBegin) { return Progress::done; }
  Progress take(node::MovableEnd) { return Progress::done; }
  // What graphs append (stream_executor_graph.cpp).
  Progress take(ConcatPoint point);
  Progress take(SampleItem sample);
  Progress take(ChainItem chain);
  Progress take(const ServedRun& run);
  void finish_served(const ServedItem& item, ServedResult result);
  Progress taken(const Result<>& result);

  template <class Output>
  std::function<void(Result<Output>)> when_ended(std::function<void(StreamExecutor&, Output)> then);
  template <class Start>
  void start_call(Start start);
  void add_piece(const node::Gen& gen, Piece piece);
  void finish_gen(const node::Gen& gen, bool several, GenOutput output);
  Progress generate_choice(const node::Select& select);
  void finish_select(const node::Select& select, SelectOutput output);
  Result<ChainCall> chain_call(const std::vector<Node>& nodes) const;
  void finish_chain(const std::vector<Node>& nodes, std::vector<GenOutput> outputs);
  void gather_later(const std::vector<std::shared_ptr<StreamExecutor>>& children);
  void await(const std::string& name, const std::shared_ptr<Gather>& gather);
  void gathered(const std::string& name);
  // One of this state's own nodes sets a variable. Requires: the lock.
  void fulfil(const std::string& name, Value value, Json meta = nullptr);
  bool gathers(std::string_view name) const { return gathering_.contains(name); }
  // Called by the origin, which is at work: nobody changes its document meanwhile. `variables`: the origin's, and
  // `gathering` what joins are still to bring to it.
  void begin_as_child(const StreamExecutor& origin, const Variables& variables,
                      std::map<std::string, Gathering, std::less<>> gathering);

  // API speculation (stream_executor_speculation.cpp). Nothing: the item is carried out as without it.
  void begin_speculation();
  std::optional<Progress> speculate(Item& item);
  std::optional<Progress> speculate_completion(const Item& item);
  std::optional<Progress> speculate_turn(Item& item);
  Progress record(Item& item);
  Progress give_up(Item item);
  Progress say_turn();
  bool is_stuck() const { return idle() && recording_; }
  void say_recorded(Lock& lock);  // piece by piece: the turn is read before it ends
  void turn_is(const std::vector<GenOutput>& outputs);
  Result<> gather(const std::vector<std::shared_ptr<StateCore>>& children);
  Result<> concatenate(const std::vector<std::shared_ptr<StateCore>>& children);

  void when(std::function<bool()> there, std::function<void()> then);
  // The queue goes on when `there` is true of this state, or it has failed.
  Progress resume_when(std::function<bool()> there);
  bool piece_there(std::string_view variable, std::size_t seen) const;  // piece() would not wait
  Result<std::optional<Piece>> text_piece(std::size_t seen);
  Result<std::optional<Piece>> variable_piece(std::string_view name, std::size_t seen);

  void fail(const Error& why);
  bool afford(std::size_t bytes);  // of the run\'s allowance; false: the state has failed. Requires: not the lock
  template <class Ready>
  bool wait(Lock& lock, Ready ready, Until until = {});
  void tell(Lock& lock);  // those who wait for something; unlocks
  bool idle() const { return begun_ && queue_.empty() && !at_work_; }
  bool has_said_all() const { return error_.has_value() || (idle() && !recording_); }
  bool settled() const { return error_.has_value() || (has_said_all() && gathering_.empty()); }

  const std::shared_ptr<const RunSetup> setup_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;

  std::deque<Item> queue_;
  bool at_work_ = false, begun_ = true, ended_ = false;
  std::optional<Error> error_;
  Variables variables_;
  std::vector<Reader> readers_;

  Document document_;
  std::size_t streamed_ = 0;    // bytes of the call under way that are in the document already
  std::size_t fork_begin_ = 0;  // bytes that were the origin's
  std::vector<std::pair<std::string, std::size_t>> scopes_;  // open ones: name, where they began
  std::map<std::string, Gathering, std::less<>> gathering_;
  std::unique_ptr<Context> context_;
  std::shared_ptr<StreamExecutor> origin_;  // until it has come to the fork

  std::optional<CompletionSpeculation> completion_;
  std::optional<ChatSpeculation> chat_;
  bool recording_ = false;      // the parts of an assistant's turn, until it is said as one
  std::vector<Item> recorded_;  // they

  std::shared_ptr<SampleGroup> awaited_;  // whose sample is to come
  std::unique_ptr<Call> call_;
  std::uint64_t calls_begun_ = 0, calls_ended_ = 0;
};

}  // namespace espalier::lang
