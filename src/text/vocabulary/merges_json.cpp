// GPT-2's form: vocab.json and merges.txt; and BERT's: vocab.txt, a line for each token.
#include <algorithm>

#include "base/json/checkpoint_json.h"
#include "base/json/json_fields.h"
#include "text/utf8.h"
#include "text/vocabulary/folder_vocabulary.h"
#include "text/vocabulary/vocabulary_json.h"

namespace espalier {
namespace {

// How the classes that transformers has for this form cut text, and what they put around it.
struct ByteLevelClass {
  std::string_view name;
  const char* pre;
  bool cls_sep = false;  // <s> and </s> around every text
};
constexpr ByteLevelClass kClasses[] = {{"Qwen2Tokenizer", "qwen2"},        {"RobertaTokenizer", "gpt-2", true},
                                       {"BartTokenizer", "gpt-2", true},   {"LongformerTokenizer", "gpt-2", true},
                                       {"LEDTokenizer", "gpt-2", true},    {"MvpTokenizer", "gpt-2", true},
                                       {"GPTNeoXTokenizer", "olmo"},       {"CohereTokenizer", "command-r"},
                                       {"DebertaTokenizer", "gpt-2", true}};

std::string_view next_line(std::string_view& text) {
  const std::size_t end = std::min(text.find('\n'), text.size());
  std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

Result<> read_vocab(OwnedVocabulary& own, std::string_view text) {
  ESP_TRY(const Json vocab, parse_checkpoint_json(text));
  if (!vocab.is_object()) return bad_file("vocab.json must be an object of tokens and their ids", "vocab.json");
  for (const auto& [token, id] : vocab.get_ref<const Json::object_t&>()) {
    const bool fits = id.is_number_integer() && id.get<std::int64_t>() >= 0 && id.get<std::int64_t>() < kMostTokens;
    if (!fits) return bad_file("vocab.json: the id of " + in_quotes(token) + " is no id", "vocab.json");
    const auto place = id.get<std::size_t>();
    if (place >= own.tokens.size()) own.tokens.resize(place + 1);
    own.tokens[place] = token;
  }
  return own.tokens.empty() ? Result<>(bad_file("vocab.json has no tokens", "vocab.json")) : success();
}

}  // namespace

Result<std::string> merges_json(std::string_view vocab, std::string_view merges, FolderSettings& settings) {
  OwnedVocabulary own;
  ESP_CHECK(read_vocab(own, vocab));
  if (!is_utf8(merges)) return bad_file("merges.txt is not UTF-8", "merges.txt");
  bool first = true;
  while (!merges.empty()) {
    const std::string_view line = next_line(merges);
    const bool heading = std::exchange(first, false) && line.starts_with("#version");
    if (!line.empty() && !heading) own.merges.emplace_back(line);
  }
  ESP_CHECK(own.add_listed(settings));
  GgufVocabulary& v = own.vocabulary;
  v.model = "gpt2";
  const std::string name = settings.tokenizer_class();
  const auto* known =
      std::find_if(std::begin(kClasses), std::end(kClasses), [&](const auto& c) { return c.name == name; });
  const bool is_known = known != std::end(kClasses);
  v.pre = is_known ? known->pre : "gpt-2";
  v.add_space_prefix = settings.flag("add_prefix_space");
  const bool around = is_known && known->cls_sep;
  v.bos = own.named(settings, around ? "cls_token" : "bos_token", around ? "<s>" : "<|endoftext|>");
  v.eos = own.named(settings, around ? "sep_token" : "eos_token", around ? "</s>" : "<|endoftext|>");
  v.add_bos = settings.flag("add_bos_token").value_or(around) && v.bos;
  v.add_eos = settings.flag("add_eos_token").value_or(around) && v.eos;
  if (name == "GPT2Tokenizer") own.name_it(settings, "bos_token", v.bos);
  own.name_it(settings, "eos_token", v.eos);
  return byte_level_json(own.view());
}

Result<std::string> word_list_json(std::string_view vocab, FolderSettings& settings) {
  if (!is_utf8(vocab)) return bad_file("vocab.txt is not UTF-8", "vocab.txt");
  OwnedVocabulary own;
  while (!vocab.empty()) {
    if (own.tokens.size() == static_cast<std::size_t>(kMostTokens))
      return bad_file("vocab.txt has more lines than a vocabulary may have tokens", "vocab.txt");
    own.tokens.emplace_back(next_line(vocab));
  }
  if (own.tokens.empty()) return bad_file("vocab.txt has no tokens", "vocab.txt");
  ESP_CHECK(own.add_listed(settings));
  GgufVocabulary& v = own.vocabulary;
  v.model = "bert";
  v.word_piece_names = true;
  v.lowercase = settings.flag("do_lower_case").value_or(true);
  v.strip_accents = settings.flag("strip_accents").value_or(*v.lowercase);
  v.clean_chinese = settings.flag("tokenize_chinese_chars").value_or(true);
  v.bos = own.named(settings, "cls_token", "[CLS]");
  v.sep = own.named(settings, "sep_token", "[SEP]");
  v.unk = own.named(settings, "unk_token", "[UNK]");
  v.pad = own.named(settings, "pad_token", "[PAD]");
  for (const auto& [key, id] :
       {std::pair("cls_token", v.bos), std::pair("sep_token", v.sep), std::pair("unk_token", v.unk),
        std::pair("pad_token", v.pad), std::pair("mask_token", own.named(settings, "mask_token", "[MASK]"))}) {
    own.name_it(settings, key, id);
    if (!id) continue;
    v.types[static_cast<std::size_t>(*id)] = static_cast<std::int32_t>(GgufTokenType::control);
  }
  return word_piece_json(own.view());
}

}  // namespace espalier
