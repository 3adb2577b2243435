// Any bytes as a batch's file: lines whose bodies are JSON objects, or faults with their lines.
#include <cstdint>
#include <cstdlib>
#include <set>

#include "base/json/json.h"
#include "server/batches/batch_input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace espalier;
  const auto input = server::parse_batch_input({reinterpret_cast<const char*>(data), size}, "/v1/x");
  if (input.lines.empty() && input.faults.empty()) std::abort();
  if (input.faults.size() > 100) std::abort();
  std::set<std::string> ids;
  for (const auto& line : input.lines)
    if (!ids.insert(line.custom_id).second || !line.body.starts_with('{')) std::abort();
  for (const auto& fault : input.faults)
    if (fault.code.empty() || fault.message.empty() || fault.line > size + 1) std::abort();
  return 0;
}
