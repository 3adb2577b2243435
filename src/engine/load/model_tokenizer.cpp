#include "engine/load/model_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>

#include "base/json/checkpoint_json.h"
#include "base/json/json_fields.h"
#include "tensor/file/gguf.h"
#include "text/chat/chat_template.h"
#include "text/tokenizer/end_tokens.h"
#include "text/tokenizer/tokenizer_files.h"
#include "text/vocabulary/gguf_vocabulary.h"

namespace espalier {
namespace {

namespace fs = std::filesystem;

// Sources by name; the one without a name is "default".
using Templates = std::map<std::string, std::string>;

void take_templates(ModelText& text, Templates templates) {
  const auto source = [&](const char* name) {
    const auto found = templates.find(name);
    return found == templates.end() ? std::string() : found->second;
  };
  text.chat_template = source("default");
  text.tool_template = source("tool_use");
  if (text.chat_template.empty()) text.chat_template = std::exchange(text.tool_template, {});
}

void find_ends(ModelText& text, std::span<const TokenId> listed = {}) {
  if (!text.tokenizer) return;
  const auto parsed = ChatTemplate::parse(text.chat_template, text.tokenizer->special_tokens());
  const bool templated = parsed.ok() && !text.chat_template.empty();
  text.ends = end_tokens(*text.tokenizer, templated ? &*parsed : nullptr);
  for (const TokenId id : listed)
    if (std::find(text.ends.begin(), text.ends.end(), id) == text.ends.end()) text.ends.push_back(id);
}

// --- GGUF ---

template <class T>
void take(Result<std::optional<T>> found, std::optional<T>& into) {  // optional keys of a wrong type count as absent
  if (found.ok() && *found) into = *found;
}

void take_ids(const GgufMetadata& m, GgufVocabulary& v) {
  const auto id = [&](const char* name, std::optional<TokenId>& into) {
    std::optional<std::int64_t> number;
    take(m.find_integer(fmt::format("tokenizer.ggml.{}_token_id", name)), number);
    const bool none = number && *number == UINT32_MAX;
    if (number && !none) into = static_cast<TokenId>(std::clamp<std::int64_t>(*number, -1, INT32_MAX));
  };
  id("bos", v.bos);
  id("eos", v.eos);
  id("eot", v.eot);
  id("eom", v.eom);
  id("unknown", v.unk);
  id("seperator", v.sep);  // as the format spells it
  id("padding", v.pad);
  const auto mark = [&](const char* name, const char* older, std::optional<TokenId>& into) {
    id(older, into);
    id(name, into);
    if (into && (*into < 0 || static_cast<std::size_t>(*into) >= v.tokens.size())) into.reset();
  };
  mark("fim_pre", "prefix", v.fim_prefix);
  mark("fim_suf", "suffix", v.fim_suffix);
  mark("fim_mid", "middle", v.fim_middle);
  for (const char* name : {"fim_pad", "fim_rep", "fim_sep"}) {
    std::optional<TokenId> found;
    id(name, found);
    if (found && *found >= 0 && static_cast<std::size_t>(*found) < v.tokens.size()) v.fim_ends.push_back(*found);
  }
}

Result<GgufVocabulary> gguf_vocabulary(const GgufMetadata& m) {
  GgufVocabulary v;
  ESP_TRY(const std::string_view model, m.get_string("tokenizer.ggml.model"));
  v.model = model;
  ESP_TRY(const auto pre, m.find_string("tokenizer.ggml.pre"));
  v.pre = pre.value_or("");
  ESP_TRY(v.tokens, m.get_strings("tokenizer.ggml.tokens"));
  if (m.find("tokenizer.ggml.scores")) {
    ESP_TRY(v.scores, m.get_floats("tokenizer.ggml.scores"));
  }
  if (m.find("tokenizer.ggml.merges")) {
    ESP_TRY(v.merges, m.get_strings("tokenizer.ggml.merges"));
  }
  if (m.find("tokenizer.ggml.token_type")) {
    ESP_TRY(const auto types, m.get_integers("tokenizer.ggml.token_type"));
    v.types.assign(types.begin(), types.end());
  }
  take_ids(m, v);
  take(m.find_boolean("tokenizer.ggml.add_bos_token"), v.add_bos);
  take(m.find_boolean("tokenizer.ggml.add_eos_token"), v.add_eos);
  take(m.find_boolean("tokenizer.ggml.add_sep_token"), v.add_sep);
  take(m.find_boolean("tokenizer.ggml.add_space_prefix"), v.add_space_prefix);
  take(m.find_boolean("tokenizer.ggml.remove_extra_whitespaces"), v.remove_extra_whitespaces);
  take(m.find_boolean("tokenizer.ggml.normalizer.lowercase"), v.lowercase);
  take(m.find_boolean("tokenizer.ggml.normalizer.strip_accents"), v.strip_accents);
  if (auto map = m.find_string("tokenizer.ggml.precompiled_charsmap"); map.ok() && *map) v.precompiled_charsmap = **map;
  return v;
}

Templates gguf_templates(const GgufMetadata& m) {
  Templates templates;
  const auto add = [&](const char* name, const char* key) {
    if (auto source = m.find_string(key); source.ok() && *source) templates[name] = **source;
  };
  add("default", "tokenizer.chat_template");
  add("default", "tokenizer.chat_template.default");
  add("tool_use", "tokenizer.chat_template.tool_use");
  return templates;
}

// --- an HF directory ---

Result<std::string> read_small_file(const fs::path& path) {
  constexpr std::uintmax_t kMost = 64 << 20;
  std::error_code failed;
  const auto size = fs::file_size(path, failed);
  if (failed || size > kMost || !fs::is_regular_file(path, failed))
    return bad_file(fmt::format("{} is not a readable file of at most 64 MiB", path.string()));
  std::ifstream in(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

// A template may be a string, or a list of named ones.
Templates templates_of(const Json& config) {
  Templates templates;
  const Json* field = find_field(config, "chat_template");
  if (field && field->is_string()) templates["default"] = field->get<std::string>();
  if (!field || !field->is_array()) return templates;
  for (const Json& entry : *field) {
    const auto name = find_string(entry, "name"), source = find_string(entry, "template");
    if (name.ok() && *name && source.ok() && *source) templates[**name] = **source;
  }
  return templates;
}

// The files of their own come before what a configuration holds.
Result<Templates> folder_templates(const fs::path& folder) {
  std::error_code ignored;
  Templates templates;
  for (const char* file : {"tokenizer_config.json", "chat_template.json"}) {
    if (!fs::exists(folder / file, ignored)) continue;
    ESP_TRY(const std::string text, read_small_file(folder / file));
    const auto config = parse_checkpoint_json(text);
    if (!config.ok()) return bad_file(fmt::format("{}: {}", file, config.error().message));
    for (auto& [name, source] : templates_of(*config)) templates[name] = std::move(source);
  }
  if (fs::exists(folder / "chat_template.jinja", ignored)) {
    ESP_TRY(templates["default"], read_small_file(folder / "chat_template.jinja"));
  }
  for (const char* name : {"default", "tool_use"}) {
    const fs::path path = folder / "additional_chat_templates" / (std::string(name) + ".jinja");
    if (!fs::exists(path, ignored) || (templates.contains(name) && std::string_view(name) == "default")) continue;
    ESP_TRY(templates[name], read_small_file(path));
  }
  return templates;
}

}  // namespace

Result<ModelText> text_of_gguf(const GgufMetadata& metadata, const fs::path& path) {
  ModelText text;
  if (!metadata.find("tokenizer.ggml.model")) return text;
  ESP_TRY(const std::string_view model, metadata.get_string("tokenizer.ggml.model"));
  if (model == "none" || model == "no_vocab") return text;
  ESP_TRY(const GgufVocabulary vocabulary, gguf_vocabulary(metadata));
  ESP_TRY(text.tokenizer, Tokenizer::from_gguf(vocabulary));
  text.path = path.string();
  take_templates(text, gguf_templates(metadata));
  std::vector<TokenId> listed = vocabulary.fim_ends;
  if (vocabulary.eot) listed.push_back(*vocabulary.eot);
  if (vocabulary.eom) listed.push_back(*vocabulary.eom);
  find_ends(text, listed);
  return text;
}

Result<ModelText> text_of_folder(const fs::path& folder) {
  ModelText text;
  if (!has_tokenizer(folder)) return text;
  ESP_TRY(text.tokenizer, Tokenizer::open_hf(folder));
  text.path = folder.string();
  ESP_TRY(Templates templates, folder_templates(folder));
  take_templates(text, std::move(templates));
  find_ends(text);
  return text;
}

Result<ModelText> text_at(const fs::path& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) return text_of_folder(path);
  ModelText text;
  if (is_tokenizer_file(path)) {
    ESP_TRY(text.tokenizer, open_tokenizer_file(path));
    text.path = path.string();
    find_ends(text);
    return text;
  }
  ESP_TRY(const GgufFile gguf, GgufFile::open(path));
  return text_of_gguf(gguf.metadata(), path);
}

Result<std::shared_ptr<const Tokenizer>> open_tokenizer_at(const std::string& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) return Tokenizer::open_hf(path);
  ESP_TRY(ModelText text, text_at(path));
  if (text.tokenizer) return text.tokenizer;
  return Error{Error::Kind::not_found, fmt::format("{} has no tokenizer", path), "tokenizer", {}};
}

}  // namespace espalier
