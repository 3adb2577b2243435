#include "expressions.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "espalier/scores.h"
#include "held_backend.h"
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

// Whether an expression stands for a value that may be a list.
bool is_placeholder(const Expr& one) {
  return one.nodes().size() == 1 && (std::holds_alternative<node::Argument>(one.nodes().front()) ||
                                     std::holds_alternative<node::Variable>(one.nodes().front()));
}

ScoredTexts scored_texts(nb::handle object) {
  if (!nb::isinstance<nb::list>(object) && !nb::isinstance<nb::tuple>(object)) {
    Expr one = expr_of(object);
    return is_placeholder(one) ? ScoredTexts::each_of(std::move(one)) : ScoredTexts(std::move(one));
  }
  std::vector<Expr> texts;
  for (const nb::handle element : nb::iter(object)) texts.push_back(expr_of(element));
  return texts;
}

void bind_scores(nb::module_& m) {
  nb::class_<ScoreOptions>(m, "ScoreOptions")
      .def(
          "__init__",
          [](ScoreOptions* self, std::string model, std::string instruct, std::string prompt_name,
             std::string input_type, std::optional<int> dimensions, std::optional<bool> raw_scores,
             std::optional<int> top_n, PythonBackend* backend) {
            new (self) ScoreOptions{std::move(model),
                                    std::move(instruct),
                                    std::move(prompt_name),
                                    std::move(input_type),
                                    dimensions,
                                    raw_scores,
                                    top_n,
                                    backend != nullptr ? **backend : nullptr};
          },
          nb::arg("model"), nb::arg("instruct"), nb::arg("prompt_name"), nb::arg("input_type"),
          nb::arg("dimensions").none(), nb::arg("raw_scores").none(), nb::arg("top_n").none(),
          nb::arg("backend").none());
  m.def("score", [](std::string name, nb::handle query, nb::handle documents, const ScoreOptions& options) {
    return score(std::move(name), expr_of(query), scored_texts(documents), options);
  });
  m.def("rerank", [](std::string name, nb::handle query, nb::handle documents, const ScoreOptions& options) {
    return rerank(std::move(name), expr_of(query), scored_texts(documents), options);
  });
  m.def("embed", [](std::string name, nb::handle texts, const ScoreOptions& options) {
    return embed(std::move(name), scored_texts(texts), options);
  });
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
  bind_scores(m);
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
