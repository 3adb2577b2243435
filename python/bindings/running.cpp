// run() and run_batch(): the library's, with functions that are Python's.
#include <nanobind/stl/function.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <thread>

#include "errors.h"
#include "held_backend.h"
#include "lang/execute/waiting.h"
#include "python_function.h"
#include "states.h"
#include "values.h"

namespace espalier::python {

Function python_function(nb::object body) {
  auto kept = std::make_shared<KeptObject>(std::move(body));
  return [kept](State& s) {
    const auto entry = running_functions().enter(s);
    const nb::gil_scoped_acquire gil;
    kept->get()(nb::cast(held(s)));
  };
}

std::unique_ptr<PythonState> PythonBatch::next(const nb::object& progress) {
  if (!batch_) throw ProgramError({Error::Kind::cancelled, "the batch was closed", {}, {}});
  auto state = held(unlocked([&] { return batch_->next(); }));
  if (!progress.is_none()) progress(++done_);
  return state;
}

namespace {

using PythonOptions = Held<RunOptions>;

std::unique_ptr<PythonState> run(nb::object body, PythonOptions& options) {
  const Function function = python_function(std::move(body));
  return held(unlocked([&] { return function.run({}, *options); }));
}

std::unique_ptr<PythonBatch> batch(const std::vector<nb::object>& bodies, PythonOptions& options, int threads,
                                   std::size_t ahead) {
  auto functions = std::make_shared<std::vector<Function>>();
  for (const nb::object& body : bodies) functions->push_back(python_function(body));
  return std::make_unique<PythonBatch>(
      functions->size(), threads,
      lang::BatchWindow{.ahead = ahead == 0 ? functions->size() : ahead, .failures_in_place = ahead != 0},
      [functions, options = *options](std::size_t i) { return (*functions)[i].run({}, options); });
}

// Ctrl-C ends a wait: Python's handler has noted it, and only the main thread may see to it.
void see_to_signals() {
  if (running_functions().closed()) return;
  const nb::gil_scoped_acquire gil;
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

void watch_signals() {
  lang::set_wait_hook([main = std::this_thread::get_id()] {
    if (std::this_thread::get_id() == main) see_to_signals();
  });
}

}  // namespace

void bind_running(nb::module_& m) {
  watch_signals();
  nb::class_<PythonOptions>(m, "RunOptions")
      .def(
          "__init__",
          [](PythonOptions* self, PythonBackend* backend, const GenOptions& defaults, bool stream, int tokens) {
            new (self) PythonOptions(RunOptions{backend ? **backend : nullptr, defaults, stream, tokens});
          },
          nb::arg("backend").none(), nb::arg("defaults"), nb::arg("stream"), nb::arg("tokens"));
  m.def("run", &run);
  nb::class_<PythonBatch>(m, "Batch")
      .def("next", &PythonBatch::next, nb::arg("progress").none())
      .def("close", &PythonBatch::close);
  m.def("batch", &batch);
  m.def("close", [] { unlocked([] { running_functions().close(); }); });
  nb::module_::import_("atexit").attr("register")(m.attr("close"));
}

}  // namespace espalier::python
