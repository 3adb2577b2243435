// Any text through two tokenizers: our encoder gives the library's ids, decoding gives the text back, lengths keep
// their bounds.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "text/tokenizer/small_tokenizers.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace espalier;
  static const testing::Pair pairs[] = {testing::byte_level(), testing::character_level()};
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  std::string text;
  append_valid_utf8(text, bytes, true);
  if (!is_utf8(text)) std::abort();
  for (const testing::Pair& pair : pairs) {
    if (pair.ours->encode(bytes).ok() != is_utf8(bytes)) std::abort();
    const EncodeOptions options{.add_special = (data[0] & 1) != 0, .parse_special = (data[0] & 2) != 0};
    const auto ids = pair.ours->encode(text, options), expected = pair.library->encode(text, options);
    if (!ids.ok() || !expected.ok() || *ids != *expected) std::abort();
    if (ids->size() < pair.ours->min_tokens(text.size())) std::abort();
    if (ids->size() < pair.ours->min_tokens(text)) std::abort();
    if (pair.ours->decode(*ids) != pair.library->decode(*ids)) std::abort();
  }
  // Without normalisation and added tokens nothing is lost.
  bool ascii = true;
  for (const char c : text) ascii = ascii && static_cast<unsigned char>(c) < 0x80;
  if (ascii && text.find('<') == std::string::npos && text.find("in") == std::string::npos &&
      pairs[0].ours->decode(*pairs[0].ours->encode(text)) != text)
    std::abort();
  return 0;
}
