// unread.h: fields of config.json that say nothing about what a decoder computes.
#pragma once

#include <string_view>

namespace espalier {

// Tokens, training, storage: fields that are read elsewhere or by nobody.
bool is_of_no_decoder(std::string_view field);

}  // namespace espalier
