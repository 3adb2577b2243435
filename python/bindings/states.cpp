// States of programs that run, their forks, and the pieces of their text.
#include "states.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>

#include <algorithm>
#include <cmath>

#include "errors.h"
#include "expressions.h"
#include "lang/backends/remote/wire/content_parts.h"
#include "python_json.h"
#include "values.h"
#include "waiting.h"

namespace espalier::python {
namespace {

// What is asked of a variable: its failure is a KeyError.
template <class Ask>
auto of_variable(Ask&& ask) {
  try {
    return unlocked(std::forward<Ask>(ask));
  } catch (const ProgramError& failed) {
    throw VariableError(failed.error());
  }
}

nb::object get(PythonState& self, const std::string& name) {
  return python_of(of_variable([&] { return self->get(name); }));
}

nb::object get_json(PythonState& self, const std::string& name) {
  const Value value = of_variable([&] { return self->get(name); });
  return python_of(value.as<Json>());
}

void set(PythonState& self, std::string name, nb::handle object) {
  Value value = value_of_python(object);
  unlocked([&] { self->set(std::move(name), std::move(value)); });
}

nb::object meta(PythonState& self, const std::string& name, std::optional<double> seconds) {
  if (!seconds) return python_of(of_variable([&] { return self->meta(name); }));
  const std::chrono::milliseconds limit(std::llround(1000 * std::clamp(*seconds, 0.0, 1e9)));
  const auto told = of_variable([&] { return self->meta(name, limit); });
  if (told) return python_of(*told);
  throw ProgramError({Error::Kind::timeout, "the variable " + name + " is not there yet", name, {}});
}

nb::object error(PythonState& self) {
  const auto failure = unlocked([&] { return self->error(); });
  return failure ? exception_of(*failure) : nb::none();
}

// OpenAI's form: text, or with pictures a list of parts.
Json content_of(const Message& message) {
  if (message.pictures.empty()) return message.text;
  Json parts = {{{"type", "text"}, {"text", message.text}}};
  for (const auto& picture : message.pictures) {
    const char* type = picture->kind == Picture::Kind::video ? "video_url" : "image_url";
    parts.push_back({{"type", type}, {type, {{"url", lang::data_uri(*picture)}}}});
  }
  return parts;
}

nb::list messages(PythonState& self) {
  nb::list list;
  for (const Message& message : unlocked([&] { return self->messages(); }))
    list.append(python_of(Json{{"role", message.role}, {"content", content_of(message)}}));
  return list;
}

void append(PythonState& self, nb::handle what) {
  Expr expr = expr_of(what);
  unlocked([&] { *self += std::move(expr); });
}

class PythonPieces {
 public:
  PythonPieces(Pieces pieces, bool of_variable) : pieces_(std::move(pieces)), of_variable_(of_variable) {}

  // (text, meta info), or None at the end.
  nb::object next() {
    const auto ask = [this] { return pieces_->next(); };
    const auto piece = of_variable_ ? of_variable(ask) : unlocked(ask);
    return piece ? nb::object(nb::make_tuple(text_of(piece->text), python_of(piece->meta))) : nb::none();
  }
  void notify(PythonWaker& waker, std::int64_t key) {
    unlocked([&] { pieces_->when_ready([waker = *waker, key] { waker->wake(key); }); });
  }

 private:
  Held<Pieces> pieces_;
  bool of_variable_;
};

JoinMode join_mode(const std::string& name) {
  if (name == "gather_variable") return JoinMode::gather_variable;
  if (name == "concate_and_append") return JoinMode::concate_and_append;
  throw ProgramError(bad_request("a group is joined by gather_variable or concate_and_append, not by " + name, "mode"));
}

using PythonGroup = Held<ForkGroup>;

nb::list children(PythonGroup& self) {
  nb::list list;
  for (const State& child : *self) list.append(nb::cast(held(child)));
  return list;
}

void append_each(PythonGroup& self, nb::list list) {
  std::vector<Expr> each;
  for (const nb::handle one : list) each.push_back(expr_of(one));
  unlocked([&] { *self += each; });
}

void bind_group(nb::module_& m) {
  nb::class_<PythonGroup>(m, "ForkGroup")
      .def_prop_ro("states", &children)
      .def("append",
           [](PythonGroup& self, nb::handle what) {
             const Expr expr = expr_of(what);
             unlocked([&] { *self += expr; });
           })
      .def("append_each", &append_each)
      .def("join", [](PythonGroup& self, const std::string& mode) {
        const JoinMode how = join_mode(mode);
        unlocked([&] { self->join(how); });
      });
}

}  // namespace

void bind_states(nb::module_& m) {
  nb::class_<PythonPieces>(m, "Pieces").def("next", &PythonPieces::next).def("notify", &PythonPieces::notify);
  bind_group(m);
  nb::class_<PythonState>(m, "State")
      .def("append", &append)
      .def("get", &get)
      .def("get_json", &get_json)
      .def("variable", [](PythonState& self, std::string name) { return Expr((*self)[std::move(name)]); })
      .def("set", &set, nb::arg("name"), nb::arg("value").none())
      .def("contains",
           [](PythonState& self, const std::string& name) { return unlocked([&] { return self->contains(name); }); })
      .def("text", [](PythonState& self) { return text_of(unlocked([&] { return self->text(); })); })
      .def("messages", &messages)
      .def("error", &error)
      .def("sync", [](PythonState& self) { unlocked([&] { self->sync(); }); })
      .def("meta", &meta, nb::arg("name"), nb::arg("timeout").none())
      .def("fork", [](PythonState& self,
                      int n) { return std::make_unique<PythonGroup>(unlocked([&] { return self->fork(n); })); })
      .def("pieces",
           [](PythonState& self, std::string variable) {
             const bool of_variable = !variable.empty();
             return std::make_unique<PythonPieces>(self->pieces(std::move(variable)), of_variable);
           })
      .def("cancel", [](PythonState& self) { unlocked([&] { self->cancel(); }); });
}

}  // namespace espalier::python
