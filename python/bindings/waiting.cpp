#include "waiting.h"

#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include "espalier/program.h"

namespace espalier::python {

namespace {

WakeDescriptor open_descriptor() {
  auto opened = WakeDescriptor::open();
  if (!opened.ok())
    throw ProgramError({Error::Kind::out_of_memory, "no file descriptor is left for the event loop", {}, {}});
  return std::move(*opened);
}

}  // namespace

Waker::Waker() : raised_(open_descriptor()) {}

void Waker::wake(std::int64_t key) {
  {
    const std::scoped_lock lock(mutex_);
    keys_.push_back(key);
  }
  raised_.notify();
}

std::vector<std::int64_t> Waker::take() {
  raised_.clear();
  const std::scoped_lock lock(mutex_);
  return std::exchange(keys_, {});
}

void WakeSignal::raise() {
  std::shared_ptr<Waker> waker;
  std::int64_t key = 0;
  {
    const std::scoped_lock lock(mutex_);
    waker = std::exchange(waker_, nullptr);
    key = key_;
    raise_pending_ = waker == nullptr;
  }
  if (waker)
    waker->wake(key);
  else
    raised_.notify_all();
}

bool WakeSignal::wait(std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  const bool raised = raised_.wait_for(lock, limit, [this] { return raise_pending_; });
  raise_pending_ = false;
  return raised;
}

void WakeSignal::notify(std::shared_ptr<Waker> waker, std::int64_t key) {
  {
    const std::scoped_lock lock(mutex_);
    if (!std::exchange(raise_pending_, false)) {
      waker_ = std::move(waker);
      key_ = key;
      return;
    }
  }
  waker->wake(key);
}

void bind_waiting(nb::module_& m) {
  nb::class_<PythonWaker>(m, "Waker")
      .def("fileno", [](PythonWaker& self) { return (*self)->descriptor(); })
      .def("take", [](PythonWaker& self) { return (*self)->take(); });
  m.def("waker", [] { return std::make_unique<PythonWaker>(std::make_shared<Waker>()); });
}

}  // namespace espalier::python
