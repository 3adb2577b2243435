// tiktoken files: a line for each token, base64 of its bytes and its rank. The pattern that cuts text and the special
// tokens stand elsewhere: in tokenizer_config.json, or in the code of the families below.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/base64.h"
#include "base/json/checkpoint_json.h"
#include "base/json/json_fields.h"
#include "text/vocabulary/folder_vocabulary.h"
#include "text/vocabulary/gguf_pre_tokenizers.h"
#include "text/vocabulary/vocabulary_json.h"

namespace espalier {
namespace {

// A family of models: how it is known, how its text is cut (a name of gguf_pre_tokenizers.h), and its special tokens.
struct Family {
  std::string_view tokenizer_class, file;  // either may be empty
  const char* pre;
  bool add_bos = false;
  std::vector<std::string> (*special)(std::size_t ranks) = nullptr;  // the ids behind the ranks; "": none
};

std::vector<std::string> numbered(std::vector<std::string> first, const char* form, int from, int to) {
  for (int i = from; i < to; ++i) first.push_back(fmt::format(fmt::runtime(form), i));
  return first;
}

std::vector<std::string> llama3_special(std::size_t) {
  return numbered({"<|begin_of_text|>", "<|end_of_text|>", "<|reserved_special_token_0|>",
                   "<|reserved_special_token_1|>", "<|finetune_right_pad_id|>", "<|reserved_special_token_2|>",
                   "<|start_header_id|>", "<|end_header_id|>", "<|eom_id|>", "<|eot_id|>", "<|python_tag|>"},
                  "<|reserved_special_token_{}|>", 3, 248);
}

std::vector<std::string> qwen_special(std::size_t) {
  return numbered({"<|endoftext|>", "<|im_start|>", "<|im_end|>"}, "<|extra_{}|>", 0, 205);
}

std::vector<std::string> hunyuan_special(std::size_t) {
  return numbered({"<|endoftext|>", "<|startoftext|>", "<|bos|>", "<|eos|>", "<|pad|>"}, "<|extra_{}|>", 0, 205);
}

std::vector<std::string> kimi_special(std::size_t ranks) {
  std::vector<std::string> all;
  for (std::size_t i = 0; i < 256; ++i) all.push_back(fmt::format("<|reserved_token_{}|>", ranks + i));
  return all;
}

std::vector<std::string> cl100k_special(std::size_t) {
  std::vector<std::string> all(21);  // the first follows a gap of one
  all[1] = "<|endoftext|>", all[2] = "<|fim_prefix|>", all[3] = "<|fim_middle|>", all[4] = "<|fim_suffix|>";
  all[20] = "<|endofprompt|>";
  return all;
}

std::vector<std::string> o200k_special(std::size_t) {
  std::vector<std::string> all(21);
  all[1] = "<|endoftext|>", all[20] = "<|endofprompt|>";
  return all;
}

constexpr Family kFamilies[] = {
    {"QWenTokenizer", "qwen.tiktoken", "qwen2", false, qwen_special},
    {"TikTokenTokenizer", "tiktoken.model", "kimi-k2", false, kimi_special},
    {"HYTokenizer", "hy.tiktoken", "hunyuan", false, hunyuan_special},
    {"ChatGLM4Tokenizer", {}, "chatglm-bpe"},
    {"Arcade100kTokenizer", "arcade100k.tiktoken", "stablelm2"},
    {"DbrxTokenizer", "cl100k_base.tiktoken", "dbrx", false, cl100k_special},
    {"GPT4Tokenizer", {}, "dbrx", false, cl100k_special},
    {{}, "o200k_base.tiktoken", "gpt-4o", false, o200k_special},
    {"LlamaTokenizer", {}, "llama-bpe", true, llama3_special},
    {"Llama3Tokenizer", {}, "llama-bpe", true, llama3_special},
};

// By the class that the folder names, else by the file's name; one that only has Llama 3's size is Llama 3's.
const Family* family_of(const FolderSettings& settings, std::size_t ranks) {
  const std::string name = settings.tokenizer_class();
  for (const Family& family : kFamilies)
    if (!name.empty() && family.tokenizer_class == name) return &family;
  for (const Family& family : kFamilies)
    if (!family.file.empty() && family.file == settings.file_name) return &family;
  const bool anyone = name.empty() || name == "PreTrainedTokenizer" || name == "TokenizersBackend";
  return anyone && ranks == 128'000 ? &kFamilies[std::size(kFamilies) - 1] : nullptr;
}

Result<> read_lines(OwnedVocabulary& own, std::string_view bytes) {
  std::size_t line = 0;
  const auto broken = [&](const char* what) {
    return bad_file(fmt::format("line {} is not a token in base64 and its rank: {}", line, what), "tiktoken");
  };
  while (!bytes.empty()) {
    ++line;
    const std::size_t end = std::min(bytes.find('\n'), bytes.size());
    std::string_view text = bytes.substr(0, end);
    bytes.remove_prefix(std::min(end + 1, bytes.size()));
    if (text.ends_with('\r')) text.remove_suffix(1);
    if (text.empty()) continue;
    const std::size_t space = text.find(' ');
    if (space == text.npos) return broken("there is no blank");
    std::int64_t rank = -1;
    const std::string_view digits = text.substr(space + 1);
    const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), rank);
    if (read.ec != std::errc() || read.ptr != digits.data() + digits.size() || rank < 0 || rank >= kMostTokens)
      return broken("the rank is no number below 4194304");
    const auto token = from_base64(text.substr(0, space));
    if (!token || token->empty()) return broken("the token is no base64");
    const auto id = static_cast<std::size_t>(rank);
    if (id >= own.tokens.size()) own.tokens.resize(id + 1);
    own.tokens[id] = byte_level_spelling(*token);
  }
  return own.tokens.empty() ? Result<>(bad_file("it has no tokens", "tiktoken")) : success();
}

