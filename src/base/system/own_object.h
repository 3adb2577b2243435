// own_object.h: where shared objects lie that this program loads when they are there: $ESPALIER_DEVICE_DIR, else beside the program,
// else ../lib/espalier from there.
// Threads: any. Fails: not_found, naming the folders.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "espalier/error.h"

namespace espalier {

// The file of that name in the first folder that has it. `what_works`: the end of the sentence where none has; `field`: of its Error.
Result<std::filesystem::path> find_own_object(const std::string& name, std::string_view what_works,
                                              std::string_view field);

}  // namespace espalier
