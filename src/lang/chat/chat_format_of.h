// chat_format_of.h: a model's chat template as pieces of text, where it is nothing more.
//
// The template is rendered with words that stand for contents, and cut where they stand; then conversations put
// together from the pieces are compared with what the template renders. Templates that do more (drop old thinking, move
// the system text into the user's turn) are refused. What the tokenizer puts before every text by itself (a begin
// token) is left off.
// Threads: pure. Fails: unsupported, saying where pieces and template differ; the template's own error.
#pragma once

#include <functional>
#include <string>

#include "espalier/chat_format.h"
#include "espalier/json.h"
#include "text/chat/chat_template.h"

namespace espalier::lang {

Result<ChatFormat> chat_format_of(const ChatTemplate& chat_template, const Tokenizer& tokenizer);

// A template that somebody else renders. `begin`: the text of the token that every text is begun with; empty: of none.
using TemplateRenderer = std::function<Result<std::string>(const Json& messages, bool add_generation_prompt)>;
Result<ChatFormat> chat_format_of(TemplateRenderer renderer, std::string begin);

}  // namespace espalier::lang
