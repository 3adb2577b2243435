// call_id.h: names of calls that the model gave none.
//
// `prefix` and 24 hexadecimal digits: clients take ids for opaque, and some want these lengths.
// Threads: any. Fails: never.
#pragma once

#include <string>
#include <string_view>

namespace espalier::server {

std::string new_call_id(std::string_view prefix);  // at random
// Of the call number `index` of a choice, in the answer with this id: always the same.
std::string call_id_in(std::string_view prefix, std::string_view answer, int choice, std::size_t index);

}  // namespace espalier::server
