#include "lang/chat/turns.h"

#include <fmt/format.h>

namespace espalier::lang {
namespace {

ChatFormat::Turn turn_of(const Document& document, const ChatFormat& format, std::string_view role) {
  const auto& turns = document.messages;
  return format.turn(role, turns.size(), !turns.empty() && turns.front().role == "system");
}

void open(Document& document, const ChatFormat& format, std::string_view role) {
  if (document.messages.empty()) document.text += format.text_begin;
  document.text += turn_of(document, format, role).begin;
  document.open_role = role;
  document.open_begin = document.text.size();
  document.open_pictures = document.pictures.size();
}

void close(Document& document, const ChatFormat& format) {
  const std::string_view content = document.open_text();
  const auto from = content.find_first_not_of(" \t\n\r\f\v");
  Message message{document.open_role, from == content.npos ? "" : std::string(content.substr(from)), {}};
  message.pictures.assign(document.pictures.begin() + static_cast<std::ptrdiff_t>(document.open_pictures),
                          document.pictures.end());
  document.text += turn_of(document, format, document.open_role).end;
  document.messages.push_back(std::move(message));
  document.open_role.clear();
}

}  // namespace

Result<> begin_turn(Document& document, const ChatFormat& format, std::string_view role) {
  if (!document.open_role.empty())
    return bad_request(fmt::format("a {} turn is open, and roles do not nest: close it before the {} turn begins",
                                   document.open_role, role),
                       "role");
  if (document.messages.empty() && role != "system" && format.default_system) {
    open(document, format, "system");
    document.text += *format.default_system;
    close(document, format);
  }
  open(document, format, role);
  return success();
}

Result<> end_turn(Document& document, const ChatFormat& format, std::string_view role) {
  if (document.open_role == role) {
    close(document, format);
    return success();
  }
  const std::string open = document.open_role.empty() ? "no turn is open" : "the open turn is " + document.open_role;
  return bad_request(fmt::format("a {} turn ends, but {}", role, open), "role");
}

}  // namespace espalier::lang
