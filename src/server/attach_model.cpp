#include "server/attach_model.h"

#include <chrono>
#include <ctime>

#include "server/answer/answer_plan.h"
#include "server/prompt/chat_prompt.h"
#include "text/chat_template.h"

namespace espalier::server {
namespace {

constexpr std::chrono::seconds kWarmUpLimit{120};

Result<> make_one_token(Engine& engine) {
  RequestFields fields;
  fields.id = "warm-up";
  fields.prompt = {engine.model().bos >= 0 ? engine.model().bos : 0};
  fields.sampling.temperature = 0;
  fields.sampling.max_new_tokens = 1;
  fields.sampling.ignore_eos = true;
  ESP_TRY(Request request, Request::make(std::move(fields), engine.model().limits));
  ESP_TRY(Stream stream, engine.submit(std::move(request)));
  const auto limit = std::chrono::steady_clock::now() + kWarmUpLimit;
  while (std::chrono::steady_clock::now() < limit) {
    stream.wait(std::chrono::milliseconds(200));
    for (const StreamEvent& event : stream.take()) {
      const auto* end = std::get_if<FinishEvent>(&event);
      if (end == nullptr) continue;
      if (end->reason == FinishReason::stop || end->reason == FinishReason::length) return success();
      return end->error.message.empty() ? internal_error("the warm-up token could not be made") : end->error;
    }
  }
  return Error{Error::Kind::timeout, "the warm-up token took longer than two minutes", {}, {}};
}

}  // namespace

Result<> attach_model(Service& service, std::unique_ptr<Engine> engine, const std::string& name) {
  auto model = std::make_shared<ServedModel>();
  model->names = service.options.served_model_names;
  if (model->names.empty()) model->names.push_back(name.empty() ? engine->model().path : name);
  model->loaded_at = static_cast<std::int64_t>(std::time(nullptr));
  model->engine = std::move(engine);
  model->settle();
  if (const auto& given = service.options.chat_template; !given.empty() && model->tokenizer() != nullptr) {
    ESP_TRY(model->own_template, load_chat_template(given, *model->tokenizer()));
  }
  const std::string& contents = service.options.chat_template_content_format;
  if (contents == "string") model->own_content_form = ContentForm::always_text();
  if (contents == "openai") model->own_content_form = ContentForm::always_parts();
  const auto found = model->need_template("messages");
  const ChatTemplate* chat_template = found.ok() ? *found : nullptr;
  if (chat_template != nullptr) {  // found out now
    (void)chat_template->content_form();
    (void)chat_template->call_form();
  }
  model->thinking_format = chosen_thinking(service.options.reasoning_parser, chat_template);
  model->call_format = chosen_calls(service.options.tool_call_parser, chat_template);
  if (service.cache_events) {
    model->engine->watch_cache(
        [to = service.cache_events](std::vector<CacheEvent> events) { to->publish(std::move(events)); });
  }
  service.set_model(model);
  if (!service.options.skip_warmup) {
    service.readiness.progress("warming up", 1.0);
    ESP_CHECK(make_one_token(*model->engine));
  }
  service.readiness.ready();
  return success();
}

}  // namespace espalier::server
