#include "interpreter.h"

namespace espalier::python {

RunningFunctions& running_functions() {
  static auto* one = new RunningFunctions();  // outlives whatever thread still looks at it
  return *one;
}

RunningFunctions::Entry::~Entry() {
  const std::scoped_lock lock(all_.mutex_);
  all_.running_.erase(all_.running_.find(state_));
  all_.changed_.notify_all();
}

std::unique_ptr<RunningFunctions::Entry> RunningFunctions::enter(const State& state) {
  const std::scoped_lock lock(mutex_);
  if (closed_) throw ProgramError({Error::Kind::cancelled, "the program ends", {}, {}});
  running_.insert(state.core());
  return std::make_unique<Entry>(*this, state.core());
}

bool RunningFunctions::closed() const {
  const std::scoped_lock lock(mutex_);
  return closed_;
}

void RunningFunctions::close() {
  std::unique_lock lock(mutex_);
  closed_ = true;
  const auto running = running_;
  lock.unlock();
  for (const auto& weak : running)
    if (auto core = weak.lock()) State(std::move(core)).cancel();
  lock.lock();
  changed_.wait(lock, [this] { return running_.empty(); });
}

}  // namespace espalier::python
