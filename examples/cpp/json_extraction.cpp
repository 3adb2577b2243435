// Facts out of running text, as JSON that always fits its schema.
#include <iostream>

#include "_backend.h"
#include "espalier/program.h"

namespace sgl = espalier;

constexpr const char* kSchema = R"({
  "type": "object",
  "properties": {
    "name": {"type": "string", "maxLength": 30},
    "population": {"type": "integer", "minimum": 0, "maximum": 99999999},
    "capital": {"type": "boolean"},
    "rivers": {"type": "array", "items": {"type": "string", "maxLength": 20}, "maxItems": 3}
  },
  "required": ["name", "population", "capital", "rivers"]
})";
constexpr const char* kTexts[] = {
    "Vienna, the capital of Austria, has about two million inhabitants and lies on the Danube.",
    "Basel on the Rhine is a city of 177,000 people."};

void extract(sgl::State& s, const sgl::Arguments& given) {
  s += sgl::user("Extract the city as JSON: " + given["text"]);
  s += sgl::assistant(sgl::gen("city", {.max_tokens = 512, .json_schema = kSchema}));
}

int main() {
  std::vector<sgl::Arguments> items;
  for (const char* text : kTexts) items.push_back({{"text", text}});
  const auto states = sgl::Function("extract", {"text"}, extract)
                          .run_batch(items, {.backend = example::open_backend(), .defaults = {.temperature = 0}});
  for (const sgl::State& state : states)
    std::cout << state["city"].json()
              << " | tokens that needed no choice: " << state.meta("city").value("forced_tokens", 0) << "\n";
}
