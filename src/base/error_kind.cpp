#include "base/error_kind.h"

namespace espalier {

const char* kind_name(Error::Kind kind) {
  switch (kind) {
    case Error::Kind::bad_request:
      return "bad_request";
    case Error::Kind::unauthorized:
      return "unauthorized";
    case Error::Kind::forbidden:
      return "forbidden";
    case Error::Kind::not_found:
      return "not_found";
    case Error::Kind::timeout:
      return "timeout";
    case Error::Kind::too_large:
      return "too_large";
    case Error::Kind::unsupported:
      return "unsupported";
    case Error::Kind::busy:
      return "busy";
    case Error::Kind::cancelled:
      return "cancelled";
    case Error::Kind::internal:
      return "internal";
    case Error::Kind::unavailable:
      return "unavailable";
    case Error::Kind::bad_file:
      return "bad_file";
    case Error::Kind::out_of_memory:
      return "out_of_memory";
    case Error::Kind::cannot_bind:
      return "cannot_bind";
    case Error::Kind::network:
      return "network";
  }
  return "internal";
}

std::optional<Error::Kind> kind_named(std::string_view name) {
  for (int i = 0; i <= static_cast<int>(Error::Kind::network); ++i)
    if (const auto kind = static_cast<Error::Kind>(i); name == kind_name(kind)) return kind;
  return std::nullopt;
}

}  // namespace espalier
