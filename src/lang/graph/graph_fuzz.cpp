// Graphs from outside: whatever the bytes are, reading ends in a graph that is written and read again the same, or in
// an Error.
#include <cstdint>
#include <cstdlib>

#include "base/json/json.h"
#include "espalier/graph.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto json = espalier::parse_json({reinterpret_cast<const char*>(data), size});
  if (!json.ok()) return 0;
  const auto graph = espalier::Graph::from_json(*json);
  if (!graph.ok()) return 0;
  const auto again = espalier::Graph::from_json(graph->to_json());
  if (!again.ok() || again->to_json() != graph->to_json()) std::abort();
  (void)espalier::as_text(*graph);
  (void)espalier::as_dot(*graph);
  (void)espalier::as_svg(*graph);
  return 0;
}
