// Opening the tokenizer of a Hugging Face folder.
#include <fstream>

#include "base/json_fields.h"
#include "text/tokenizer_impl.h"

namespace espalier {
namespace {

namespace fs = std::filesystem;

constexpr std::uintmax_t kLargestConfig = 32u << 20;
constexpr std::uintmax_t kLargestTokenizer = 256u << 20;

Result<std::string> read_file(const fs::path& path, std::uintmax_t largest) {
  std::error_code failed;
  const auto size = fs::file_size(path, failed);
  if (failed) return bad_file(path.string() + ": cannot be read: " + failed.message());
  if (size > largest)
    return bad_file(path.string() + " is larger than the limit of " + std::to_string(largest >> 20) + " MiB");
  std::ifstream in(path, std::ios::binary);
  std::string text(static_cast<std::size_t>(size), '\0');
  in.read(text.data(), static_cast<std::streamsize>(size));
  if (!in) return bad_file(path.string() + ": cannot be read to its end");
  return text;
}

// Null when there is no such file.
Result<Json> read_config(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return Json(nullptr);
  ESP_TRY(const std::string text, read_file(path, kLargestConfig));
  auto json = parse_json(text, {.depth = 128});
  if (!json.ok()) return in_file(json.error(), path.string());
  return json;
}

}  // namespace

Result<std::shared_ptr<const Tokenizer>> Tokenizer::open_hf(const fs::path& folder) {
  const fs::path path = folder / "tokenizer.json";
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) {
    return Error{Error::Kind::not_found,
                 folder.string() +
                     " has no tokenizer.json. Tokenizers in other forms (tokenizer.model, vocab.json with merges.txt) "
                     "must be converted with the library `transformers` first (save_pretrained)",
                 "tokenizer.json",
                 {}};
  }
  ESP_TRY(const Json config, read_config(folder / "tokenizer_config.json"));
  ESP_TRY(const Json map, read_config(folder / "special_tokens_map.json"));
  ESP_TRY(const Json added, read_config(folder / "added_tokens.json"));
  ESP_TRY(TokenizerConfig parsed, TokenizerConfig::parse(config, map, added));
  ESP_TRY(const std::string json, read_file(path, kLargestTokenizer));
  auto opened = Impl::make(json, std::move(parsed));
  if (!opened.ok()) return in_file(opened.error(), folder.string());
  return opened;
}

}  // namespace espalier
