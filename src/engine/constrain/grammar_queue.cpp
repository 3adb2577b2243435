#include "engine/constrain/grammar_queue.h"

#include <utility>

namespace espalier {

bool GrammarQueue::submit(const grammar::Grammar* grammar, Work work) {
  {
    const std::lock_guard lock(mutex_);
    const auto [turns, first] = waiting_.try_emplace(grammar);
    turns->second.push_back(std::move(work));
    if (!first) return true;
  }
  if (pool_.submit([this, grammar](const CancelFlag& cancel) { run(grammar, cancel); })) return true;
  const std::lock_guard lock(mutex_);
  waiting_.erase(grammar);
  return false;
}

void GrammarQueue::run(const grammar::Grammar* grammar, const CancelFlag& cancel) {
  while (!cancel.cancelled()) {
    Work work;
    {
      const std::lock_guard lock(mutex_);
      const auto turns = waiting_.find(grammar);
      if (turns->second.empty()) {
        waiting_.erase(turns);
        return;
      }
      work = std::move(turns->second.front());
      turns->second.pop_front();
    }
    work();
  }
}

}  // namespace espalier
