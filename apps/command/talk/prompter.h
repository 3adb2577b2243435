// prompter.h: messages of a chat, with their pictures, as the model's tokens: made as those of POST /v1/chat/completions.
//
// Threads: one. Fails: as the server's chat prompts (server/prompt/chat_prompt.h); bad_request for a picture that cannot be
// read; unsupported for a model that reads none.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/json/json.h"
#include "espalier/engine.h"
#include "server/admission/budget.h"
#include "server/media/media_fetch.h"
#include "server/media/prepared_media.h"
#include "server/prompt/chat_prompt.h"
#include "server/served_model.h"
#include "server/server_options.h"

namespace espalier::command {

// Owns the engine.
class Prompter {
 public:
  static Result<std::unique_ptr<Prompter>> make(std::unique_ptr<Engine> engine);

  Engine& engine() const { return *model_->engine; }
  bool has_template() const { return engine().chat_template() != nullptr; }

  // The part of a message that shows the picture in this file; it was decoded once, so later prompts do not fail for it.
  Result<Json> picture(const std::string& path);
  // A conversation in the form of chat completions, and the opening of the answer.
  Result<server::ChatTokens> encode(const Json& messages);
  // A prompt without a template; the pictures stand where it has the model's mark of one.
  Result<server::ChatTokens> encode_plain(const std::string& text, std::span<const Json> pictures);

 private:
  explicit Prompter(std::shared_ptr<server::ServedModel> model) : model_(std::move(model)) {}
  Result<std::vector<server::Prepared>> prepare(std::span<const server::MediaSource> sources);

  const std::shared_ptr<server::ServedModel> model_;
  const server::ServerOptions options_;
  server::MediaFetcher fetcher_{server::MediaAccess{}};
  const std::shared_ptr<server::Budget> memory_ =
      std::make_shared<server::Budget>(std::int64_t{options_.max_picture_memory_mib} << 20);
};

}  // namespace espalier::command
