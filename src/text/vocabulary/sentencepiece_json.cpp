// A SentencePiece model of a folder.
#include <algorithm>
#include <array>

#include "text/vocabulary/folder_vocabulary.h"
#include "text/vocabulary/sentencepiece_file.h"
#include "text/vocabulary/vocabulary_json.h"

namespace espalier {
namespace {

constexpr std::array kWithClassEnds = {"DebertaV2Tokenizer", "AlbertTokenizer", "RemBertTokenizer", "FNetTokenizer"};
constexpr std::array kWithBothEnds = {"XLMRobertaTokenizer", "LayoutXLMTokenizer", "CamembertTokenizer"};
constexpr std::array kWithEosOnly = {"T5Tokenizer", "MT5Tokenizer", "PegasusTokenizer", "UdopTokenizer"};

template <std::size_t N>
bool one_of(const std::array<const char*, N>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::optional<TokenId> id_of(int id) {
  return id < 0 ? std::nullopt : std::optional<TokenId>(id);
}

// XLM-RoBERTa's ids are fairseq's: four tokens of its own, then the pieces behind the model's first three, then <mask>.
void renumber_as_fairseq(OwnedVocabulary& own) {
  auto& types = own.vocabulary.types;
  auto& scores = own.vocabulary.scores;
  const std::size_t first = std::min<std::size_t>(3, own.tokens.size());
  const auto type = [](GgufTokenType t) { return static_cast<std::int32_t>(t); };
  std::vector<std::string> tokens = {"<s>", "<pad>", "</s>", "<unk>"};
  std::vector<std::int32_t> new_types = {type(GgufTokenType::control), type(GgufTokenType::control),
                                         type(GgufTokenType::control), type(GgufTokenType::unknown)};
  std::vector<float> new_scores(4, 0.0f);
  for (std::size_t i = first; i < own.tokens.size(); ++i) {
    tokens.push_back(std::move(own.tokens[i]));
    new_types.push_back(types[i]);
    new_scores.push_back(scores[i]);
  }
  tokens.emplace_back("<mask>");
  new_types.push_back(type(GgufTokenType::control));
  new_scores.push_back(0);
  own.tokens = std::move(tokens);
  types = std::move(new_types);
  scores = std::move(new_scores);
}

void find_ends(OwnedVocabulary& own, const SentencePieceFile& file, const FolderSettings& settings) {
  GgufVocabulary& v = own.vocabulary;
  const auto named = [&](const char* name, int otherwise) {
    const auto found = own.named(settings, name);
    return found ? found : id_of(otherwise);
  };
  v.bos = named("bos_token", file.bos);
  v.eos = named("eos_token", file.eos);
  v.unk = named("unk_token", file.unk);
  v.pad = named("pad_token", file.pad);
  const std::string name = settings.tokenizer_class();
  if (one_of(kWithClassEnds, name)) {
    v.bos = own.named(settings, "cls_token", "[CLS]");
    v.sep = own.named(settings, "sep_token", "[SEP]");
    v.add_bos = v.bos.has_value();
    v.add_sep = v.sep.has_value();
    v.add_eos = false;
    return;
  }
  const bool unigram = file.kind == SentencePieceFile::Kind::unigram, both = one_of(kWithBothEnds, name);
  const bool eos_only = one_of(kWithEosOnly, name) || (name.empty() && unigram && !v.bos);
  v.add_bos = settings.flag("add_bos_token").value_or(both || (!eos_only && v.bos)) && v.bos;
  v.add_eos = settings.flag("add_eos_token").value_or(both || eos_only) && v.eos;
}

}  // namespace

Result<std::string> sentencepiece_json(std::string_view bytes, FolderSettings& settings) {
  ESP_TRY(SentencePieceFile file, read_sentencepiece(bytes));
  if (file.kind == SentencePieceFile::Kind::word)
    return bad_file("a SentencePiece model of whole words is not supported; unigram, bpe and char are", "model_type");
  OwnedVocabulary own;
  own.tokens.assign(file.pieces.begin(), file.pieces.end());
  GgufVocabulary& v = own.vocabulary;
  v.scores = std::move(file.scores);
  v.types = std::move(file.types);
  const std::string name = settings.tokenizer_class();
  const bool fairseq = name == "XLMRobertaTokenizer" || name == "LayoutXLMTokenizer";
  if (fairseq) {
    renumber_as_fairseq(own);
    file.bos = 0, file.pad = 1, file.eos = 2, file.unk = 3;
  }
  ESP_CHECK(own.add_listed(settings));
  find_ends(own, file, settings);

  const bool unigram = file.kind == SentencePieceFile::Kind::unigram;
  v.model = unigram ? "t5" : "llama";
  v.byte_fallback = file.byte_fallback;
  v.precompiled_charsmap = file.charsmap;
  v.add_space_prefix = settings.flag("add_prefix_space").value_or(file.add_dummy_prefix);
  v.remove_extra_whitespaces = file.remove_extra_whitespaces;
  v.escape_whitespaces = file.escape_whitespaces;
  v.treat_whitespace_as_suffix = file.whitespace_as_suffix;
  v.prefix_first_only = !settings.flag("legacy").value_or(unigram);
  v.user_defined_in_rewritten = true;
  const GgufVocabulary& view = own.view();
  own.name_it(settings, "bos_token", v.bos);
  own.name_it(settings, "eos_token", v.eos);
  own.name_it(settings, "unk_token", v.unk);
  own.name_it(settings, "pad_token", v.pad);
  return unigram ? unigram_json(view) : character_level_json(view);
}

}  // namespace espalier
