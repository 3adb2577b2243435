#include "server/media/media_reader.h"

#include <fmt/format.h>

#include <initializer_list>
#include <utility>

#include "base/json/json.h"
#include "base/json/json_fields.h"
#include "image/processors/processor_files.h"

namespace espalier::server {
namespace {

// The first of these fields of config.json that names a token.
TokenId id_of_config(const Json& config, std::initializer_list<const char*> names, const Tokenizer& tokenizer) {
  for (const char* name : names) {
    const Json* value = find_field(config, name);
    if (value == nullptr || !value->is_number_integer()) continue;
    const auto id = value->get<std::int64_t>();
    if (id >= 0 && id < tokenizer.size() && !tokenizer.token_text(static_cast<TokenId>(id)).empty())
      return static_cast<TokenId>(id);
  }
  return -1;
}

// Whether the special tokens of "<|begin|>text<|content|>" are in the vocabulary.
bool has_text(const Tokenizer& tokenizer, std::string_view text) {
  while (!text.empty()) {
    const std::size_t open = text.find('<'), close = text.find('>', open);
    if (open == text.npos || close == text.npos) return true;
    if (!tokenizer.find(text.substr(open, close + 1 - open))) return false;
    text.remove_prefix(close + 1);
  }
  return true;
}

// `configured`: the id that the model's configuration tells, which counts where the vocabulary lacks the processor's.
Result<MediaTokens> tokens_of(const std::string& mark, const std::string& token, TokenId configured,
                              const Tokenizer& tokenizer) {
  MediaTokens made;
  if (mark.empty()) return made;
  made.mark = mark;
  made.token = token;
  made.token_id = tokenizer.find(token).value_or(-1);
  if (made.token_id < 0) {
    if (configured < 0)
      return Error{Error::Kind::unsupported,
                   fmt::format("the vocabulary has no token {}, which stands for pictures", token),
                   {},
                   {}};
    made.bare = true;
    made.token_id = configured;
    made.mark = made.token = std::string(tokenizer.token_text(configured));
  }
  made.mark_id = tokenizer.find(made.mark).value_or(-1);
  return made;
}

}  // namespace

Result<std::shared_ptr<MediaReader>> MediaReader::open(const std::filesystem::path& folder, const Tokenizer& tokenizer,
                                                       std::int64_t cache_bytes) {
  ESP_TRY(const auto files, pictures::read_processor_files(folder));
  if (!files) return std::shared_ptr<MediaReader>();
  return make(*files, tokenizer, cache_bytes);
}

Result<std::shared_ptr<MediaReader>> MediaReader::of_settings(std::string_view settings, const Tokenizer& tokenizer,
                                                              std::int64_t cache_bytes) {
  ESP_TRY(const Json told, parse_json(settings));
  return make(pictures::processor_files_of(told), tokenizer, cache_bytes);
}

Result<std::shared_ptr<MediaReader>> MediaReader::make(const pictures::ProcessorFiles& files,
                                                       const Tokenizer& tokenizer, std::int64_t cache_bytes) {
  std::shared_ptr<MediaReader> made(new MediaReader(cache_bytes));
  ESP_TRY(made->processor_, pictures::make_processor(files));
  const pictures::Processor& processor = *made->processor_;
  const TokenId picture =
      id_of_config(files.config, {"image_token_id", "image_token_index", "media_placeholder_token_id"}, tokenizer);
  ESP_TRY(made->pictures_, tokens_of(processor.placeholder(), processor.image_token(), picture, tokenizer));
  if (made->pictures_.mark != made->pictures_.token && made->pictures_.mark_id < 0) {
    made->pictures_.bare = true;  // a vocabulary without marks around pictures
    made->pictures_.mark = made->pictures_.token;
    made->pictures_.mark_id = made->pictures_.token_id;
  }
  // No id of the configuration stands for a film: where the vocabulary has no such token it is some other one.
  const bool same = processor.film_token() == processor.image_token();
  const TokenId film = same ? made->pictures_.token_id : -1;
  if (auto films = tokens_of(processor.film_placeholder(), processor.film_token(), film, tokenizer); films.ok())
    made->films_ = std::move(films).value();
  made->pictures_.alone = made->pictures_.mark;
  made->films_.alone = made->films_.mark;
  if (!made->pictures_.bare && has_text(tokenizer, processor.before()) && has_text(tokenizer, processor.behind()))
    made->pictures_.alone = processor.before() + made->pictures_.mark + processor.behind();
  made->learn_forms(nullptr, nullptr);
  return made;
}

void MediaReader::learn_forms(const ChatTemplate* chat_template, const ContentForm* own_form) {
  const auto render = [chat_template](const Json& messages) -> std::optional<std::string> {
    if (chat_template == nullptr) return std::nullopt;
    ChatInput input;
    input.messages = &messages;
    auto text = chat_template->render(input);
    return text.ok() ? std::optional(std::move(text).value()) : std::nullopt;
  };
  const ContentForm form = own_form != nullptr        ? *own_form
                           : chat_template != nullptr ? chat_template->content_form()
                                                      : ContentForm::always_text();
  forms_ = MediaForms::of(render, form, pictures_.mark, films_.mark);
  forms_.set_alone(false, pictures_.alone);
  forms_.set_alone(true, films_.alone);
}

bool MediaReader::mentions_marks(std::string_view text) const {
  for (const MediaTokens* kind : {&pictures_, &films_})
    for (const std::string* each : {&kind->mark, &kind->token})
      if (!each->empty() && text.find(*each) != text.npos) return true;
  return false;
}

}  // namespace espalier::server
