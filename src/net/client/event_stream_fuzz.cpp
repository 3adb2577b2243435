// Any bytes, cut anywhere: the events are the same as in one piece, and nothing breaks.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "net/client/event_stream.h"

namespace {

std::string events_of(std::string_view bytes, std::size_t step) {
  std::string events;
  espalier::net::EventStreamReader reader([&](std::string_view data) {
    events.append(data);
    events += '\0';
    return espalier::success();
  });
  for (; !bytes.empty(); bytes.remove_prefix(std::min(step, bytes.size())))
    if (!reader.read(bytes.substr(0, step)).ok()) break;
  return events;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (events_of(bytes, bytes.size() + 1) != events_of(bytes, 1u + data[0] % 16u)) std::abort();
  return 0;
}
