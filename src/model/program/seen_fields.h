// seen_fields.h: how far back a row of a program reads what is kept of tokens, field by field.
//
// Units: positions. Threads: pure functions. Fails: never; of a field that nothing reads it says all.
#pragma once

#include <vector>

#include "model/program/program.h"

namespace espalier {

// A rule by which a query sees all that it sees by either.
Visibility widest(const Visibility& a, const Visibility& b);

// [Keeps::per_token]: of each field, what the operation sees that sees most of it.
std::vector<Visibility> seen_fields(const Program& program);

}  // namespace espalier
