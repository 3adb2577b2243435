// Any bytes as a tokenizer file of another form than tokenizer.json: refused with a sentence, or a tokenizer that
// encodes and decodes without harm. The first byte tells the form.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "text/stream/detokenizer.h"
#include "text/tokenizer/tokenizer_impl.h"
#include "text/utf8.h"
#include "text/vocabulary/folder_vocabulary.h"

namespace {

using namespace espalier;

Result<std::string> converted(char form, std::string_view bytes, FolderSettings& settings) {
  switch (form) {
    case 'p':
      return sentencepiece_json(bytes, settings);
    case 'x':
      settings.config["tokenizer_class"] = "XLMRobertaTokenizer";
      return sentencepiece_json(bytes, settings);
    case 't':
      settings.config["tokenizer_class"] = "QWenTokenizer";
      return tiktoken_json(bytes, settings);
    case 'k':
      return tekken_json(bytes, settings);
    case 'w':
      return word_list_json(bytes, settings);
    default: {
      const std::size_t cut = std::min(bytes.find('\0'), bytes.size());
      return merges_json(bytes.substr(0, cut), bytes.substr(std::min(cut + 1, bytes.size())), settings);
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  FolderSettings settings{Json::object(), {}, "fuzzed"};
  const auto json = converted(static_cast<char>(data[0]), bytes, settings);
  if (!json.ok()) {
    if (json.error().message.empty()) std::abort();
    return 0;
  }
  const auto opened = Tokenizer::Impl::make(*json, std::move(settings.tokens));
  if (!opened.ok()) {
    if (opened.error().message.empty()) std::abort();
    return 0;
  }
  for (const std::string_view text :
       {"", " ", "Hello the  world\n\n12345 é😀 <s></s> ab  ", "\xe2\x96\x81\xef\xac\x81x"}) {
    for (const bool continues : {false, true}) {
      const auto ids = (*opened)->encode(text, {.continues = continues});
      if (ids.ok() && !is_utf8((*opened)->decode(*ids))) std::abort();
      if (ids.ok() && !is_utf8(decoded_behind(**opened, *ids, *ids))) std::abort();
    }
  }
  return 0;
}
