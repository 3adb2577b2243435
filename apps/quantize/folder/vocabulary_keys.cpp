#include "quantize/folder/vocabulary_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/json/checkpoint_json.h"
#include "base/json/json_fields.h"
#include "quantize/folder/gguf_hyperparameters.h"
#include "tensor/file/open_file.h"
#include "text/vocabulary/gguf_vocabulary.h"
#include "text/vocabulary/sentencepiece_file.h"

namespace espalier::quantizer {
namespace {

namespace fs = std::filesystem;

// Words, numbers, blanks, signs, scripts, and what is cut differently by different patterns.
constexpr std::string_view kProbe =
    "Hello world, it's 2024-05-17 and we've seen 1234567 things!  Don't stop\n\n\tfor (int i = 0; i < n; ++i) {\r\n"
    "    x += 3.14e-10;  }   \n \xC3\xA9t\xC3\xA9 na\xC3\xAFve \xE4\xBD\xA0\xE5\xA5\xBD "
    "\xD0\xBF\xD1\x80\xD0\xB8\xD0\xB2"
    "\xD0\xB5\xD1\x82 \xE3\x81\x93\xE3\x82\x93 \xF0\x9F\x99\x82 I'LL SHOUT camelCase snake_case http://a.b/c?d=e&f "
    "\xED\x95\x9C\xEA\xB5\xAD\xEC\x96\xB4 100,000.50 \xE2\x82\xAC ...!?---";

// Names of tokenizer.ggml.pre that say differently how text is cut; of those that say the same, the best known.
constexpr std::string_view kCuts[] = {
    "llama-bpe", "qwen2",   "gpt-2",  "smollm",     "tekken",     "gpt-4o",      "default",      "falcon",
    "starcoder", "olmo",    "dbrx",   "command-r",  "hunyuan",    "deepseek-v3", "deepseek-llm", "deepseek-coder",
    "qwen35",    "bloom",   "jais-2", "bailingmoe", "seed-coder", "superbpe",    "exaone-moe",   "viking",
    "minicpm5",  "kimi-k2", "afmoe",  "youtu",      "tiny_aya"};

Result<std::string> read_file(const fs::path& folder, std::string_view name) {
  constexpr std::uint64_t kMost = 256 << 20;
  ESP_TRY(const OpenFile file, open_beneath(folder, name));
  return read_text(file, kMost);
}

// A vocabulary in the making; strings are its own.
struct Made {
  std::string model, pre;
  std::vector<std::string> tokens, merges;
  std::vector<float> scores;
  std::vector<std::int32_t> types;
  std::optional<bool> add_bos, add_eos, add_space_prefix;

