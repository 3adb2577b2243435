#include "lang/backends/remote/wire/content_parts.h"

#include <fmt/format.h>

#include "base/base64.h"

namespace espalier::lang {
namespace {

std::size_t count_marks(std::string_view text, std::string_view mark) {
  std::size_t count = 0;
  for (auto at = text.find(mark); at != std::string_view::npos; at = text.find(mark, at + mark.size())) ++count;
  return count;
}

}  // namespace

std::vector<ContentPart> content_parts(std::string_view text,
                                       const std::vector<std::shared_ptr<const Picture>>& pictures,
                                       std::string_view image_token) {
  std::vector<ContentPart> parts;
  const auto add_text = [&](std::string_view piece) {
    if (!piece.empty()) parts.push_back({piece, nullptr});
  };
  const bool marked = !image_token.empty() && !pictures.empty() && count_marks(text, image_token) == pictures.size();
  for (const auto& picture : pictures) {
    if (!marked) break;
    const auto at = text.find(image_token);
    add_text(text.substr(0, at));
    parts.push_back({{}, picture.get()});
    text.remove_prefix(at + image_token.size());
  }
  add_text(text);
  for (const auto& picture : pictures)
    if (!marked) parts.push_back({{}, picture.get()});
  return parts;
}

std::string data_uri(const Picture& picture) {
  return fmt::format("data:{};base64,{}", picture.media_type.empty() ? "image/jpeg" : picture.media_type,
                     base64(picture.bytes));
}

Result<Conversation> conversation_of(const Document& document, std::string_view backend, Roles roles) {
  Conversation conversation;
  conversation.turns = document.messages;
  if (document.open_role.empty()) {
    if (!document.messages.empty() || roles == Roles::needed)
      return bad_request(fmt::format("{} answers turns: open the assistant's turn before the generation, as in "
                                     "s += assistant(gen(...))",
                                     backend),
                         "messages");
    conversation.turns.push_back({"user", document.text, document.pictures});
    return conversation;
  }
  if (document.open_role != "assistant")
    return bad_request(fmt::format("{} speaks in the assistant's turn only, and this generation stands in the {}'s",
                                   backend, document.open_role),
                       "messages");
  if (document.open_pictures < document.pictures.size())
    return bad_request(fmt::format("{} takes no picture in the assistant's turn", backend), "messages");
  conversation.prefill = document.open_text();
  return conversation;
}

}  // namespace espalier::lang
