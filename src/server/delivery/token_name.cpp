#include "server/delivery/token_name.h"

#include <fmt/format.h>

#include <utility>

#include "base/json/json_text.h"  // utf8_sequence

namespace espalier::server {

std::string_view token_bytes_of(const Tokenizer* tokenizer, TokenId id) {
  return tokenizer == nullptr ? std::string_view() : tokenizer->token_bytes(id);
}

// Bytes of a token that are no whole characters are one replacement character, however many they are.
std::string token_name(const Tokenizer* tokenizer, TokenId id) {
  if (tokenizer == nullptr) return fmt::format("token_id:{}", id);
  const std::string_view bytes = tokenizer->token_bytes(id);
  std::string name;
  bool broken = false;
  for (const char *at = bytes.data(), *end = at + bytes.size(); at < end;) {
    const int length = static_cast<unsigned char>(*at) < 0x80 ? 1 : utf8_sequence(at, end);
    if (length == 0) {
      if (!std::exchange(broken, true)) name += "\xef\xbf\xbd";
      ++at;
      continue;
    }
    broken = false;
    name.append(at, static_cast<std::size_t>(length));
    at += length;
  }
  return name;
}

bool is_utf8(std::string_view text) {
  const char* const end = text.data() + text.size();
  for (const char* at = text.data(); at < end;) {
    const int length = static_cast<unsigned char>(*at) < 0x80 ? 1 : utf8_sequence(at, end);
    if (length == 0) return false;
    at += length;
  }
  return true;
}

void write_token_bytes(JsonWriter& json, const Tokenizer* tokenizer, TokenId id) {
  json.key("bytes").open('[');
  for (const char c : token_bytes_of(tokenizer, id)) json.value(static_cast<int>(static_cast<unsigned char>(c)));
  json.close(']');
}

void write_token_entry(JsonWriter& json, const Tokenizer* tokenizer, TokenId id, double logprob) {
  json.field("token", token_name(tokenizer, id)).field("logprob", logprob);
  write_token_bytes(json, tokenizer, id);
}

}  // namespace espalier::server
