// call_id.h: names of calls that the model gave none.
// Threads: any. Fails: never.
#pragma once

#include <string>
#include <string_view>

namespace espalier::server {

// `prefix` and 24 hexadecimal digits at random: clients take ids for opaque, and some want these lengths.
std::string new_call_id(std::string_view prefix);

}  // namespace espalier::server
