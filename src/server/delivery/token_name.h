// token_name.h: single tokens, as log-probabilities name them.
// Threads: pure functions. Fails: never.
#pragma once

#include <string>
#include <string_view>

#include "server/delivery/json_writer.h"
#include "text/tokenizer/tokenizer.h"

namespace espalier::server {

// The text of one token; bytes of it that are no whole characters are one replacement character. "token_id:7" without a
// tokenizer.
std::string token_name(const Tokenizer* tokenizer, TokenId id);
std::string_view token_bytes_of(const Tokenizer* tokenizer, TokenId id);
bool is_utf8(std::string_view text);
// "bytes": [...] of an open object.
void write_token_bytes(JsonWriter& json, const Tokenizer* tokenizer, TokenId id);
// "token", "logprob" and "bytes" of an open object, as OpenAI has them.
void write_token_entry(JsonWriter& json, const Tokenizer* tokenizer, TokenId id, double logprob);

}  // namespace espalier::server
