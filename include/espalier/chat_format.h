// chat_format.h: what stands around the turns of a conversation, as pieces of text.
//
// A program's state is one growing text; a role that is opened or closed adds a piece to it. Where a model's chat
// template is such pieces (almost all are), they are taken from the template itself (lang/chat/chat_format_of.h) and
// the text is what the template renders, bit by bit. Others are chosen by name from a table (lang/chat/chat_formats.h).
// Threads: values.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace espalier {

// The texts before and after each role's turn, and the stop strings of the format.
struct ChatFormat {
  enum class Style {
    plain,
    llama2,  // the system text stands inside the first user turn
  };
  struct Turn {
    std::string begin, end;
    bool operator==(const Turn&) const = default;
  };

  std::string name = "default";
  Style style = Style::plain;
  std::string text_begin;                            // before the first turn of a conversation
  std::map<std::string, Turn, std::less<>> roles;    // "system", "user", "assistant"
  std::optional<std::string> default_system;         // said first when a conversation does not begin with a system turn
  std::vector<std::string> stop;                     // ends of a turn that are no single end token
  std::string image_token = "<image>", audio_token;  // stand for a picture in the text

  // What opens and closes a turn of this role, `turns` closed turns being before it. Under llama2 the first user turn
  // that follows a system turn is open already. A role that is not known gets nothing.
  Turn turn(std::string_view role, std::size_t turns, bool system_first) const;
};

}  // namespace espalier