Error no_pattern(const FolderSettings& settings) {
  const std::string name = settings.tokenizer_class();
  return bad_file(
      fmt::format("{} is a tiktoken file, which does not say how text is cut before merging, and {}. Put the pattern "
                  "into tokenizer_config.json as \"pat_str\", or a tokenizer.json into the folder",
                  settings.file_name,
                  name.empty() ? std::string("tokenizer_config.json names no tokenizer_class")
                               : fmt::format("the tokenizer_class {} is not known", in_quotes(name))),
      "pat_str");
}

void add_special(OwnedVocabulary& own, FolderSettings& settings, const std::vector<std::string>& special,
                 std::size_t ranks) {
  for (std::size_t i = 0; i < special.size(); ++i) {
    const std::size_t id = ranks + i;
    const auto same = [&](const ListedToken& t) {
      return t.text == special[i] || t.id == static_cast<std::int64_t>(id);
    };
    auto& listed = settings.tokens.listed;
    if (!special[i].empty() && std::none_of(listed.begin(), listed.end(), same) && !own.find(special[i]))
      listed.push_back({.text = special[i], .id = static_cast<std::int64_t>(id)});
  }
}

}  // namespace

Result<std::string> tiktoken_json(std::string_view bytes, FolderSettings& settings) {
  OwnedVocabulary own;
  ESP_CHECK(read_lines(own, bytes));
  GgufVocabulary& v = own.vocabulary;
  v.model = "gpt2";
  v.merges_by_id = true;
  const std::size_t ranks = own.tokens.size();
  const Family* family = family_of(settings, ranks);
  for (const char* name : {"pat_str", "pattern", "pretokenize_regex"})
    if (const auto given = settings.text(name); given && v.pattern.empty()) v.pattern = *given;
  if (!family && v.pattern.empty()) return no_pattern(settings);
  if (family) {
    v.pre = family->pre;
    if (family->special) add_special(own, settings, family->special(ranks), ranks);
  }
  ESP_CHECK(own.add_listed(settings));
  const bool llama = family && family->special == llama3_special;
  v.bos = own.named(settings, "bos_token", llama ? "<|begin_of_text|>" : "");
  v.eos = own.named(settings, "eos_token", llama ? "<|end_of_text|>" : "<|endoftext|>");
  v.add_bos = settings.flag("add_bos_token").value_or(family && family->add_bos) && v.bos;
  v.add_eos = settings.flag("add_eos_token").value_or(false) && v.eos;
  own.name_it(settings, "bos_token", v.bos);
  own.name_it(settings, "eos_token", v.eos);
  return byte_level_json(own.view());
}