  void grow(std::size_t count) {
    while (tokens.size() < count) {
      tokens.push_back(fmt::format("[PAD{}]", tokens.size()));
      types.push_back(static_cast<std::int32_t>(GgufTokenType::unused));
      if (model == "llama") scores.push_back(-10000.0f);
    }
  }
  void set(std::size_t id, std::string token, GgufTokenType type) {
    if (id > static_cast<std::size_t>(kMostTokens)) return;
    grow(id + 1);
    tokens[id] = std::move(token);
    types[id] = static_cast<std::int32_t>(type);
  }
};

void add_listed(const Json& json, Made& made) {
  const Json* added = find_field(json, "added_tokens");
  if (added == nullptr || !added->is_array()) return;
  for (const Json& token : *added) {
    const auto id = find_integer(token, "id", {0, kMostTokens});
    const auto content = find_string(token, "content");
    const auto special = find_boolean(token, "special");
    if (!id.ok() || !*id || !content.ok() || !*content) continue;
    const bool control = special.ok() && special->value_or(false);
    made.set(static_cast<std::size_t>(**id), **content, control ? GgufTokenType::control : GgufTokenType::user_defined);
  }
}

std::optional<Error> take_words(const Json& model, Made& made) {
  const Json* vocab = find_field(model, "vocab");
  if (vocab == nullptr || !vocab->is_object())
    return only_tensors("tokenizer.json has no list of words that GGUF files know");
  for (const auto& [token, id] : vocab->items())
    if (id.is_number_unsigned() && id.get<std::uint64_t>() < static_cast<std::uint64_t>(kMostTokens))
      made.set(static_cast<std::size_t>(id.get<std::uint64_t>()), token, GgufTokenType::normal);
  const Json* merges = find_field(model, "merges");
  if (merges == nullptr || !merges->is_array()) return only_tensors("tokenizer.json has no merges");
  for (const Json& merge : *merges) {
    if (merge.is_string())
      made.merges.push_back(merge.get<std::string>());
    else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string())
      made.merges.push_back(merge[0].get<std::string>() + " " + merge[1].get<std::string>());
  }
  return std::nullopt;
}

// Merges of SentencePiece's pairs as scores: what is merged first scores best.
void merges_to_scores(Made& made) {
  std::map<std::string, std::size_t, std::less<>> rank;
  for (std::size_t i = 0; i < made.merges.size(); ++i) {
    std::string joined = made.merges[i];
    joined.erase(joined.find(' '), 1);
    rank.emplace(std::move(joined), i);
  }
  made.scores.assign(made.tokens.size(), -10000.0f);
  for (std::size_t id = 0; id < made.tokens.size(); ++id) {
    const std::string& token = made.tokens[id];
    auto& type = made.types[id];
    if (token.size() == 6 && token.starts_with("<0x") && token.back() == '>')
      type = static_cast<std::int32_t>(GgufTokenType::byte), made.scores[id] = 0;
    else if (const auto found = rank.find(token); found != rank.end())
      made.scores[id] = -static_cast<float>(found->second);
    else if (type == static_cast<std::int32_t>(GgufTokenType::normal))
      made.scores[id] = -static_cast<float>(made.merges.size() + id);
  }
  made.merges.clear();
}

Result<Made> from_json(const fs::path& folder) {
  ESP_TRY(const std::string text, read_file(folder, "tokenizer.json"));
  ESP_TRY(const Json json, parse_checkpoint_json(text));
  const Json* model = find_field(json, "model");
  if (model == nullptr || !model->is_object()) return only_tensors("tokenizer.json has no model");
  const Json* kind = find_field(*model, "type");
  if (kind != nullptr && *kind != Json("BPE"))
    return only_tensors(fmt::format("tokenizers of type {} have no keys here", kind->dump()));
  const Json* bytes = find_field(*model, "byte_fallback");
  Made made;
  made.model = bytes != nullptr && *bytes == Json(true) ? "llama" : "gpt2";
  if (auto wrong = take_words(*model, made)) return *wrong;
  if (made.model == "llama") merges_to_scores(made);
  add_listed(json, made);
  return made;
}

Result<Made> from_sentencepiece(const fs::path& folder) {
  ESP_TRY(const std::string bytes, read_file(folder, "tokenizer.model"));
  ESP_TRY(const SentencePieceFile file, read_sentencepiece(bytes));
  if (file.kind != SentencePieceFile::Kind::bpe)
    return only_tensors("SentencePiece models other than of pairs have no keys here");
  Made made;
  made.model = "llama";
  made.tokens.assign(file.pieces.begin(), file.pieces.end());
  made.scores = file.scores;
  made.types = file.types;
  made.add_space_prefix = file.add_dummy_prefix;
  std::error_code ignored;
  if (fs::exists(folder / "tokenizer.json", ignored)) {
    ESP_TRY(const std::string text, read_file(folder, "tokenizer.json"));
    ESP_TRY(const Json json, parse_checkpoint_json(text));
    add_listed(json, made);
  }
  return made;
}

GgufVocabulary view(const Made& made, const VocabularyWish& wish) {
  GgufVocabulary v;
  v.model = made.model;
  v.pre = made.pre;
  v.tokens.assign(made.tokens.begin(), made.tokens.end());
  v.merges.assign(made.merges.begin(), made.merges.end());
  v.scores = made.scores;
  v.types = made.types;
  v.bos = wish.tokenizer.bos();
  v.eos = wish.tokenizer.eos();
  v.unk = wish.tokenizer.unk();
  v.pad = wish.tokenizer.pad();
  v.add_bos = made.add_bos;
  v.add_eos = made.add_eos;
  v.add_space_prefix = made.add_space_prefix;
  return v;
}

bool gives_the_same(const Made& made, const VocabularyWish& wish, const std::vector<TokenId>& expected) {
  const auto tokenizer = Tokenizer::from_gguf(view(made, wish));
  if (!tokenizer.ok()) return false;
  const auto ids = (*tokenizer)->encode(kProbe);
  return ids.ok() && *ids == expected;
}

void put(const Made& made, const VocabularyWish& wish, GgufKeys& keys) {
  keys.put("tokenizer.ggml.model", made.model);
  if (!made.pre.empty()) keys.put("tokenizer.ggml.pre", made.pre);
  keys.put("tokenizer.ggml.tokens", made.tokens);
  if (!made.scores.empty()) keys.put("tokenizer.ggml.scores", made.scores);
  keys.put("tokenizer.ggml.token_type", made.types);
  if (!made.merges.empty()) keys.put("tokenizer.ggml.merges", made.merges);
  const auto id = [&](const char* name, std::optional<TokenId> token) {
    if (token && *token >= 0) keys.count(fmt::format("tokenizer.ggml.{}_token_id", name), *token);
  };
  id("bos", wish.tokenizer.bos());
  id("eos", wish.tokenizer.eos());
  for (const TokenId end : wish.ends)
    if (end != wish.tokenizer.eos()) {
      id("eot", end);
      break;
    }
  id("unknown", wish.tokenizer.unk());
  id("padding", wish.tokenizer.pad());
  if (made.add_bos) keys.put("tokenizer.ggml.add_bos_token", *made.add_bos);
  if (made.add_eos) keys.put("tokenizer.ggml.add_eos_token", *made.add_eos);
  if (made.add_space_prefix) keys.put("tokenizer.ggml.add_space_prefix", *made.add_space_prefix);
  if (!wish.chat_template.empty()) keys.put("tokenizer.chat_template", wish.chat_template);
}

}  // namespace

