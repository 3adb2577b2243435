// own_text.h: a text of several kinds to look at a model by, where the user brings none. Threads: a constant.
#pragma once

#include <string_view>

namespace espalier::quantizer {

std::string_view own_text();

}  // namespace espalier::quantizer
