#include "gen_options.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <string_view>

#include "held_method.h"
#include "values.h"

namespace espalier::python {
namespace {

template <class T>
void take(std::optional<T>& into, nb::handle value) {
  into = nb::cast<T>(value);
}

// What a float means to Python programs: 0 and 1 too.
void take(std::optional<double>& into, nb::handle value) {
  into = nb::cast<double>(nb::float_(nb::borrow(value)));
}

void take(Strings& into, nb::handle value) {
  if (PyUnicode_Check(value.ptr())) {
    into = string_of(value);
    return;
  }
  std::vector<std::string> list;
  for (const nb::handle element : nb::iter(value)) list.push_back(nb::cast<std::string>(element));
  into = std::move(list);
}

void take(std::string& into, nb::handle value) {
  into = string_of(value);
}

void take(std::shared_ptr<const ChoicesMethod>& into, nb::handle value) {
  into = *nb::cast<PythonMethod&>(value);
}

void take(ValueType& into, nb::handle value) {
  const std::string name = string_of(value);
  into = name == "int"     ? ValueType::integer
         : name == "float" ? ValueType::number
         : name == "bool"  ? ValueType::boolean
                           : ValueType::string;
}

struct Field {
  std::string_view name;
  void (*store)(GenOptions&, nb::handle);
};

template <auto Member>
void store(GenOptions& options, nb::handle value) {
  take(options.*Member, value);
}

using O = GenOptions;
constexpr std::array kFields = {
    Field{"max_tokens", &store<&O::max_tokens>},
    Field{"min_tokens", &store<&O::min_tokens>},
    Field{"n", &store<&O::n>},
    Field{"stop", &store<&O::stop>},
    Field{"stop_regex", &store<&O::stop_regex>},
    Field{"stop_token_ids", &store<&O::stop_token_ids>},
    Field{"temperature", &store<&O::temperature>},
    Field{"top_p", &store<&O::top_p>},
    Field{"top_k", &store<&O::top_k>},
    Field{"min_p", &store<&O::min_p>},
    Field{"frequency_penalty", &store<&O::frequency_penalty>},
    Field{"presence_penalty", &store<&O::presence_penalty>},
    Field{"ignore_eos", &store<&O::ignore_eos>},
    Field{"seed", &store<&O::seed>},
    Field{"return_logprob", &store<&O::return_logprob>},
    Field{"logprob_start_len", &store<&O::logprob_start_len>},
    Field{"top_logprobs_num", &store<&O::top_logprobs_num>},
    Field{"return_text_in_logprobs", &store<&O::return_text_in_logprobs>},
    Field{"dtype", &store<&O::type>},
    Field{"choices", &store<&O::choices>},
    Field{"choices_method", &store<&O::choices_method>},
    Field{"regex", &store<&O::regex>},
    Field{"json_schema", &store<&O::json_schema>},
    Field{"ebnf", &store<&O::ebnf>},
    Field{"json_closing", &store<&O::json_closing>},
};

void store_field(GenOptions& options, std::string_view name, nb::handle value) {
  for (const Field& field : kFields) {
    if (field.name != name) continue;
    try {
      return field.store(options, value);
    } catch (const nb::cast_error&) {
      throw nb::type_error((std::string(name) + " has a value of the wrong type").c_str());
    }
  }
  throw nb::type_error((std::string(name) + " is no option of a generation").c_str());
}

}  // namespace

GenOptions gen_options(const nb::kwargs& given) {
  GenOptions options;
  for (const auto& [name, value] : given)
    if (!value.is_none()) store_field(options, string_of(name), value);
  return options;
}

void bind_values(nb::module_& m) {
  nb::class_<GenOptions>(m, "GenOptions").def("__init__", [](GenOptions* self, const nb::kwargs& given) {
    new (self) GenOptions(gen_options(given));
  });
}

}  // namespace espalier::python
