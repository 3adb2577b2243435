// Any bytes as tokenizer.json: refused with a sentence, or a tokenizer that encodes and decodes without harm.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "text/stream/detokenizer.h"
#include "text/tokenizer/tokenizer.h"
#include "text/utf8.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace espalier;
  const std::string_view json(reinterpret_cast<const char*>(data), size);
  const auto opened = Tokenizer::from_json(json);
  if (!opened.ok()) {
    if (opened.error().message.empty()) std::abort();
    return 0;
  }
  const Tokenizer& tokenizer = **opened;
  for (const std::string_view text :
       {"", " ", "Hello the  world\n\n12345 é😀 <s></s> ab ab  ", "\t\xe2\x96\x81\xe2\x96\x81x\xcc\x81"}) {
    const auto ids = tokenizer.encode(text);
    if (!ids.ok()) continue;
    if (!is_utf8(tokenizer.decode(*ids))) std::abort();
    IncrementalDetokenizer stream(tokenizer);
    for (const TokenId id : *ids) {
      if (!tokenizer.contains(id) && id < tokenizer.size() && id < 0) std::abort();
      if (!is_utf8(stream.push(id))) std::abort();
    }
    if (!is_utf8(stream.finish())) std::abort();
  }
  if (const auto pair = tokenizer.encode_pair("ab", "the world"); pair.ok()) {
    if (pair->second_begin + pair->second > pair->ids.size()) std::abort();
    if (pair->second_part > static_cast<int>(pair->ids.size())) std::abort();
  } else if (pair.error().message.empty()) {
    std::abort();
  }
  for (TokenId id = 0; id < tokenizer.size() && id < 1'000; ++id)
    if (tokenizer.contains(id) && !tokenizer.find(tokenizer.token_text(id))) std::abort();
  return 0;
}
