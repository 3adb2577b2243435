// roles.h: the table of names (names.h) as a list, for whoever turns it round. Threads: pure. Fails: never.
#pragma once

#include <string_view>
#include <vector>

#include "model/weights/names.h"

namespace espalier {

// All roles that have a name in HF checkpoints of this architecture.
std::vector<std::string_view> hf_roles(const Names& names);

}  // namespace espalier
