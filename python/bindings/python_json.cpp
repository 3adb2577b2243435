#include "python_json.h"

namespace espalier::python {
namespace {

nb::object list_of(const Json& json) {
  nb::list list;
  for (const Json& element : json) list.append(python_of(element));
  return list;
}

nb::object dict_of(const Json& json) {
  nb::dict dict;
  for (const auto& [key, value] : json.items()) dict[text_of(key)] = python_of(value);
  return dict;
}

}  // namespace

nb::object text_of(std::string_view text) {
  return nb::steal(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
}

nb::object python_of(const Json& json) {
  switch (json.type()) {
    case Json::value_t::boolean:
      return nb::bool_(json.get<bool>());
    case Json::value_t::number_integer:
      return nb::int_(json.get<std::int64_t>());
    case Json::value_t::number_unsigned:
      return nb::int_(json.get<std::uint64_t>());
    case Json::value_t::number_float:
      return nb::float_(json.get<double>());
    case Json::value_t::string:
      return text_of(json.get_ref<const std::string&>());
    case Json::value_t::array:
      return list_of(json);
    case Json::value_t::object:
      return dict_of(json);
    default:
      return nb::none();
  }
}

}  // namespace espalier::python
