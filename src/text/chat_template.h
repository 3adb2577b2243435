// chat_template.h: a conversation as the text that the model was trained on.
//
// Renders what Hugging Face's apply_chat_template renders (transformers 5), exactly: the same variables, the same
// treatment of continue_final_message and of reasoning under its several names. There is no fall-back to some other
// template.
// Threads: immutable after parse(); any number of threads may render one.
// Fails:   parse(): bad_file (field "chat_template"), the sentence gives the line.
//          render(): bad_request. Code "template_error" when the template refuses the conversation (raise_exception:
//          its message, unchanged), cannot be applied to it, or exceeds a limit of jinja/limits.h; field
//          "chat_template_kwargs" when a request tries to set what only the server sets.
#pragma once

#include <ctime>
#include <string>
#include <string_view>

#include "base/json.h"
#include "espalier/error.h"
#include "text/jinja/limits.h"
#include "text/jinja/template.h"
#include "text/tokenizer.h"

namespace espalier {

// What a template is rendered with: messages, tools, documents, further variables.
struct ChatInput {
  const Json* messages = nullptr;   // array of objects; required
  const Json* tools = nullptr;      // array of objects, or null
  const Json* documents = nullptr;  // array of objects, or null
  const Json* kwargs = nullptr;     // object of further variables (chat_template_kwargs), or null
  bool add_generation_prompt = false;
  // The text ends where the last message's content ends, so that the model goes on with it.
  bool continue_final_message = false;
  std::time_t now = 0;  // for strftime_now; 0 = the current time
};

// A parsed chat template with the special tokens that it may name.
class ChatTemplate {
 public:
  // `special` are the variables bos_token, eos_token and so on; a token that the model lacks is left out, not empty.
  static Result<ChatTemplate> parse(std::string_view source, SpecialTokens special = {});

  Result<std::string> render(const ChatInput& input, const jinja::Limits& limits = {}) const;

  const std::string& source() const { return source_; }
  // Whether the template mentions the name at all: a hint that it handles tools, for example.
  bool mentions(std::string_view name) const { return source_.find(name) != std::string::npos; }

 private:
  ChatTemplate(jinja::Template parsed, std::string source, SpecialTokens special);

  jinja::Template template_;
  std::string source_;
  SpecialTokens special_;
};

}  // namespace espalier
