// mixed_prompt.h: prompts of texts and token ids in a row, as llama.cpp's routes take them.
//
//   "text"    [12, 34]    [12, "text", 34]    {"prompt_string": "text"}    and lists of these, which are several prompts
//   {"prompt_string": "<__media__> text", "multimodal_data": [base64, ...]}    pictures, in place of the marks
// The model's begin token stands before a prompt that begins with a text. A list of strings alone is several prompts.
// Threads: pure functions. Fails: bad_request naming the place; encode_mixed as encode_text.
// Source:  llama.cpp, tools/server/README.md (POST /completion).
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "server/media/media_source.h"
#include "server/prompt/media_prompt.h"
#include "server/prompt/prompt.h"

namespace espalier::server {

struct Call;

// A piece of a prompt. Pictures stand behind the text that has their marks.
using MixedPart = std::variant<std::string, TokenId, MediaSource>;
// One prompt.
using MixedPrompt = std::vector<MixedPart>;

Result<MixedPrompt> parse_mixed(const Json& value, std::string_view place);
Result<std::vector<MixedPrompt>> parse_mixed_prompts(const Json& value, std::string_view place, int most);

// `options`: of the first text; others go on behind it.
Result<MediaPrompt> encode_mixed(const Call& call, const MixedPrompt& prompt, EncodeOptions options,
                                 std::string_view place);

}  // namespace espalier::server
