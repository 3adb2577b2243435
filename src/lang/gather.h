// gather.h: a variable that joined states bring to the one that joined them, as a list in their order.
//
// It is there when each of them has its value, or has no more to do. The state that joined waits for it, and so do
// those that were forked off it meanwhile: they inherit the variable, whenever it comes. Threads: any. Fails: what one
// of the states failed to set is the list's failure.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "lang/state_core.h"
#include "lang/text_allowance.h"

namespace espalier::lang {

class Gather {
 public:
  // `sources`: those that set it; one may stand there more than once. Each tells arrived() once.
  // `allowance`: may be null.
  explicit Gather(std::vector<std::shared_ptr<StateCore>> sources, std::shared_ptr<TextAllowance> allowance = nullptr)
      : sources_(std::move(sources)), allowance_(std::move(allowance)), missing_(sources_.size()) {}

  void arrived(const std::string& name) {
    std::vector<std::function<void()>> waiting;
    {
      const std::lock_guard lock(mutex_);
      if (--missing_ > 0) return;
    }
    Result<Value> list = collect(name);
    {
      const std::lock_guard lock(mutex_);
      list_ = std::move(list);
      waiting.swap(waiting_);
    }
    for (const auto& then : waiting) then();
  }
  // Calls `then` once the list is there, maybe at once.
  void when_there(std::function<void()> then) {
    {
      const std::lock_guard lock(mutex_);
      if (!list_) return waiting_.push_back(std::move(then));
    }
    then();
  }
  // Requires: when_there() has told.
  Result<Value> list() const {
    const std::lock_guard lock(mutex_);
    return *list_;
  }

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
  const std::shared_ptr<TextAllowance> allowance_;
  mutable std::mutex mutex_;
  std::size_t missing_;
  std::optional<Result<Value>> list_;
  std::vector<std::function<void()>> waiting_;
};

}  // namespace espalier::lang
