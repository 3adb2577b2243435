// workload.h: what is sent to a server in one run: requests or programs, from a file or made up.
// Units: seconds, tokens. Threads: values.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "bench/workload/program.h"

namespace espalier::bench {

struct RequestWork {
  Call call;
  std::vector<std::string> choices;  // not empty: a select
};

struct Item {
  std::string id;
  std::variant<RequestWork, Program> work;
  std::optional<double> arrival;  // seconds from the start
  int shared = 0;                 // leading bytes (of a prompt of ids: ids) with which other items begin too
  Json answer;                    // null: none
};

struct Workload {
  std::string name;
  bool programs = false;
  bool serial = false;  // one item after another, in order
  bool salted = true;   // a fresh run of the same items needs a salt; false: the next seed gives other items
  std::vector<Item> items;
};

// Whether what came out is the item's answer; nullopt when it has none.
// A number: the last number of the text. A choice: the text itself. Other text: stands in the text, letter case,
// punctuation and articles aside. An object: the text is JSON and has the same fields.
std::optional<bool> is_answer(const Json& answer, const std::string& text);

}  // namespace espalier::bench
