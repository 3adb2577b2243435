// state_core.h: what stands behind a State: a program being run (stream_executor.h) or traced (tracer.h).
//
// Threads: any; one program thread at a time appends to a core. The functions that wait say so.
// Fails:   read(): the Error that ended the state, or bad_request for a variable that is never set. append(): never;
//          what goes wrong is the state's error.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "espalier/program.h"
#include "lang/execute/async_value.h"

namespace espalier::lang {

inline constexpr std::string_view kNotYet = "not_yet";  // code of meta()'s Error when time ran out
// Codes of what a read fails with while a program is traced: it is no failure of the program's.
inline constexpr std::string_view kTracedValue = "traced_value", kTracedArgument = "traced_argument";

// What a graph that is carried out appends beside a program's own nodes (include/espalier/graph.h).
class SampleGroup;
// A state's part in a SampleGroup: which sample is its own.
struct SampleItem {
  std::shared_ptr<SampleGroup> group;
  std::size_t index = 0;
  node::Gen gen;
};
// Generations with the literals between them that are asked for in one call.
struct ChainItem {
  std::vector<Node> nodes;
};
struct ReasoningSplit {  // of what was generated under these names since the turn's beginning
  std::string model_type;
  std::vector<std::string> names;
};
struct ServedItem;  // lang/batch/served_runs.h
using GraphItem = std::variant<SampleItem, ChainItem, ReasoningSplit, std::shared_ptr<const ServedItem>>;

// A variable as it is when the nodes that were queued at some moment have set it: its value, or why it never comes.
class PromisedValue : public AsyncValue<std::shared_ptr<const Result<Value>>> {};

// What a State appends to and reads from; run or traced.
class StateCore {
 public:
  using Clock = std::chrono::steady_clock;
  using Until = std::optional<Clock::time_point>;  // none: whenever it may be

  virtual ~StateCore() = default;

  virtual void append(Expr what) = 0;
  virtual void append(GraphItem item) = 0;
  virtual void set(std::string name, Value value) = 0;
  virtual bool contains(std::string_view name) const = 0;

  virtual Result<Value> read(std::string_view name) = 0;  // waits
  // What read() would give, if it need not wait.
  virtual std::optional<Result<Value>> try_read(std::string_view name) const = 0;
  // What it will be by all that was appended up to now, whatever comes behind.
  virtual std::shared_ptr<PromisedValue> promise(std::string_view name) = 0;
  // Somebody waits for what was promised: a call that would be made later, together with others, is made now.
  virtual void hurry() {}
  // Waits, but not beyond `until`. Its value is the call's meta_info; Error with code kNotYet when it is not there by
  // then.
  virtual Result<Json> meta(std::string_view name, Until until) = 0;
  // Calls `then` once, when sync() would not wait any more: on whichever thread made it so, or at once on this one.
  virtual void when_settled(std::function<void()> then) = 0;
  virtual void sync() = 0;                      // waits until all that was appended is done, or the state has failed
  virtual std::string text() = 0;               // waits, as sync()
  virtual std::vector<Message> messages() = 0;  // waits
  virtual std::optional<Error> error() = 0;     // waits

  virtual std::vector<std::shared_ptr<StateCore>> fork(int n) = 0;
  // Waits for the children, which end.
  virtual Result<> join(const std::vector<std::shared_ptr<StateCore>>& children, JoinMode mode) = 0;
  // As join(), but nobody waits: a variable comes when the children have it, and what they said is appended, in its
  // place, when they have said it. What fails is this state's.
  virtual void join_later(const std::vector<std::shared_ptr<StateCore>>& children, JoinMode mode) = 0;

  // What follows the first `seen` bytes of a variable or, without a name, of the whole text; waits for some of it.
  // None: it is complete. Fails: the state's error.
  virtual Result<std::optional<Piece>> piece(std::string_view variable, std::size_t seen) = 0;
  // Calls `then` once, when piece() would not wait any more, as when_settled() does.
  virtual void when_piece(std::string variable, std::size_t seen, std::function<void()> then) = 0;

  virtual void end() = 0;  // nothing more will be appended
  // Waits while a function that runs in a thread of its own may still append: until it has, the state has failed or,
  // with a name, the function has come to where that variable is set. False: it has not by `until`.
  virtual bool await_function(std::string_view, Until) { return true; }
  virtual void cancel(Error why) = 0;
};

}  // namespace espalier::lang
