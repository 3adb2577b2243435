// token_names.h: single tokens as lists of log-probabilities name them.
// Threads: pure functions. Fails: never.
#pragma once

#include <string>
#include <string_view>

#include "text/tokenizer.h"

namespace espalier::server {

// The text of one token; "token_id:7" without a tokenizer, which may be null.
std::string token_name(const Tokenizer* tokenizer, TokenId id);
std::string_view token_bytes_of(const Tokenizer* tokenizer, TokenId id);
bool is_utf8(std::string_view text);

}  // namespace espalier::server
