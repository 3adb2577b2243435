// variables.h: a state's variables: what is there, what is still to come, and what never will be.
//
// A name is announced when the node that will set it is queued, so a reader knows whether to wait. A name may be set
// again: readers wait for the last announced value, promises for the last of those that were announced when they were
// made.
// Threads: the owner's lock. Fails: reads give the Error that kept the value from coming, or bad_request with code
//          no_such_variable for a name that nothing sets.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "espalier/program.h"
#include "lang/state_core.h"

namespace espalier::lang {

// The variables of one state by name: values, promises and failures.
class Variables {
 public:
  void announce(const std::string& name);
  void set(const std::string& name, Value value, Json meta = nullptr);      // an announced one, or at any time
  void fulfil(const std::string& name, Value value, Json meta = nullptr);   // the announced one is here
  void append(const std::string& name, std::string_view piece, Json meta);  // a part of an announced one is here
  void refuse(const std::string& name, Error why);                          // it never comes
  void refuse_one(const std::string& name, Error why);                      // the announced one; others may come
  void forgo(const std::string& name);  // the announced one is not wanted any more: a later one is there
  void refuse_all(const Error& why);    // none that is announced comes

  bool contains(std::string_view name) const;  // it is set, whatever is to come
  bool known(std::string_view name) const;     // set, announced or refused
  bool settled(std::string_view name) const;   // nothing of it is to come: read() says what is there
  std::optional<Result<Value>> read(std::string_view name) const;  // nothing: it is to come
  std::shared_ptr<PromisedValue> promise(std::string_view name);
  // What puts the promises that came true since it was last asked for: to be called without the lock.
  std::vector<std::function<void()>> take_kept() { return std::exchange(kept_, {}); }
  const Value* current(std::string_view name) const;  // the last that was set, whatever is to come; null: none
  std::optional<Result<Json>> meta(std::string_view name) const;
  // The text so far of one that is being streamed, or whole; null when there is none yet.
  const std::string* streamed(std::string_view name) const;
  Json latest_meta(std::string_view name) const;
  // What follows the first `seen` bytes of it; none: it is complete. Requires: there is more of it, or it is settled.
  Result<std::optional<Piece>> piece(std::string_view name, std::size_t seen) const;
  std::vector<std::string> names() const;
  std::size_t bytes() const;  // of the values

  // Of a state that was forked off: it has its own copies as soon as its origin has come to the fork.
  void announce_all(const Variables& origin);
  bool inherits(std::string_view name) const;  // the origin knew it at the fork, and has not come there
  // `to_come`: of a name that is to come to both of them.
  void inherit(const Variables& origin, const std::function<bool(const std::string& name)>& to_come);

 private:
  struct Promise {
    int after = 0;  // so many have come or never will
    std::shared_ptr<PromisedValue> value;
  };
  struct Slot {
    int coming = 0, come = 0;
    std::optional<Value> value;
    std::string partial;  // of the one that is coming
    Json meta;
    std::optional<Error> error;
    bool inherited = false;  // one of those that are coming is the origin's
    std::vector<Promise> promises;
    std::shared_ptr<const Result<Value>> told;  // value or error, as promises have it; null: nobody asked
  };
  void come(std::string_view name, Slot& slot, int count = 1);  // of those that are coming
  static const std::shared_ptr<const Result<Value>>& told(std::string_view name, Slot& slot);
  static Error unknown(std::string_view name);
  const Slot* find(std::string_view name) const;

  std::map<std::string, Slot, std::less<>> slots_;
  std::vector<std::function<void()>> kept_;
};

}  // namespace espalier::lang
