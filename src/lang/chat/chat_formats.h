// chat_formats.h: the chat formats that are known by name, and which of them a model's path stands for.
//
// Names, pieces and rules are those of SGLang's front end, so that a program's text is the same against an SGLang
// server whichever front end wrote it. A rule looks at the path alone: a renamed folder means another format. Where the
// model's own template can be had, chat_format_of.h is better.
// Threads: constants.
// Fails:   chat_format_named: bad_request naming the formats that there are.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "espalier/chat_format.h"
#include "espalier/error.h"

namespace espalier::lang {

Result<ChatFormat> chat_format_named(std::string_view name);

// Of the first rule that matches, whatever the case of letters; "default" when none does.
const ChatFormat& chat_format_of_path(std::string_view model_path);

std::vector<std::string> chat_format_names();

}  // namespace espalier::lang
