// off_thread_delete.h: a back end whose last owner may be on the back end's own thread.
//
// The last state that holds a back end may end in a callback of that back end, on the thread which the back end's
// destructor waits for. It is then destroyed on a thread that exists for nothing else.
// Threads: any may drop the last owner. Requires: T::is_own_thread(), true on the thread that ~T() joins.
#pragma once

#include <memory>
#include <thread>
#include <utility>

namespace espalier::lang {

// The same object under owners of their own; the one that is given is to be the only one.
template <class T>
std::shared_ptr<T> delete_off_own_thread(std::shared_ptr<T> only) {
  T* const object = only.get();
  return std::shared_ptr<T>(object, [only = std::move(only)](T*) mutable {
    if (only->is_own_thread()) std::thread([last = std::move(only)] {}).detach();
    only.reset();
  });
}

}  // namespace espalier::lang
