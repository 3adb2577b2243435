// content_parts.h: a turn as the parts that wire formats know: text and pictures, in their order.
//
// A picture's place is where the chat format's mark stands in the text. Where there are not as many marks as pictures
// the text comes first and the pictures behind it.
// Threads: pure functions; parts refer to what they were made from.
// Fails:   bad_request for bytes of no known kind of picture.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/backend.h"

namespace espalier::lang {

// A stretch of text, or a picture.
struct ContentPart {
  std::string_view text;
  const Picture* picture = nullptr;  // null: text
};

// Empty texts are left out.
std::vector<ContentPart> content_parts(std::string_view text,
                                       const std::vector<std::shared_ptr<const Picture>>& pictures,
                                       std::string_view image_token);

// "data:image/png;base64,..."
std::string data_uri(const Picture& picture);

// The turns of a document that are to be answered, and what the assistant's open turn says already.
struct Conversation {
  std::vector<Message> turns;
  std::string_view prefill;
};

// Whether a text without roles is taken, as one user's turn.
enum class Roles { needed, optional };

// Fails: bad_request for a generation in another place than the assistant's turn.
Result<Conversation> conversation_of(const Document& document, std::string_view backend, Roles roles);

}  // namespace espalier::lang
