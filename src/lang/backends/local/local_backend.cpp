// The model in this process: contexts hold token ids, and a call sends what the engine's cache does not have yet.
#include "lang/backends/local/local_backend.h"

#include "base/log.h"
#include "engine/engine_metrics.h"
#include "espalier/backends.h"
#include "lang/backends/compute_prefix.h"
#include "lang/backends/local/local_context.h"
#include "lang/backends/local/local_score.h"
#include "lang/backends/off_thread_delete.h"
#include "lang/chat/chat_format_of.h"
#include "lang/chat/chat_formats.h"

namespace espalier {
namespace lang {
namespace {

class EnginePin final : public HeldPrefix {
 public:
  EnginePin(const std::shared_ptr<Engine>& engine, std::string id) : engine_(engine), id_(std::move(id)) {}
  ~EnginePin() override {
    if (const auto engine = engine_.lock()) (void)engine->unpin(id_);  // it may have been given up
  }
  EnginePin(const EnginePin&) = delete;
  EnginePin& operator=(const EnginePin&) = delete;

 private:
  const std::weak_ptr<Engine> engine_;
  const std::string id_;
};

}  // namespace

LocalBackend::LocalBackend(std::shared_ptr<LocalService> service, std::shared_ptr<const ChatFormat> format,
                           RequestFields treatment, std::shared_ptr<LocalRoutes> routes)
    : service_(std::move(service)),
      format_(std::move(format)),
      group_(std::make_shared<LocalCallGroup>(*service_, std::move(treatment))),
      routes_(std::move(routes)) {
  traits_.name = "local";
  traits_.paths = true;
}

std::unique_ptr<Context> LocalBackend::context() {
  return std::make_unique<LocalContext>(group_);
}

std::unique_ptr<Call> LocalBackend::score(ScoreCall call, ScoreSink sink) {
  if (!routes_) return nullptr;
  return begin_local_score(group_, service_, *routes_, std::move(call), std::move(sink));
}

Result<Json> LocalBackend::server_info() {
  const ModelInfo& model = service_->engine->model();
  const EngineStatus now = service_->engine->status();
  const EngineMetrics& did = service_->engine->metrics();
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
              {"total_generated_tokens", did.generated_tokens.value()},
              {"total_steps", did.steps.value()}};
}

Result<std::shared_ptr<HeldPrefix>> LocalBackend::hold(const std::string& text) {
  ESP_TRY(auto tokens, service_->engine->tokenizer()->encode(text, {true, true}));
  ESP_CHECK(compute_prefix(*this, text));
  auto pin = service_->engine->pin({"", Request::scope_of(group_->like), std::move(tokens), 0});
  if (!pin.ok()) return std::shared_ptr<HeldPrefix>();  // half of the pool is pinned: it stays for as long as it can
  return std::shared_ptr<HeldPrefix>(std::make_shared<EnginePin>(service_->engine, std::move(pin->id)));
}

Result<ChatFormat> local_chat_format(const Engine& engine, const std::string& name, const ChatTemplate* own) {
  if (!name.empty()) return chat_format_named(name);
  const ChatFormat& known = chat_format_of_path(engine.model().path);
  if (own == nullptr) own = engine.chat_template();
  if (own != nullptr) {
    auto format = chat_format_of(*own, *engine.tokenizer());
    if (format.ok()) return format;
    log::warning(
        "{}: programs write turns in the format '{}', which the model's path stands for; chat_template names "
        "another",
        format.error().message, known.name);
  }
  return known;
}

}  // namespace lang

Result<std::shared_ptr<Backend>> open_local(LocalOptions options) {
  if (!options.engine) return bad_request("a local back end needs an engine", "engine");
  if (options.engine->tokenizer() == nullptr)
    return bad_request("a program's text needs a tokenizer, and this engine was opened without one", "skip_tokenizer");
  ESP_TRY(ChatFormat format, lang::local_chat_format(*options.engine, options.chat_template));
  auto service = std::make_shared<lang::LocalService>(std::move(options.engine));
  service->pictures = std::move(options.pictures);
  return std::shared_ptr<Backend>(lang::delete_off_own_thread(
      std::make_shared<lang::LocalBackend>(std::move(service), std::make_shared<const ChatFormat>(std::move(format)),
                                           RequestFields(), std::move(options.routes))));
}

}  // namespace espalier
