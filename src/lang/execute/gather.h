// gather.h: a variable that joined states bring to the one that joined them, as a list in their order.
//
// It is there when each of them has its value, or has no more to do. The state that joined waits for it, and so do
// those that were forked off it meanwhile: they inherit the variable, whenever it comes.
// Threads: any. Fails: what one of the states failed to set is the list's failure.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lang/batch/text_budget.h"
#include "lang/execute/async_value.h"
#include "lang/state_core.h"

namespace espalier::lang {

// The list of one variable of several states, there once all of them have arrived.
class Gather {
 public:
  // `sources`: those that set it; one may stand there more than once. Each tells arrived() once.
  // `allowance`: may be null.
  explicit Gather(std::vector<std::shared_ptr<StateCore>> sources, std::shared_ptr<TextBudget> allowance = nullptr)
      : sources_(std::move(sources)), allowance_(std::move(allowance)), missing_(sources_.size()) {}

  void arrived(const std::string& name) {
    if (--missing_ == 0) list_.put(collect(name));
  }
  void when_there(std::function<void()> then) { list_.when_there(std::move(then)); }
  // Requires: when_there() has told.
  const Result<Value>& list() const { return list_.value(); }

 private:
  Result<Value> collect(const std::string& name) const {
    Value::List values;
    for (const auto& source : sources_) {
      const auto value = source->try_read(name);
      if (value && value->ok() && allowance_) ESP_CHECK(allowance_->take(sizeof(Value) + bytes_of(**value)));
      if (value && value->ok()) values.push_back(**value);
      if (value && !value->ok() && value->error().code != "no_such_variable") return value->error();
    }
    return Value(std::move(values));
  }

  const std::vector<std::shared_ptr<StateCore>> sources_;
  const std::shared_ptr<TextBudget> allowance_;
  std::atomic<std::size_t> missing_;
  AsyncValue<Result<Value>> list_;
};

}  // namespace espalier::lang
