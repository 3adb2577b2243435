#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/json/json_fields.h"
#include "server/media/media_reader.h"
#include "server/prompt/chat_prompt.h"
#include "text/chat/chat_template.h"

namespace espalier::server {
namespace {

constexpr std::uintmax_t kMostTemplateBytes = 1 << 20;

Result<std::string> template_source(const std::string& file_or_source) {
  const bool is_source =
      file_or_source.find("{%") != std::string::npos || file_or_source.find("{{") != std::string::npos;
  if (is_source) return file_or_source;
  std::error_code failed;
  const auto bytes = std::filesystem::file_size(file_or_source, failed);
  if (failed || bytes > kMostTemplateBytes) {
    return Error{
        Error::Kind::not_found,
        fmt::format("--chat-template {} is no readable file of at most {} bytes", file_or_source, kMostTemplateBytes),
        "chat-template",
        {}};
  }
  std::ifstream in(file_or_source, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

}  // namespace

Result<std::shared_ptr<const ChatTemplate>> load_chat_template(const std::string& file_or_source,
                                                               const Tokenizer& tokenizer) {
  ESP_TRY(const std::string source, template_source(file_or_source));
  ESP_TRY(auto parsed, ChatTemplate::parse(source, tokenizer.special_tokens()));
  return std::shared_ptr<const ChatTemplate>(std::make_shared<ChatTemplate>(std::move(parsed)));
}

namespace {

const ContentForm& content_form(const ServedModel& model, const ChatTemplate& chat_template) {
  return model.own_content_form ? *model.own_content_form : chat_template.content_form();
}

// The messages as the template takes them.
ShownMedia adapted_messages(const ServedModel& model, const ChatTemplate& chat_template, const ChatPrompt& prompt) {
  const ContentForm& form = content_form(model, chat_template);
  ShownMedia shown;
  if (!prompt.media.empty() && model.media != nullptr)
    shown = model.media->forms().adapt(prompt.messages, form);
  else
    shown.messages = prompt.messages;
  shown.messages = form.adapt(shown.messages);
  chat_template.call_form().adapt(shown.messages);
  if (!chat_template.mentions("developer")) {
    // OpenAI's newer word for the same role; templates that do not know it refuse it or drop the message.
    for (Json& message : shown.messages) {
      if (message["role"] == "developer") message["role"] = "system";
    }
  }
  return shown;
}

ChatInput input_of(const ChatPrompt& prompt, const Json& messages) {
  ChatInput input;
  input.messages = &messages;
  input.tools = prompt.tools.shown.is_null() ? nullptr : &prompt.tools.shown;
  input.kwargs = &prompt.arguments;
  return input;
}

}  // namespace

namespace {

Result<RenderedChat> rendered(const ChatTemplate& chat_template, const ChatInput& input, bool traced) {
  const auto placed = [](Error error) {
    if (error.field.empty()) error.field = "messages";
    return error;
  };
  if (traced) {
    auto chat = chat_template.render_traced(input);
    return chat.ok() ? std::move(chat) : Result<RenderedChat>(placed(std::move(chat).error()));
  }
  auto text = chat_template.render(input);
  if (!text.ok()) return placed(std::move(text).error());
  return RenderedChat{std::move(text).value(), {}};
}

// Stand-ins give way to the marks that a prompt carries, with what belongs around them.
void put_marks(const MediaReader& reader, const ChatPrompt& prompt, ChatText& text) {
  bool changed = false;
  for (std::size_t i = 0; i < text.marks.size(); ++i) {
    MediaMark& mark = text.marks[i];
    const bool film = prompt.media[mark.medium].kind == MediaSource::Kind::film;
    const std::string &sign = reader.tokens(film).mark, &alone = reader.forms().alone(film);
    if (text.chat.text.compare(mark.begin, mark.bytes, sign) == 0) continue;
    text.chat.text.replace(mark.begin, mark.bytes, alone);
    const auto moved = [&](std::size_t& at) {
      if (at > mark.begin) at = at - mark.bytes + alone.size();
    };
    for (std::size_t later = i + 1; later < text.marks.size(); ++later) moved(text.marks[later].begin);
    for (TextRange& range : text.chat.own) moved(range.begin), moved(range.end);
    const std::size_t before = alone.find(sign);
    text.chat.own.push_back({mark.begin, mark.begin + alone.size()});
    mark.begin += before;
    mark.bytes = sign.size();
    changed = true;
  }
  if (changed) std::ranges::sort(text.chat.own, {}, &TextRange::begin);
}

}  // namespace

Result<ChatText> render_chat(const ServedModel& model, const ChatPrompt& prompt, bool traced) {
  ESP_TRY(const ChatTemplate* chat_template, model.need_template("messages"));
  const ShownMedia shown = adapted_messages(model, *chat_template, prompt);
  ChatInput input = input_of(prompt, shown.messages);
  input.add_generation_prompt = prompt.add_generation_prompt;
  input.continue_final_message = prompt.continue_final_message;
  ChatText text;
  const bool has_media = shown.count > 0;
  ESP_TRY(text.chat, rendered(*chat_template, input, traced || has_media));
  if (!has_media) return text;
  auto marks = model.media->forms().find(text.chat.text, text.chat.own, shown);
  if (!marks)
    return invalid_image(
        "the model's chat template does not show each of these pictures once: put them into messages of "
        "the user, or send a prompt of your own",
        "messages");
  text.marks = *std::move(marks);
  put_marks(*model.media, prompt, text);
  return text;
}

std::string opening_of(const ServedModel& model, const ChatPrompt& prompt, std::string_view rendered) {
  const auto chat_template = model.need_template("messages");
  if (!chat_template.ok()) return {};
  Json messages = adapted_messages(model, **chat_template, prompt).messages;
  if (prompt.continue_final_message) messages.erase(messages.size() - 1);
  const auto before = (*chat_template)->render(input_of(prompt, messages));
  std::size_t same = 0;
  if (before.ok()) {
    same = static_cast<std::size_t>(std::ranges::mismatch(rendered, std::string_view(*before)).in1 - rendered.begin());
  } else if (prompt.continue_final_message && !prompt.messages.empty()) {  // alone it has no rendering
    const Json* content = find_field(prompt.messages.back(), "content");
    if (content != nullptr && content->is_string())
      same = std::min(rendered.rfind(content->get_ref<const std::string&>()), rendered.size());
  }
  return std::string(rendered.substr(same));
}

}  // namespace espalier::server
