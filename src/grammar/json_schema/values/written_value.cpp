#include "grammar/json_schema/values/written_value.h"

#include <algorithm>
#include <vector>

namespace espalier::grammar {
namespace {

std::size_t end_of_string(std::string_view json, std::size_t at) {
  for (++at; at < json.size() && json[at] != '"'; ++at) {
    if (json[at] == '\\') ++at;
  }
  return std::min(at + 1, json.size());
}

}  // namespace

std::string_view last_value(std::string_view json) {
  std::vector<std::size_t> open;
  std::size_t last = 0;
  for (std::size_t at = 0; at < json.size();) {
    switch (json[at]) {
      case '[':
      case '{':
        open.push_back(at++);
        break;
      case ']':
      case '}':
        if (!open.empty()) {
          last = open.back();
          open.pop_back();
        }
        ++at;
        break;
      case '"':
        last = at;
        at = end_of_string(json, at);
        break;
      case ' ':
      case '\t':
      case '\n':
      case '\r':
      case ',':
      case ':':
        ++at;
        break;
      default:  // a number or a name
        last = at;
        at = std::min(json.find_first_of(",:]} \t\r\n", at), json.size());
    }
  }
  return json.substr(last);
}

std::string last_string(std::string_view json) {
  json.remove_suffix(1);
  std::size_t begin = json.size();
  for (; begin > 0; --begin) {
    if (json[begin - 1] != '"') continue;
    std::size_t escapes = begin - 1;
    while (escapes > 0 && json[escapes - 1] == '\\') --escapes;
    if ((begin - 1 - escapes) % 2 == 0) break;
  }
  return '"' + std::string(json.substr(begin)) + '"';
}

}  // namespace espalier::grammar
