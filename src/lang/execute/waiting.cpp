#include "lang/execute/waiting.h"

#include <memory>
#include <utility>

#include "espalier/program.h"

namespace espalier::lang {
namespace {

thread_local const std::atomic<bool>* t_over = nullptr;

using Hook = std::function<void()>;
struct TheHook {
  std::mutex mutex;
  std::shared_ptr<const Hook> hook;
};
TheHook& the_hook() {
  static TheHook one;
  return one;
}

}  // namespace

void set_wait_hook(Hook hook) {
  const std::scoped_lock lock(the_hook().mutex);
  the_hook().hook = hook ? std::make_shared<const Hook>(std::move(hook)) : nullptr;
}

WaitCancellation::WaitCancellation(const std::atomic<bool>& over) : before_(std::exchange(t_over, &over)) {}

WaitCancellation::~WaitCancellation() {
  t_over = before_;
}

void check_interrupts() {
  if (t_over != nullptr && *t_over) throw ProgramError({Error::Kind::cancelled, "the batch has ended", {}, {}});
  std::shared_ptr<const Hook> hook;
  {
    const std::scoped_lock lock(the_hook().mutex);
    hook = the_hook().hook;
  }
  if (hook) (*hook)();
}

}  // namespace espalier::lang
