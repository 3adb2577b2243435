// The model in this process: contexts hold token ids, and a call sends what the engine's cache does not have yet.
#include "base/log.h"
#include "engine/engine_metrics.h"
#include "espalier/backends.h"
#include "lang/backends/let_go.h"
#include "lang/backends/local/local_context.h"
#include "lang/chat_format_of.h"
#include "lang/chat_formats.h"

namespace espalier {
namespace lang {
namespace {

class LocalBackend final : public Backend {
 public:
  LocalBackend(std::shared_ptr<Engine> engine, ChatFormat format)
      : service_(std::move(engine)), format_(std::move(format)) {
    traits_.name = "local";
  }
  const BackendTraits& traits() const override { return traits_; }
  const ChatFormat& chat_format() const override { return format_; }
  std::unique_ptr<Context> context() override { return std::make_unique<LocalContext>(service_); }
  BackendUsage usage() const override { return service_.tally.usage(); }
  void count(const BackendUsage& more) override { service_.tally.add(more); }
  Result<> flush_cache() override { return service_.engine->flush_cache(); }

  Result<Json> server_info() override {
    const ModelInfo& model = service_.engine->model();
    const EngineStatus now = service_.engine->status();
    const EngineMetrics& did = service_.engine->metrics();
    return Json{{"version", ESPALIER_VERSION},
                {"model_path", model.path},
                {"context_length", model.limits.context_length},
                {"max_total_num_tokens", model.limits.pool_tokens},
                {"running", now.running},
                {"waiting", now.waiting},
                {"cached_tokens", now.cached_tokens},
                // Since the engine was opened; `computed_tokens`: of prompts, not found in the cache.
                {"total_requests", did.requests.value()},
                {"total_computed_tokens", did.computed_tokens.value()},
                {"total_generated_tokens", did.generated_tokens.value()}};
  }

  bool is_own_thread() const { return service_.courier.is_this_thread(); }

 private:
  LocalService service_;
  ChatFormat format_;
  BackendTraits traits_;
};

Result<ChatFormat> format_of(const Engine& engine, const std::string& name) {
  if (!name.empty()) return chat_format_named(name);
  const ChatFormat& known = chat_format_of_path(engine.model().path);
  if (engine.chat_template() != nullptr) {
    auto own = chat_format_of(*engine.chat_template(), *engine.tokenizer());
    if (own.ok()) return own;
    log::warning(
        "{}: programs write turns in the format '{}', which the model's path stands for; chat_template names "
        "another",
        own.error().message, known.name);
  }
  return known;
}

}  // namespace
}  // namespace lang

Result<std::shared_ptr<Backend>> open_local(LocalOptions options) {
  if (!options.engine) return bad_request("a local back end needs an engine", "engine");
  if (options.engine->tokenizer() == nullptr)
    return bad_request("a program's text needs a tokenizer, and this engine was opened without one", "skip_tokenizer");
  ESP_TRY(ChatFormat format, lang::format_of(*options.engine, options.chat_template));
  return std::shared_ptr<Backend>(
      lang::let_go_elsewhere(std::make_shared<lang::LocalBackend>(std::move(options.engine), std::move(format))));
}

}  // namespace espalier
