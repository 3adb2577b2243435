#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "server/prompt/chat_prompt.h"
#include "text/chat_template.h"

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

Result<RenderedChat> render_chat(const ServedModel& model, const ChatPrompt& prompt, bool traced) {
  ESP_TRY(const ChatTemplate* chat_template, model.need_template("messages"));
  Json messages = chat_template->content_form().adapt(prompt.messages);
  if (!chat_template->mentions("developer")) {
    // OpenAI's newer word for the same role; templates that do not know it refuse it or drop the message.
    for (Json& message : messages) {
      if (message["role"] == "developer") message["role"] = "system";
    }
  }
  ChatInput input;
  input.messages = &messages;
  input.tools = prompt.tools.is_null() ? nullptr : &prompt.tools;
  input.kwargs = &prompt.arguments;
  input.add_generation_prompt = prompt.add_generation_prompt;
  input.continue_final_message = prompt.continue_final_message;
  const auto placed = [](Error error) {
    if (error.field.empty()) error.field = "messages";
    return error;
  };
  if (traced) {
    auto chat = chat_template->render_traced(input);
    return chat.ok() ? std::move(chat) : Result<RenderedChat>(placed(std::move(chat).error()));
  }
  auto text = chat_template->render(input);
  if (!text.ok()) return placed(std::move(text).error());
  return RenderedChat{std::move(text).value(), {}};
}

}  // namespace espalier::server
