#include "server/attach_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <filesystem>

#include "base/json/json_fields.h"
#include "base/log.h"
#include "server/answer/answer_plan.h"
#include "server/media/media_reader.h"
#include "server/prompt/chat_prompt.h"
#include "server/service.h"
#include "text/chat/chat_template.h"

namespace espalier::server {
namespace {

constexpr std::chrono::seconds kWarmUpLimit{120};

Result<> make_one_token(Engine& engine) {
  RequestFields fields;
  fields.id = "warm-up";
  fields.prompt = {engine.model().bos >= 0 ? engine.model().bos : 0};
  if (engine.model().limits.pools) fields.pooled.emplace();
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

// A model whose pictures cannot be read is served for texts.
void open_media(const ServerOptions& options, const ChatTemplate* chat_template, ServedModel& model) {
  if (model.tokenizer() == nullptr) return;
  const std::int64_t cache_bytes = std::int64_t{options.picture_cache_mib} << 20;
  const std::string& settings = model.info().picture_settings;
  auto reader = settings.empty() ? MediaReader::open(model.info().path, *model.tokenizer(), cache_bytes)
                                 : MediaReader::of_settings(settings, *model.tokenizer(), cache_bytes);
  if (!reader.ok()) {
    model.media_trouble = reader.error().message;
    log::warning("{} takes no pictures: {}", model.name(), model.media_trouble);
    return;
  }
  if (*reader == nullptr) return;
  (*reader)->learn_forms(chat_template, model.own_content_form ? &*model.own_content_form : nullptr);
  model.media = std::move(reader).value();
}

}  // namespace

// --chat-template and its content format are of the default model: others have other marks.
Result<std::shared_ptr<ServedModel>> make_served_model(const ServerOptions& options, std::unique_ptr<Engine> engine,
                                                       std::vector<std::string> names, bool is_default) {
  auto model = std::make_shared<ServedModel>();
  model->names = std::move(names);
  model->loaded_at = static_cast<std::int64_t>(std::time(nullptr));
  model->engine = std::move(engine);
  model->settle();
  if (is_default && !options.chat_template.empty() && model->tokenizer() != nullptr) {
    ESP_TRY(model->own_template, load_chat_template(options.chat_template, *model->tokenizer()));
  }
  const std::string contents = is_default ? options.chat_template_content_format : std::string("auto");
  if (contents == "string") model->own_content_form = ContentForm::always_text();
  if (contents == "openai") model->own_content_form = ContentForm::always_parts();
  const auto found = model->need_template("messages");
  const ChatTemplate* chat_template = found.ok() ? *found : nullptr;
  if (chat_template != nullptr) {  // found out now
    (void)chat_template->content_form();
    (void)chat_template->call_form();
  }
  open_media(options, chat_template, *model);
  model->thinking_format = chosen_thinking(options.reasoning_parser, chat_template);
  model->call_format = chosen_calls(options.tool_call_parser, chat_template);
  return model;
}

namespace {

// Whoever follows the cache follows that of the default model: events name no model.
void watch_cache(const Service& service, Engine& engine) {
  if (!service.cache_events) return;
  engine.watch_cache([to = service.cache_events, &adapters = service.adapters](std::vector<CacheEvent> events) {
    for (CacheEvent& event : events)
      if (const auto print = Request::adapter_in(event.scope); !print.empty()) event.adapter = adapters.name_of(print);
    to->publish(std::move(events));
  });
}

// What the model set does when a model is wanted that is not there.
ModelSource::Load loader(const Service& service, const ModelToServe& model, bool is_default) {
  return [&service, open = model.open, names = model.names,
          is_default](const Engine::Progress& progress) -> Result<std::shared_ptr<ServedModel>> {
    ESP_TRY(auto engine, open(progress));
    ESP_TRY(auto made, make_served_model(service.options, std::move(engine), names, is_default));
    if (is_default && service.cache_events) {  // what it held went with it
      service.cache_events->publish({CacheEvent{CacheEvent::Kind::cleared, CacheTier::memory, {}, {}, {}}});
      watch_cache(service, *made->engine);
    }
    if (!service.options.skip_warmup) ESP_CHECK(make_one_token(*made->engine));
    return made;
  };
}

// One of --lora-paths: NAME=PATH, PATH, or an object. It is for the default model, unless that says another one.
Result<AdapterWish> adapter_wish(const Service& service, const std::string& given) {
  AdapterWish wish;
  if (given.starts_with('{')) {
    ESP_TRY(const Json told, parse_json(given));
    ESP_TRY(const auto name, find_string(told, find_field(told, "name") != nullptr ? "name" : "lora_name"));
    ESP_TRY(const auto path, find_string(told, find_field(told, "path") != nullptr ? "path" : "lora_path"));
    ESP_TRY(const auto base, find_string(told, "base_model_name"));
    ESP_TRY(const auto pinned, find_boolean(told, "pinned"));
    ESP_TRY(wish.place, service.models.place_of(base.value_or("")));
    wish.name = name.value_or("");
    wish.path = path.value_or("");
    wish.pinned = pinned.value_or(false);
    return wish;
  }
  const auto equals = given.find('=');
  wish.path = equals == std::string::npos ? given : given.substr(equals + 1);
  std::filesystem::path last(wish.path);
  if (!last.has_filename()) last = last.parent_path();
  wish.name = equals != std::string::npos ? given.substr(0, equals)
                                          : (last.extension() == ".gguf" ? last.stem() : last.filename()).string();
  return wish;
}

// Those between commas, where they are no object.
std::vector<std::string> adapters_given(const std::vector<std::string>& options) {
  std::vector<std::string> all;
  for (const std::string& option : options)
    for (std::size_t at = 0; at < option.size();) {
      const std::size_t end = option.starts_with('{') ? option.size() : std::min(option.find(',', at), option.size());
      if (end > at) all.push_back(option.substr(at, end - at));
      at = end + 1;
    }
  return all;
}

// --lora-paths: those of the default model are read now, so that a wrong one is told at the start.
Result<> add_adapters(Service& service, const ServedModel& model) {
  for (const std::string& given : adapters_given(service.options.lora_paths)) {
    auto wish = adapter_wish(service, given);
    if (!wish.ok()) return bad_request(fmt::format("--lora-paths {}: {}", given, wish.error().message), "lora_paths");
    const bool now = wish->place == 0;
    auto added = now ? service.adapters.load(*wish, model) : service.adapters.add(*wish);
    if (!added.ok()) {
      Error error = added.error();
      error.message = fmt::format("--lora-paths {}: {}", given, error.message);
      return error;
    }
  }
  return success();
}

}  // namespace

Result<> add_models(Service& service, std::vector<ModelToServe> models) {
  std::vector<ModelSource> sources;
  for (ModelToServe& model : models) {
    const bool is_default = sources.empty();
    if (is_default && !service.options.served_model_names.empty()) model.names = service.options.served_model_names;
    auto load = loader(service, model, is_default);
    sources.push_back({std::move(model.names), std::move(model.path), model.bytes, std::move(load)});
  }
  return service.models.add(std::move(sources));
}

Result<> add_model(Service& service, ModelToServe model) {
  auto load = loader(service, model, false);
  ESP_TRY([[maybe_unused]] const int place,
          service.models.add_one({std::move(model.names), std::move(model.path), model.bytes, std::move(load)}));
  return success();
}

Result<> attach_model(Service& service, std::unique_ptr<Engine> engine, const std::string& name) {
  std::vector<std::string> names = service.options.served_model_names;
  if (names.empty() && service.models.count() > 0) names = service.models.names(0);
  if (names.empty()) names.push_back(name.empty() ? engine->model().path : name);
  ESP_TRY(auto model, make_served_model(service.options, std::move(engine), std::move(names), true));
  watch_cache(service, *model->engine);
  service.models.put(model);
  ESP_CHECK(add_adapters(service, *model));
  service.attached = true;
  if (!service.options.skip_warmup) {
    service.readiness.progress("warming up", 1.0);
    ESP_CHECK(make_one_token(*model->engine));
  }
  service.readiness.ready();
  return success();
}

}  // namespace espalier::server
