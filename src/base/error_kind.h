// error_kind.h: the kinds of errors by name, as programs and clients are told them ("bad_request", "not_found", ...).
// Threads: pure.
#pragma once

#include "espalier/error.h"

namespace espalier {

const char* kind_name(Error::Kind kind);

}  // namespace espalier