// Mistral's form of the same: the pattern and the special tokens are in it. Special tokens come first.
Result<std::string> tekken_json(std::string_view bytes, FolderSettings& settings) {
  ESP_TRY(const Json file, parse_checkpoint_json(bytes));
  ESP_TRY(const Json* config, get_object(file, "config"));
  ESP_TRY(const Json* vocab, get_array(file, "vocab"));
  OwnedVocabulary own;
  GgufVocabulary& v = own.vocabulary;
  v.model = "gpt2";
  v.merges_by_id = true;
  ESP_TRY(v.pattern, get_string(*config, "pattern"));
  ESP_TRY(const auto size, get_integer(*config, "default_vocab_size", {1, kMostTokens}));
  ESP_TRY(const auto special, get_integer(*config, "default_num_special_tokens", {0, size}));
  own.tokens.resize(static_cast<std::size_t>(size));
  v.types.assign(own.tokens.size(), static_cast<std::int32_t>(GgufTokenType::normal));
  for (std::int64_t i = 0; i < special; ++i) own.tokens[static_cast<std::size_t>(i)] = fmt::format("<SPECIAL_{}>", i);
  const Json* listed = find_field(file, "special_tokens");
  if (listed && listed->is_array()) {
    for (const Json& token : *listed) {
      ESP_TRY(const auto rank, get_integer(token, "rank", {0, std::max<std::int64_t>(special - 1, 0)}));
      ESP_TRY(own.tokens[static_cast<std::size_t>(rank)], get_string(token, "token_str"));
    }
  } else {
    constexpr const char* known[] = {"<unk>",
                                     "<s>",
                                     "</s>",
                                     "[INST]",
                                     "[/INST]",
                                     "[AVAILABLE_TOOLS]",
                                     "[/AVAILABLE_TOOLS]",
                                     "[TOOL_RESULTS]",
                                     "[/TOOL_RESULTS]",
                                     "[TOOL_CALLS]",
                                     "[IMG]",
                                     "<pad>",
                                     "[IMG_BREAK]",
                                     "[IMG_END]",
                                     "[PREFIX]",
                                     "[MIDDLE]",
                                     "[SUFFIX]",
                                     "[SYSTEM_PROMPT]",
                                     "[/SYSTEM_PROMPT]",
                                     "[TOOL_CONTENT]"};
    for (std::size_t i = 0; i < std::size(known) && i < static_cast<std::size_t>(special); ++i)
      own.tokens[i] = known[i];
  }
  for (std::int64_t i = 0; i < special; ++i)
    v.types[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(GgufTokenType::control);
  for (const Json& token : *vocab) {
    ESP_TRY(const auto rank, get_integer(token, "rank", {0, kMostTokens}));
    if (rank + special >= size) continue;
    ESP_TRY(const std::string text, get_string(token, "token_bytes"));
    const auto decoded = from_base64(text);
    if (!decoded) return bad_file(fmt::format("vocab: token_bytes of rank {} is no base64", rank), "vocab");
    own.tokens[static_cast<std::size_t>(rank + special)] = byte_level_spelling(*decoded);
  }
  ESP_CHECK(own.add_listed(settings));
  v.bos = own.named(settings, "bos_token", "<s>");
  v.eos = own.named(settings, "eos_token", "</s>");
  v.unk = own.named(settings, "unk_token", "<unk>");
  v.pad = own.named(settings, "pad_token", "<pad>");
  v.add_bos = settings.flag("add_bos_token").value_or(true) && v.bos;
  own.name_it(settings, "bos_token", v.bos);
  own.name_it(settings, "eos_token", v.eos);
  own.name_it(settings, "unk_token", v.unk);
  own.name_it(settings, "pad_token", v.pad);
  v.unk.reset();
  return byte_level_json(own.view());
}

}  // namespace espalier