Result<> put_vocabulary(const VocabularyWish& wish, GgufKeys& keys) {
  std::error_code ignored;
  const bool pieces = fs::exists(wish.folder / "tokenizer.model", ignored);
  if (!pieces && !fs::exists(wish.folder / "tokenizer.json", ignored))
    return only_tensors("the folder has no tokenizer.json and no tokenizer.model");
  ESP_TRY(const std::vector<TokenId> expected, wish.tokenizer.encode(kProbe));
  const auto tried = [&](Made made) -> Result<bool> {
    made.add_bos = !expected.empty() && wish.tokenizer.bos() && expected.front() == *wish.tokenizer.bos();
    made.add_eos = !expected.empty() && wish.tokenizer.eos() && expected.back() == *wish.tokenizer.eos();
    made.grow(static_cast<std::size_t>(wish.tokens));
    std::vector<std::string_view> cuts(std::begin(kCuts), std::end(kCuts));
    if (made.model == "llama") cuts = {"default"};
    for (const std::string_view cut : cuts) {
      made.pre = cut;
      if (!gives_the_same(made, wish, expected)) continue;
      put(made, wish, keys);
      return true;
    }
    return false;
  };
  if (pieces) {
    if (auto made = from_sentencepiece(wish.folder); made.ok()) {
      ESP_TRY(const bool works, tried(std::move(made).value()));
      if (works) return success();
    }
  }
  if (fs::exists(wish.folder / "tokenizer.json", ignored)) {
    ESP_TRY(Made made, from_json(wish.folder));
    ESP_TRY(const bool works, tried(std::move(made)));
    if (works) return success();
  }
  return only_tensors("the folder's tokenizer cuts text in a way that has no name in GGUF files");
}

}  // namespace espalier::quantizer
