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
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json/json.h"
#include "espalier/error.h"
#include "text/chat/chat_calls.h"
#include "text/chat/chat_content.h"
#include "text/jinja/limits.h"
#include "text/jinja/template.h"
#include "text/tokenizer/tokenizer.h"

namespace espalier {

// What a template is given.
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

// Text with the ranges in it that the template wrote by itself.
struct RenderedChat {
  std::string text;
  // Ascending, not overlapping. What stands in them comes from the template, from the model's own special tokens or from
  // a known role; everything else may come from whoever wrote the conversation.
  std::vector<TextRange> own;
};

// A conversation as text, by the model's own template.
class ChatTemplate {
 public:
  // `special` are the variables bos_token, eos_token and so on; a token that the model lacks is left out, not empty.
  // `with_tools`: the source for conversations that bring tools (the template "tool_use" of models with several);
  // empty: the same.
  static Result<ChatTemplate> parse(std::string_view source, SpecialTokens special = {},
                                    std::string_view with_tools = {});

  Result<std::string> render(const ChatInput& input, const jinja::Limits& limits = {}) const;
  // The same text, and who wrote it.
  Result<RenderedChat> render_traced(const ChatInput& input, const jinja::Limits& limits = {}) const;

  // How it takes contents, and turns that call tools; found out when first asked for.
  const ContentForm& content_form() const;
  const CallForm& call_form() const;

  const std::string& source() const { return source_; }
  const std::string& tool_source() const { return tool_source_.empty() ? source_ : tool_source_; }  // with tools
  // Whether the template mentions the name at all: a hint that it handles tools, for example.
  bool mentions(std::string_view name) const {
    return source_.find(name) != std::string::npos || tool_source_.find(name) != std::string::npos;
  }

 private:
  ChatTemplate(jinja::Template parsed, std::string source, SpecialTokens special);
  Result<RenderedChat> render(const ChatInput& input, const jinja::Limits& limits, bool traced) const;

  jinja::Template template_;
  std::optional<jinja::Template> tool_template_;
  std::string source_, tool_source_;
  SpecialTokens special_;
  struct Found;
  std::shared_ptr<Found> found_;
};

}  // namespace espalier
