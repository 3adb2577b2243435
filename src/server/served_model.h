// served_model.h: the engine and what clients call its model; shared by everything that is still being answered.
// Threads: constant after construction, but for what ProgramHost keeps here; the engine may be called from any thread.
// Fails:   need_tokenizer(), need_template(): bad_request, saying how the model could be used instead.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/engine.h"
#include "text/answer/call_format.h"
#include "text/answer/thinking_format.h"
#include "text/chat/chat_content.h"

namespace espalier {
struct ChatFormat;
namespace lang {
struct LocalService;
}
}  // namespace espalier

namespace espalier::server {

class MediaReader;

// Whether a client leaves the choice of the model to the server: "", "default" and "unknown" (what routers send).
bool names_no_model(std::string_view asked);
// NAME of NAME:latest, which Ollama's clients send; others as they are.
std::string_view without_latest(std::string_view asked);
// The 404 that lists what is served.
Error no_such_model(std::string_view asked, const std::vector<std::string>& served);

// The loaded engine with the model's names, template and description.
struct ServedModel {
  ~ServedModel();  // its programs' threads first

  std::shared_ptr<Engine> engine;
  std::vector<std::string> names;                    // at least one; the first is the one we report
  std::int64_t loaded_at = 0;                        // seconds since 1970
  std::string fingerprint;                           // "fp_...": the same for whatever gives the same bits
  std::shared_ptr<const ChatTemplate> own_template;  // of --chat-template, instead of the model's; null without
  std::optional<ContentForm> own_content_form;       // of --chat-template-content-format, instead of what it shows

  std::vector<TokenId> special_ids;                 // of the tokenizer
  const ThinkingFormat* thinking_format = nullptr;  // how it marks its thinking; null: not told apart
  const CallFormat* call_format = nullptr;          // how it calls tools; null: not known

  std::shared_ptr<const MediaReader> media;  // how it is shown pictures; null: it reads none
  std::string media_trouble;                 // why not, where its folder says that it does

  std::shared_ptr<lang::LocalService> program_service;  // of ProgramHost, under its lock; null before the first program
  std::shared_ptr<const ChatFormat> program_format;

  const std::string& name() const { return names.front(); }
  const ModelInfo& info() const { return engine->model(); }
  const ModelLimits& limits() const { return engine->model().limits; }
  const Tokenizer* tokenizer() const { return engine->tokenizer(); }

  // Requires: names and engine. Sets the rest that follows from them.
  void settle();

  Result<const Tokenizer*> need_tokenizer(std::string_view field) const;
  Result<const ChatTemplate*> need_template(std::string_view field) const;
  // What names no model, and the served names (with :latest, too), are this model; anything else is no_such_model().
  Result<> check_name(std::string_view asked) const;
};

}  // namespace espalier::server
