// Programs as graphs, and compiled: trace(), Graph, compile(), CompiledProgram.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include "errors.h"
#include "espalier/compiler.h"
#include "held_backend.h"
#include "lang/batch/batch.h"
#include "lang/compiler/incremental.h"
#include "lang/graph/prefix.h"
#include "lang/state_core.h"
#include "python_function.h"
#include "python_json.h"
#include "states.h"
#include "values.h"

namespace espalier::python {
namespace {

using PythonProgram = Held<CompiledProgram>;
using Settings = Held<std::shared_ptr<const CompileOptions>>;

// What a Python function raises because an argument or a variable has no value while it is traced: our own error, and
// what comes of using a placeholder as if it were a value.
bool is_of_tracing(nb::python_error& raised) {
  if (raised.matches(PyExc_TypeError) || raised.matches(PyExc_AttributeError)) return true;
  const nb::object code = nb::getattr(raised.value(), "code", nb::none());
  if (!nb::isinstance<nb::str>(code)) return false;
  const std::string_view text = nb::cast<nb::str>(code).c_str();
  return text == lang::kTracedValue || text == lang::kTracedArgument;
}

// A function to be traced. `body` has placeholders for the parameters.
Function traced_function(std::string name, std::vector<std::string> parameters, nb::object body) {
  auto kept = std::make_shared<KeptObject>(std::move(body));
  return Function(std::move(name), std::move(parameters), [kept](State& s, const Arguments&) {
    const nb::gil_scoped_acquire gil;
    try {
      kept->get()(nb::cast(held(s)));
    } catch (nb::python_error& raised) {
      if (!is_of_tracing(raised)) throw;
      const std::string why = nb::str(raised.value()).c_str();
      throw ProgramError(bad_request(why, {}, std::string(lang::kTracedValue)));
    }
  });
}

template <class T>
T value_or_raise(Result<T> result) {
  if (!result.ok()) throw ProgramError(std::move(result).error());
  return std::move(result).value();
}

// A text, or a list of texts.
Json argument_of(nb::handle value) {
  if (PyUnicode_Check(value.ptr())) return string_of(value);
  Json list = Json::array();
  for (const nb::handle one : nb::iter(value)) list.push_back(string_of(one));
  return list;
}

Arguments arguments_of(const nb::dict& given) {
  Arguments arguments;
  for (const auto& [name, value] : given) arguments.set(string_of(name), argument_of(value));
  return arguments;
}

std::shared_ptr<const CompileOptions> compile_options(PythonBackend& backend, const GenOptions& defaults,
                                                      std::optional<std::vector<std::string>> outputs, bool meta_read,
                                                      const nb::dict& passes, std::string tuning_folder,
                                                      bool submit_runs) {
  CompileOptions options;
  options.backend = *backend;
  options.defaults = defaults;
  options.outputs = std::move(outputs);
  options.meta_read = meta_read ? MetaRead::own_state : MetaRead::none;
  options.tuning_folder = std::move(tuning_folder);
  options.submit_runs = submit_runs;
  for (const auto& [name, on] : passes) {
    const auto known = options.passes.set(string_of(name), nb::cast<bool>(on));
    if (!known.ok()) throw ProgramError(known.error());
  }
  return std::make_shared<const CompileOptions>(std::move(options));
}

// A run of a function that cannot be traced to its end: from one look at a value to the next.
class FollowedFunction {
 public:
  explicit FollowedFunction(std::shared_ptr<const CompileOptions> options) : options_(std::move(options)) {}

  Function function(nb::object body) const {
    return [options = options_, followed = python_function(std::move(body))](State& s) {
      lang::compile_incrementally(followed, s, {}, *options);
    };
  }
  RunOptions run_options(bool stream) const { return {options_->backend, options_->defaults, stream, 0}; }

