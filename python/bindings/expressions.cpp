#include "expressions.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "held_method.h"
#include "lang/gen_options.h"
#include "python_json.h"
#include "values.h"

namespace espalier::python {
namespace {

nb::builtin_exception cannot_append(nb::handle object) {
  const std::string type = nb::cast<std::string>(nb::type_name(object.type()));
  return nb::type_error(("text, an expression or a list of them can be appended, not " + type).c_str());
}

Expr role(const std::string& name, nb::handle content) {
  if (content.is_none()) return role_begin(name) + role_end(name);
  return role_begin(name) + expr_of(content) + role_end(name);
}

}  // namespace

Expr expr_of(nb::handle object) {
  if (PyUnicode_Check(object.ptr())) return Expr(string_of(object));
  if (nb::isinstance<Expr>(object)) return nb::cast<Expr>(object);
  if (!nb::isinstance<nb::list>(object) && !nb::isinstance<nb::tuple>(object)) throw cannot_append(object);
  Expr all;
  for (const nb::handle element : nb::iter(object)) all += expr_of(element);
  return all;
}

void bind_expressions(nb::module_& m) {
  m.attr("REGEX_INT") = text_of(lang::pattern_of(ValueType::integer).regex);
  m.attr("REGEX_FLOAT") = text_of(lang::pattern_of(ValueType::number).regex);
  m.attr("REGEX_BOOL") = text_of(lang::pattern_of(ValueType::boolean).regex);
  m.attr("REGEX_STR") = text_of(lang::pattern_of(ValueType::string).regex);
  nb::class_<Expr>(m, "Expr", "What gen, select, user ... make; + joins it with text.")
      .def("__init__", [](Expr* self, const Expr& other) { new (self) Expr(other); })
      .def("__add__", [](const Expr& left, nb::handle right) { return Expr(left) + expr_of(right); })
      .def("__radd__", [](const Expr& right, nb::handle left) { return expr_of(left) + Expr(right); })
      .def("__len__", [](const Expr& self) { return self.nodes().size(); })
      .def("__copy__", [](const Expr& self) { return Expr(self); })
      .def("__deepcopy__", [](const Expr& self, nb::handle) { return Expr(self); });
  m.def("gen", [](std::string name, const GenOptions& options) { return gen(std::move(name), options); });
  m.def("select", [](std::string name, std::vector<std::string> choices, double temperature, nb::object method) {
    auto chosen = method.is_none() ? nullptr : *nb::cast<PythonMethod&>(method);
    return select(std::move(name), std::move(choices), temperature, std::move(chosen));
  });
  m.def("role", &role, nb::arg("name"), nb::arg("content").none());
  m.def("role_begin", &role_begin);
  m.def("role_end", &role_end);
  m.def("scope_begin", [](std::string name) { return Expr(Node(node::ScopeBegin{std::move(name)})); });
  m.def("scope_end", [](std::string name) { return Expr(Node(node::ScopeEnd{std::move(name)})); });
  m.def("argument", [](std::string name) { return Expr(Node(node::Argument{std::move(name)})); });
  m.def("movable", [](nb::handle content) { return movable(expr_of(content)); });
  m.def("image", [](const std::string& path) { return image(path); });
  m.def("image_bytes", [](nb::bytes bytes) { return image_bytes(std::string(bytes.c_str(), bytes.size())); });
  m.def("video", [](const std::string& path, int frames) { return video(path, frames); });
  m.def(
      "separate_reasoning",
      [](nb::handle content, std::string model_type) {
        return separate_reasoning(content.is_none() ? Expr() : expr_of(content), std::move(model_type));
      },
      nb::arg("content").none(), nb::arg("model_type"));
}

}  // namespace espalier::python
