// Opening the tokenizer of a Hugging Face folder, whatever form it has.
#include <algorithm>
#include <fstream>
#include <vector>

#include "base/json/checkpoint_json.h"
#include "base/json/json_fields.h"
#include "text/tokenizer/tokenizer_files.h"
#include "text/tokenizer/tokenizer_impl.h"
#include "text/vocabulary/folder_vocabulary.h"

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
  auto json = parse_checkpoint_json(text);
  if (!json.ok()) return in_file(json.error(), path.string());
  return json;
}

Result<FolderSettings> read_settings(const fs::path& file) {
  const fs::path folder = file.parent_path();
  FolderSettings settings;
  settings.file_name = file.filename().string();
  ESP_TRY(settings.config, read_config(folder / "tokenizer_config.json"));
  ESP_TRY(const Json map, read_config(folder / "special_tokens_map.json"));
  ESP_TRY(const Json added, read_config(folder / "added_tokens.json"));
  ESP_TRY(settings.tokens, TokenizerConfig::parse(settings.config, map, added));
  return settings;
}

// Names under which SentencePiece models are published; the last may also hold tiktoken lines.
constexpr const char* kPieceFiles[] = {"spiece.model", "sentencepiece.bpe.model", "sentencepiece.model", "spm.model",
                                       "source.spm",   "tokenizer.model"};

std::optional<fs::path> tiktoken_file(const fs::path& folder) {
  std::error_code failed;
  std::vector<fs::path> found;
  for (fs::directory_iterator it(folder, failed), end; !failed && it != end; it.increment(failed))
    if (it->path().extension() == ".tiktoken" || it->path().filename() == "tiktoken.model") found.push_back(it->path());
  if (found.empty()) return std::nullopt;
  return *std::min_element(found.begin(), found.end());
}

std::optional<fs::path> tokenizer_file(const fs::path& folder) {
  std::error_code ignored;
  const auto has = [&](const char* name) { return fs::is_regular_file(folder / name, ignored); };
  for (const char* name : {"tokenizer.json", "tekken.json"})
    if (has(name)) return folder / name;
  for (const char* name : kPieceFiles)
    if (has(name)) return folder / name;
  if (auto found = tiktoken_file(folder)) return found;
  if (has("vocab.json") && has("merges.txt")) return folder / "vocab.json";
  return has("vocab.txt") ? std::optional(folder / "vocab.txt") : std::nullopt;
}

// A first line "IQ== 0": no SentencePiece model begins like this.
bool is_tiktoken(std::string_view bytes) {
  const std::string_view line = bytes.substr(0, std::min<std::size_t>(bytes.find('\n'), 1024));
  const std::size_t space = line.find(' ');
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  const auto plain = [](char c) { return c > ' ' && c < 0x7f; };
  if (space == 0 || space == line.npos || space + 1 == line.size()) return false;
  std::string_view digits = line.substr(space + 1);
  if (digits.ends_with('\r')) digits.remove_suffix(1);
  return std::all_of(line.begin(), line.begin() + static_cast<std::ptrdiff_t>(space), plain) && !digits.empty() &&
         std::all_of(digits.begin(), digits.end(), digit);
}

// As a tokenizer.json.
Result<std::string> converted(const fs::path& file, const std::string& bytes, FolderSettings& settings) {
  const std::string name = file.filename().string();
  if (name == "tekken.json") return tekken_json(bytes, settings);
  if (name == "vocab.txt") return word_list_json(bytes, settings);
  if (name == "vocab.json") {
    ESP_TRY(const std::string merges, read_file(file.parent_path() / "merges.txt", kLargestTokenizer));
    return merges_json(bytes, merges, settings);
  }
  if (name.ends_with(".tiktoken") || is_tiktoken(bytes)) return tiktoken_json(bytes, settings);
  return sentencepiece_json(bytes, settings);
}

}  // namespace

bool has_tokenizer(const fs::path& folder) {
  return tokenizer_file(folder).has_value();
}

bool is_tokenizer_file(const fs::path& path) {
  const std::string name = path.filename().string(), extension = path.extension().string();
  return extension == ".json" || extension == ".model" || extension == ".tiktoken" || extension == ".spm" ||
         name == "vocab.txt";
}

Result<std::shared_ptr<const Tokenizer>> open_tokenizer_file(const fs::path& path) {
  ESP_TRY(FolderSettings settings, read_settings(path));
  ESP_TRY(std::string bytes, read_file(path, kLargestTokenizer));
  const std::string name = path.filename().string();
  const bool other = name == "tekken.json" || name == "vocab.json" || path.extension() != ".json";
  if (!other) {
    std::string_view json = bytes;
    if (json.starts_with(kByteOrderMark)) json.remove_prefix(kByteOrderMark.size());
    auto opened = Tokenizer::Impl::make(json, std::move(settings.tokens));
    if (!opened.ok()) return in_file(opened.error(), path.parent_path().string());
    return opened;
  }
  auto json = converted(path, bytes, settings);
  if (!json.ok()) return in_file(json.error(), path.string());
  auto opened = Tokenizer::Impl::make(*json, std::move(settings.tokens));
  if (!opened.ok()) return in_file(opened.error(), path.string());
  return opened;
}

Result<std::shared_ptr<const Tokenizer>> Tokenizer::open_hf(const fs::path& folder) {
  if (const auto file = tokenizer_file(folder)) return open_tokenizer_file(*file);
  return Error{Error::Kind::not_found,
               folder.string() +
                   " has no tokenizer.json, nor another file that holds a tokenizer (tekken.json, tokenizer.model, "
                   "*.tiktoken, vocab.json with merges.txt, vocab.txt)",
               "tokenizer.json",
               {}};
}

}  // namespace espalier
