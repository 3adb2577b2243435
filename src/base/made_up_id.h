// made_up_id.h: names that nobody guesses and nobody else has.
//
// Threads: any. Fails: never.
#pragma once

#include <string>

namespace espalier {

std::string made_up_id();  // 32 hexadecimal digits of the system's random bits

}  // namespace espalier
