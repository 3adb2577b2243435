// chat_content.h: in which form a chat template takes the content of a message: one text, a list of parts, or either.
//
// Found out by rendering: a role takes texts when a text in its turn comes out as it is, and parts when two of them do
// and nothing of the list around them is written. A role whose turn cannot be rendered at all takes texts.
// Threads: values. Costs: about a dozen short renderings, once. Fails: never.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/json/json.h"

namespace espalier {

// What roles are told apart, and a short conversation in which a message of one has this content: what templates are asked
// about with.
inline constexpr std::array<std::string_view, 4> kContentRoles = {"system", "user", "assistant", "tool"};
std::size_t content_role(std::string_view role);  // its place there; others' is 4
Json conversation_about(std::string_view role, Json content);

// For each role, what a template takes.
class ContentForm {
 public:
  // The rendering of some messages, or nothing when the template refuses them.
  using Render = std::function<std::optional<std::string>(const Json& messages)>;
  static ContentForm of(const Render& render);
  static ContentForm always_text();
  static ContentForm always_parts();

  bool takes_parts(std::string_view role) const { return form(role) != Form::text; }

  // The messages with their contents as the template takes them: parts given where it takes only texts are joined by a
  // blank, a text given where it takes only parts becomes one. Parts are {"type": "text", "text": ...}.
  Json adapt(const Json& messages) const;

 private:
  enum class Form { text, parts, either };
  Form form(std::string_view role) const;

  std::array<Form, 4> forms_{};  // by kRoles
};

}  // namespace espalier
