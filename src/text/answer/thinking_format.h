// thinking_format.h: how families of models mark their thinking, by the names that SGLang and vLLM give them.
//
// Some begin inside it, so that only its end is marked. Blanks around the thinking and line ends before the answer are
// part of the marks. Text without an end mark behind a beginning is all thinking.
// Units:   UTF-8 text. Threads: constants.
// Fails:   thinking_format(): bad_request naming the known ones.
// Source:  SGLang's --reasoning-parser and vLLM's, and the chat templates of the models.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "espalier/error.h"

namespace espalier {

// One family of models.
struct ThinkingFormat {
  using Texts = std::array<std::string_view, 2>;  // those that are empty do not count

  std::string_view name;
  Texts begins = {}, ends = {};
  bool begins_inside = false;   // unless the prompt says otherwise
  bool calls_end_it = false;    // so does a call of a tool
  bool kept = false;            // thinking is part of the content, with its marks; the first is added
  bool marks_are_text = false;  // no model has tokens for them
  bool harmony = false;         // channels of gpt-oss instead of marks
  std::string_view answer_begin = {}, answer_end = {};  // around the answer, no part of it
};

// A name of SGLang's, vLLM's or ours, in any case; "-" and "_" are the same.
Result<const ThinkingFormat*> thinking_format(std::string_view name, std::string field);
std::string thinking_format_names();  // of all, for messages
// The format whose marks stand in a chat template; null where none is known. Whether a prompt ends within thinking, the
// prompt must say.
const ThinkingFormat* thinking_format_of(std::string_view template_source);
std::span<const ThinkingFormat> thinking_formats();

}  // namespace espalier