 private:
  std::shared_ptr<const CompileOptions> options_;
};
using PythonFollowed = Held<FollowedFunction>;

nb::dict dict_of(const BatchSettings& settings) {
  nb::dict out;
  out["runs"] = settings.runs;
  out["group"] = settings.group;
  out["scored"] = settings.scored;
  return out;
}

nb::list tune(PythonProgram& self, const std::vector<nb::dict>& items, std::vector<int> runs, std::vector<int> groups,
              bool ways, int rounds) {
  std::vector<Arguments> all;
  for (const nb::dict& item : items) all.push_back(arguments_of(item));
  const TuneOptions options{std::move(runs), std::move(groups), ways, rounds};
  const auto measured = value_or_raise(unlocked([&] { return self->tune(all, options); }));
  nb::list out;
  for (const MeasuredSettings& one : measured) {
    nb::dict told = dict_of(one.settings);
    told["seconds"] = one.seconds;
    out.append(std::move(told));
  }
  return out;
}

void bind_graph(nb::module_& m) {
  nb::class_<Graph>(m, "Graph", "A program as data.")
      .def_ro("name", &Graph::name)
      .def_ro("parameters", &Graph::parameters)
      .def_ro("streams", &Graph::streams)
      .def_ro("ends_because", &Graph::ends_because)
      .def("to_json", [](const Graph& self) { return python_of(self.to_json()); })
      .def_static("from_json",
                  [](const std::string& text) {
                    const Json json = Json::parse(text, nullptr, false);
                    return value_or_raise(Graph::from_json(json));
                  })
      .def("text", [](const Graph& self) { return as_text(self); })
      .def("dot", [](const Graph& self) { return as_dot(self); })
      .def("svg", [](const Graph& self) { return as_svg(self); });
  m.def("trace", [](std::string name, std::vector<std::string> parameters, nb::object body) {
    const Function function = traced_function(std::move(name), std::move(parameters), std::move(body));
    return unlocked([&] { return trace(function); });
  });
  m.def("constant_prefix", [](const Graph& graph, PythonBackend& backend) {
    return text_of(lang::constant_prefix(graph, (*backend)->chat_format()));
  });
}

void bind_programs(nb::module_& m) {
  nb::class_<Settings>(m, "CompileOptions")
      .def(
          "__init__",
          [](Settings* self, PythonBackend& backend, const GenOptions& defaults,
             std::optional<std::vector<std::string>> outputs, bool meta_read, const nb::dict& passes,
             std::string tuning_folder, bool submit_runs) {
            new (self) Settings(compile_options(backend, defaults, std::move(outputs), meta_read, passes,
                                                std::move(tuning_folder), submit_runs));
          },
          nb::arg("backend"), nb::arg("defaults"), nb::arg("outputs").none(), nb::arg("meta_read"), nb::arg("passes"),
          nb::arg("tuning_folder"), nb::arg("submit_runs"));
  nb::class_<PythonProgram>(m, "CompiledProgram")
      .def_prop_ro("graph", [](PythonProgram& self) { return self->graph(); })
      .def_prop_ro("settings", [](PythonProgram& self) { return dict_of(self->settings()); })
      .def("report", [](PythonProgram& self) { return self->report(); })
      .def("report_json", [](PythonProgram& self) { return python_of(self->report_json()); })
      .def("run",
           [](PythonProgram& self, const nb::dict& given, bool stream) {
             const Arguments arguments = arguments_of(given);
             return held(unlocked([&] { return self->run(arguments, stream); }));
           })
      .def("batch",
           [](PythonProgram& self, const std::vector<nb::dict>& items, int at_once) {
             std::vector<Arguments> all;
             for (const nb::dict& item : items) all.push_back(arguments_of(item));
             const BatchSettings with = self->settings();
             const lang::BatchWindow window{static_cast<std::size_t>(at_once > 0 ? at_once : with.runs),
                                            static_cast<std::size_t>(with.group)};
             auto begin = unlocked([&] { return self->batch(std::move(all), at_once); });
             return std::make_unique<PythonBatch>(items.size(), 1, window, std::move(begin));
           })
      .def("tune", &tune);
  m.def("compile", [](std::string name, std::vector<std::string> parameters, nb::object body, const Settings& with) {
    const Function function = traced_function(std::move(name), std::move(parameters), std::move(body));
    return std::make_unique<PythonProgram>(value_or_raise(unlocked([&] { return compile(function, **with); })));
  });
  m.def("compile_graph", [](const Graph& graph, const Settings& with) {
    return std::make_unique<PythonProgram>(value_or_raise(unlocked([&] { return compile(Graph(graph), **with); })));
  });
  nb::class_<PythonFollowed>(m, "FollowedFunction")
      .def("__init__",
           [](PythonFollowed* self, const Settings& with) { new (self) PythonFollowed(FollowedFunction(*with)); })
      .def("run",
           [](PythonFollowed& self, nb::object body, bool stream) {
             const Function function = self->function(std::move(body));
             return held(unlocked([&] { return function.run({}, self->run_options(stream)); }));
           })
      .def("batch", [](PythonFollowed& self, const std::vector<nb::object>& bodies, int threads) {
        auto functions = std::make_shared<std::vector<Function>>();
        for (const nb::object& body : bodies) functions->push_back(self->function(body));
        return std::make_unique<PythonBatch>(functions->size(), threads, lang::BatchWindow{.ahead = functions->size()},
                                             [functions, options = self->run_options(false)](std::size_t i) {
                                               return (*functions)[i].run({}, options);
                                             });
      });
}

}  // namespace

void bind_compiler(nb::module_& m) {
  bind_graph(m);
  bind_programs(m);
}

}  // namespace espalier::python
