// error_kind.h: the kinds of errors by name, as programs and clients are told them ("bad_request", "not_found", ...).
// Threads: pure.
#pragma once

#include <optional>
#include <string_view>

#include "espalier/error.h"

namespace espalier {

const char* kind_name(Error::Kind kind);
std::optional<Error::Kind> kind_named(std::string_view name);  // none: no kind is called so

}  // namespace espalier
