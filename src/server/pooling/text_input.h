// text_input.h: the texts of a body, each with its place, as prompts of requests that are pooled.
//
// A text is a string, a list of token ids, a pair of strings for models that read pairs, or a conversation with pictures, which
// the model's chat template writes out: messages as vLLM's clients send them, or {"text", "image", "video"} as SGLang's do. What is wrong with one of a list
// is its own error, by its index; what is wrong with the list is the body's.
// A text that is too long is refused unless the body asks that it be cut: then its last (or first) tokens go, the marks
// around it stay, and of a pair the second text is cut.
// Threads: pure functions; encoding takes milliseconds for long texts: background pool.
// Fails:   bad_request naming the place.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "server/media/media_source.h"
#include "server/pooling/pooled_body.h"
#include "server/pooling/pooled_texts.h"
#include "server/prompt/prompt.h"

namespace espalier::server {

using TextPair = std::pair<std::string, std::string>;

// A body of chat completions, as far as its prompt goes.
struct TextChat {
  Json body;
};

// An object of a body: what it shows and what it says.
//   {"text", "image", "video"}, or {"content": [...]} with parts of messages
struct ShownText {
  std::string text;            // "": none
  Json media = Json::array();  // parts of a message; their errors name the object's field
};

// One text of a body.
struct TextInput {
  std::string place;
  std::variant<std::string, std::vector<TokenId>, TextPair, TextChat, ShownText> text = {};
  std::optional<Error> error = {};
  std::vector<MediaSource> media = {};  // of a text or ids that have their marks
};

// How a body holds pairs: not at all, or as lists of two strings.
enum class PairsIn { none, lists };
Result<ShownText> read_shown_text(const Json& object, const std::string& place);
// Both as parts of a message: what is shown first.
Json parts_of(const ShownText& shown);
// A text alone is a text.
TextInput shown_input(ShownText shown, std::string place);

inline constexpr std::size_t kMostTexts = 100'000;  // of a body

// A string, a list of ids, an object, or a list of these; `is_list`: there was a list of texts.
struct TextList {
  std::vector<TextInput> texts;
  bool is_list = false;
};
Result<TextList> read_texts(const Json& value, std::string_view place, PairsIn pairs = PairsIn::none);

// The requests of the texts, or their errors. Fails: pictures take a while (Call::run_again_for_pictures).
Result<std::vector<PooledText>> pooled_texts(const Call& call, const PooledBody& body, std::vector<TextInput> inputs);

// What the body puts before each text: its own words, or one of the model's prompts by its name.
Result<std::string> prompt_of(const ServedModel& model, const PooledBody& body);

// How many tokens the tokenizer puts before and behind every text.
struct Marks {
  std::size_t before = 0, behind = 0;
};
Marks marks_around(const Tokenizer& tokenizer);

// Of a text that was written as a conversation here: what the caller named is at fault.
Error at_place(Error error, const std::string& place);

// Of a text that is cut: not even nothing of it fits.
Error no_room(std::size_t most, std::string_view what);

}  // namespace espalier::server
