// chat_prompt.h: messages of a body -> what the model's chat template is given -> prompt tokens.
//
// Used by chat completions, by /tokenize and by the routes that only render. Fields of a request never replace the
// template or its own variables.
// Pictures and films of messages are made ready when their tokens are wanted (media/prepare_media.h).
// Threads: pure functions; rendering is bounded (text/chat/chat_template.h) and runs on the background pool.
// Fails:   bad_request naming the field ("messages[2].role"); a template's own error with its message.
#pragma once

#include <string>
#include <vector>

#include "server/answer/tool_fields.h"
#include "server/fields/field_table.h"
#include "server/media/media_source.h"
#include "server/prompt/prompt.h"
#include "server/prompt/thinking_fields.h"
#include "server/server_options.h"
#include "text/chat/chat_media.h"
#include "text/chat/chat_template.h"

namespace espalier::server {

struct Call;

// The messages of a body with all that the template needs to render them.
struct ChatPrompt {
  Json messages = Json::array();   // roles in lower case, content a string or parts, arguments of tool calls parsed
  std::vector<MediaSource> media;  // of the messages' parts "image" and "video", in order
  ToolFields tools;
  Json arguments = Json::object();  // further variables of the template
  ThinkingFields thinking;
  bool add_generation_prompt = true;
  bool continue_final_message = false;
  SpecialAsText special_as_text;  // of what the conversation says; the template's own words are always its tokens
};

std::span<const FieldRow<ChatPrompt>> chat_prompt_rows();
// Names that belong to it beside the rows' own.
std::span<const std::string_view> chat_prompt_names();

// For dialects in which a last turn of the assistant without calls is the beginning of the answer: says so in `chat`, a
// body of chat completions whose messages are there.
void go_on_with_last_turn(Json& chat);
Result<ChatPrompt> parse_chat_prompt(const Json& body, const ServerOptions& options);
// --chat-template: a file, or the template itself.
Result<std::shared_ptr<const ChatTemplate>> load_chat_template(const std::string& file_or_source,
                                                               const Tokenizer& tokenizer);
// A rendered conversation, and where its pictures and films stand in it.
struct ChatText {
  RenderedChat chat;
  std::vector<MediaMark> marks;
};
// `traced`: the result says what the template wrote by itself; else its ranges may be empty.
Result<ChatText> render_chat(const ServedModel& model, const ChatPrompt& prompt, bool traced);
// What the rendered text has of the turn that the model is to write: the template's beginning of it, and what a turn
// that goes on says already. It is what the conversation before it does not give.
std::string opening_of(const ServedModel& model, const ChatPrompt& prompt, std::string_view rendered);

// A prompt's tokens and pictures, and the text of its last turn so far (when it was asked for).
struct ChatTokens {
  std::vector<TokenId> ids;
  std::vector<PictureInput> pictures;
  std::string opening;
};

// A piece of a conversation whose tokens are known: a prompt that was computed, or an output as the model made it, which
// need not be how the tokenizer would write it.
struct KnownPiece {
  std::string text;
  std::vector<TokenId> ids;
};
// What former turns say of a conversation's beginning. As many pieces as begin the rendered text keep their tokens, and
// so their place in the prefix cache; only the rest is encoded.
struct KnownBeginning {
  std::vector<KnownPiece> pieces;
  std::size_t used = 0;  // set: how many of them begin it
  KnownPiece rest;       // set: what stands behind them
};

// `known`: null where nothing is known. Where texts of special tokens are plain text, and with pictures, it is not looked
// at.
Result<ChatTokens> encode_chat_turn(const Call& call, const ChatPrompt& prompt, bool wants_opening,
                                    KnownBeginning* known = nullptr);
Result<ChatTokens> encode_chat(const Call& call, const ChatPrompt& prompt);

}  // namespace espalier::server
