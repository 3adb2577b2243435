// prompt.h: prompts as bodies hold them, and as token ids.
//
// Text is always encoded canonically, with the model's begin token where its tokenizer puts one.
// Units:   tokens. Threads: pure functions; encoding a long prompt takes milliseconds: background pool.
// Fails:   bad_request naming the field, code context_length_exceeded for what does not fit. A text that cannot fit is
//          refused by its bytes where they bound its tokens (exact), else by the tokens that its beginning has, so the
//          work and memory of encoding are bounded by the context and not by what was sent.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/json/json.h"
#include "server/served_model.h"
#include "server/server_options.h"
#include "text/tokenizer/tokenizer.h"

namespace espalier::server {

using Prompt = std::variant<std::string, std::vector<TokenId>>;

// special_tokens_in_text of a request: whether special strings in its texts are plain text; unset = as the server's
// --special-tokens-in-text says.
using SpecialAsText = std::optional<bool>;
Result<bool> read_special_as_text(const Json& value, std::string_view place);
bool is_special_text(const SpecialAsText& asked, const ServerOptions& options);

// The reader of such a row.
template <class T, SpecialAsText T::* kMember>
Result<> read_special_tokens(T& out, const Json& value, std::string_view place) {
  ESP_TRY(out.*kMember, read_special_as_text(value, place));
  return success();
}
inline constexpr std::string_view kSpecialTokensMeaning =
    "special: <|im_end|> and the like in a text are the model's special tokens; text: they are plain text";

// A string, a list of ids, a list of strings, or a list of lists of ids.
struct PromptList {
  std::vector<Prompt> prompts;
  bool is_batch = false;  // the body held a list of prompts, perhaps of one
};

// What a body may give as a prompt.
enum class PromptKind { any, text, ids };
Result<PromptList> parse_prompts(const Json& value, std::string_view place, int most,
                                 PromptKind kind = PromptKind::any);

// Tokens that a prompt may have.
std::int64_t prompt_room(const ServedModel& model);

// Whether any of the prompts (a string, or a list with strings in it; ids are not looked at) has so many bytes that it
// cannot fit: before anything of it is copied.
Result<> check_prompt_bytes(const ServedModel& model, const Json& value, std::string_view place);

Result<std::vector<TokenId>> encode_text(const ServedModel& model, std::string_view text, EncodeOptions options,
                                         std::string_view field);
// `options` are for a text; ids stay as they are.
Result<std::vector<TokenId>> encode_prompt(const ServedModel& model, const Prompt& prompt, EncodeOptions options,
                                           std::string_view field);

}  // namespace espalier::server
