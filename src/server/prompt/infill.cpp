#include "server/prompt/infill.h"

#include <fmt/format.h>

#include <algorithm>

namespace espalier::server {
namespace {

// What a family calls its marks; empty: it has none.
struct MarkNames {
  std::string_view prefix, suffix, middle, repository, file;
  bool suffix_first = false;
};

constexpr MarkNames kFamilies[] = {
    // Qwen2.5-Coder, Granite 4; CodeGemma, whose files stand behind another mark
    {"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|repo_name|>", "<|file_sep|>"},
    {"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "", "<|file_separator|>"},
    // StarCoder 2; StarCoder, Granite Code; SantaCoder
    {"<fim_prefix>", "<fim_suffix>", "<fim_middle>", "<repo_name>", "<file_sep>"},
    {"<fim_prefix>", "<fim_suffix>", "<fim_middle>", "<reponame>", "<filename>"},
    {"<fim-prefix>", "<fim-suffix>", "<fim-middle>", "", ""},
    // DeepSeek-Coder: begin, hole, end
    {"<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>", "", ""},
    // CodeLlama
    {"▁<PRE>", "▁<SUF>", "▁<MID>", "", ""},
    {"<PRE>", "<SUF>", "<MID>", "", ""},
    // Codestral
    {"[PREFIX]", "[SUFFIX]", "", "", "", true},
    // CodeGeeX4, GLM 4; Seed-Coder
    {"<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>", "", "", true},
    {"<[fim-prefix]>", "<[fim-suffix]>", "<[fim-middle]>", "", "", true},
};

std::optional<TokenId> find_mark(const Tokenizer& tokenizer, std::string_view text) {
  return text.empty() ? std::nullopt : tokenizer.find(text);
}

std::optional<InfillMarks> marks_of(const Tokenizer& tokenizer, const MarkNames& names) {
  const auto prefix = find_mark(tokenizer, names.prefix), suffix = find_mark(tokenizer, names.suffix);
  const auto middle = find_mark(tokenizer, names.middle);
  if (!prefix || !suffix || (!middle && !names.middle.empty())) return std::nullopt;
  return InfillMarks{*prefix,
                     *suffix,
                     middle,
                     names.suffix_first,
                     find_mark(tokenizer, names.repository),
                     find_mark(tokenizer, names.file)};
}

// What the file of the model says itself.
std::optional<InfillMarks> named_marks(const Tokenizer& tokenizer) {
  MarkNames names;
  for (const auto& [name, text] : tokenizer.special_tokens()) {
    if (name == "prefix_token") names.prefix = text;
    if (name == "suffix_token") names.suffix = text;
    if (name == "middle_token") names.middle = text;
  }
  auto marks = marks_of(tokenizer, names);
  if (!marks) return std::nullopt;
  for (const MarkNames& family : kFamilies) {
    if (family.prefix != names.prefix) continue;
    marks->suffix_first = family.suffix_first;
    if (!marks->repository) marks->repository = find_mark(tokenizer, family.repository);
    if (!marks->file) marks->file = find_mark(tokenizer, family.file);
  }
  return marks;
}

// Puts the parts of a prompt one behind the other.
class InfillEncoder {
 public:
  InfillEncoder(const ServedModel& model, std::string_view field) : model_(model), field_(field) {}

  Result<> begin() {
    ESP_TRY(const auto around, encode_text(model_, "", {}, field_));
    const auto bos = model_.tokenizer()->bos();
    if (bos && !around.empty() && around.front() == *bos) ids.push_back(*bos);
    return success();
  }
  void mark(TokenId id) { ids.push_back(id); }
  // `continues`: no blank is put before it, as some tokenizers do.
  Result<> text(std::string_view text, bool continues = true) {
    EncodeOptions options{.add_special = false, .parse_special = false};
    options.continues = continues;
    ESP_TRY(const auto more, encode_text(model_, text, options, field_));
    ids.insert(ids.end(), more.begin(), more.end());
    return success();
  }
  Result<> files(const InfillMarks& marks, const std::vector<InfillFile>& files) {
    if (files.empty()) return success();
    if (marks.repository && marks.file) {
      mark(*marks.repository);
      ESP_CHECK(text("myproject\n"));
    }
    for (const InfillFile& file : files) {
      if (marks.file) mark(*marks.file);
      ESP_CHECK(text(marks.file ? file.name + "\n" : "\n\n--- snippet ---\n\n"));
      ESP_CHECK(text(file.text));
    }
    if (!marks.file) return success();
    mark(*marks.file);
    return text("filename\n");
  }

  std::vector<TokenId> ids;

 private:
  const ServedModel& model_;
  const std::string_view field_;
};

}  // namespace

std::optional<InfillMarks> infill_marks(const Tokenizer& tokenizer) {
  if (auto named = named_marks(tokenizer)) return named;
  std::optional<InfillMarks> best;
  for (const MarkNames& family : kFamilies) {
    const auto marks = marks_of(tokenizer, family);
    if (!marks) continue;
    if (marks->file) return marks;  // of families with the same marks, the one whose further marks are there, too
    if (!best) best = marks;
  }
  return best;
}

Result<std::vector<TokenId>> encode_infill(const ServedModel& model, const InfillPrompt& prompt,
                                           std::string_view field) {
  ESP_TRY(const Tokenizer* tokenizer, model.need_tokenizer(field));
  const auto marks = infill_marks(*tokenizer);
  if (!marks) {
    return bad_request(
        fmt::format("{} asks to fill in the middle, but the vocabulary of {} has no marks for that; use a "
                    "model that was trained to (Qwen2.5-Coder, StarCoder, ...), or leave it out",
                    field, model.name()),
        std::string(field), "unsupported_parameter");
  }
  InfillEncoder out(model, field);
  ESP_CHECK(out.begin());
  ESP_CHECK(out.files(*marks, prompt.files));
  const auto put_prefix = [&]() -> Result<> {
    out.mark(marks->prefix);
    return out.text(prompt.prefix, false);
  };
  const auto put_suffix = [&]() -> Result<> {
    out.mark(marks->suffix);
    return out.text(prompt.suffix);
  };
  if (!marks->suffix_first) ESP_CHECK(put_prefix());
  ESP_CHECK(put_suffix());
  if (marks->suffix_first) ESP_CHECK(put_prefix());
  if (marks->middle) out.mark(*marks->middle);
  return std::move(out.ids);
}

}  // namespace espalier::server
