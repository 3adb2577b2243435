// Any bytes as a form: its parts, all of them inside the body, or a refusal.
// The first line is the Content-Type, the rest the body.
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <string_view>

#include "server/files/multipart.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace espalier::server;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t line = input.find('\n');
  const std::string_view type = input.substr(0, line);
  const std::string_view body = line == input.npos ? std::string_view() : input.substr(line + 1);
  const auto parts = parse_multipart(type, body);
  if (!parts.ok()) {
    if (parts.error().http_status() != 400 || parts.error().message.empty()) std::abort();
    return 0;
  }
  const std::less<const char*> before;
  const char* end = body.data();
  for (const FormPart& part : *parts) {  // in their order, without overlap
    if (part.name.empty() || before(part.content.data(), end)) std::abort();
    end = part.content.data() + part.content.size();
    if (before(body.data() + body.size(), end)) std::abort();
  }
  return 0;
}
