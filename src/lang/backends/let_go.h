// let_go.h: a back end that may be let go of on its own thread.
//
// The last state that holds a back end may end in a callback of that back end, on the thread which the back end's
// destructor waits for. It is then destroyed on a thread that exists for nothing else.
// Threads: any may let go last. Requires: T::is_own_thread(), true on the thread that ~T() joins.
#pragma once

#include <memory>
#include <thread>
#include <utility>

namespace espalier::lang {

// The same object under owners of their own; the one that is given is to be the only one.
template <class T>
std::shared_ptr<T> let_go_elsewhere(std::shared_ptr<T> only) {
  T* const object = only.get();
  return std::shared_ptr<T>(object, [only = std::move(only)](T*) mutable {
    if (only->is_own_thread()) std::thread([last = std::move(only)] {}).detach();
    only.reset();
  });
}

}  // namespace espalier::lang
