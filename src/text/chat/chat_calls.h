// chat_calls.h: how a chat template takes an assistant's turn that calls tools: arguments as text or as an object, and
// no content as null or as an empty text.
//
// Found out by rendering. Arguments are texts where a text comes out as it is: what the model wrote then stays what it
// wrote, and its keys and values are found again; elsewhere they are objects ("arguments | tojson"). No content is null
// where the call comes out with null and nothing writes "None"; some templates drop the call when the content is "",
// some fail on null.
// Threads: values. Costs: four short renderings, once. Fails: never.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/json/json.h"

namespace espalier {

// What a template takes in turns that call tools.
class CallForm {
 public:
  // The rendering of some messages, or nothing when the template refuses them.
  using Render = std::function<std::optional<std::string>(const Json& messages)>;
  static CallForm of(const Render& render);

  bool takes_text() const { return arguments_as_text_; }

  // Evens out the turns with tool calls. Arguments may be a text, an object, null or missing; a text that is no JSON
  // object stays as it came.
  void adapt(Json& messages) const;

 private:
  void adapt_arguments(Json& function) const;
  bool wants_null(const Json& content) const;

  bool arguments_as_text_ = false;
  bool null_works_ = false;                        // a turn with null is rendered, and says no "None"
  bool null_shows_ = false, empty_shows_ = false;  // the call comes out
};

}  // namespace espalier
