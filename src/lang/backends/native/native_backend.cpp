// open_native(): an Espalier or SGLang server by its own interface.
#include <fmt/format.h>

#include "base/json/json_fields.h"
#include "base/log.h"
#include "lang/backends/compute_prefix.h"
#include "lang/backends/native/native_chain.h"
#include "lang/backends/native/native_programs.h"
#include "lang/backends/native/native_select.h"
#include "lang/backends/native/server_chat_format.h"
#include "lang/backends/native/server_pin.h"
#include "lang/backends/remote/remote_backend.h"
#include "lang/backends/remote/wire/wire_text.h"
#include "lang/chat/chat_formats.h"

namespace espalier {
namespace lang::native {
namespace {

class NativeBackend final : public RemoteBackend {
 public:
  NativeBackend(std::shared_ptr<RequestQueue> queue, NativeServer server, ChatFormat format)
      : RemoteBackend(std::move(queue), traits_of(server), std::move(format), 0), server_(std::move(server)) {}

  Result<Wire> write(const Document& document, const GenCall& call) const override {
    ESP_TRY(const Json body, write_generate(server_, document, call));
    return Wire{"/generate", wire_text(body), [n = call.sampling.n] { return generate_reader(n); }};
  }
  bool constrains(const GenCall&) const override { return true; }
  std::unique_ptr<Call> select(const Document& document, SelectCall call, SelectSink sink) override {
    return begin_native_select(queue_, server_, document, std::move(call), std::move(sink));
  }

  std::unique_ptr<Call> score(ScoreCall call, ScoreSink sink) override {
    return begin_score(std::move(call), "/v1", {}, std::move(sink));
  }

  bool takes(const Document& document, const ChainCall& call) const override {
    return traits_.chains && fits_segments(document, call);
  }
  std::unique_ptr<Call> chain(const Document& document, ChainCall call, ChainSink sink) override {
    return begin_native_chain(queue_, server_, document, call, std::move(sink));
  }

  // Its turns are written in the server's own format there.
  std::shared_ptr<ProgramServer> programs() override {
    return server_.espalier && server_.own_format ? program_server(queue_) : nullptr;
  }

  // Old servers have the route under GET.
  Result<> flush_cache() override {
    auto answer = queue_->ask(queue_->request(net::Method::post, "/flush_cache", {}));
    if (!answer.ok() && answer.error().kind == Error::Kind::bad_request)
      answer = queue_->ask(queue_->request("/flush_cache"));
    if (!answer.ok()) return answer.error();
    return success();
  }
  // A server whose operator keeps pins to himself, or that has none, computes the prefix all the same.
  Result<std::shared_ptr<HeldPrefix>> hold(const std::string& text) override {
    if (server_.espalier) {
      auto pin = pin_at_server(queue_, text);
      if (pin) return pin;
    }
    ESP_CHECK(compute_prefix(*this, text));
    return std::shared_ptr<HeldPrefix>();
  }
  Result<Json> server_info() override {
    auto answer = queue_->ask(queue_->request("/get_server_info"));
    if (!answer.ok() && answer.error().kind == Error::Kind::not_found)
      answer = queue_->ask(queue_->request("/server_info"));
    if (!answer.ok()) return answer.error();
    return read_reply_json("native", *answer);
  }

 private:
  static BackendTraits traits_of(const NativeServer& server) {
    BackendTraits traits;
    traits.name = "native";
    traits.pictures = server.sees_pictures;
    traits.prefix_cache = true;
    traits.samples = true;
    traits.chains = server.espalier;
    return traits;
  }

  const NativeServer server_;
};

Result<NativeServer> model_info(RequestQueue& queue) {
  ESP_TRY(const std::string body, queue.ask(queue.request("/get_model_info")));
  ESP_TRY(const Json info, read_reply_json("native", body));
  const Json* path = find_field(info, "model_path");
  if (!path || !path->is_string()) return bad_reply("native", "/get_model_info tells no model_path");
  NativeServer server;
  server.model_path = path->get<std::string>();
  const Json* name = find_field(info, "server");
  server.espalier = name && *name == "espalier";
  const Json* sees = find_field(info, "has_image_understanding");
  server.sees_pictures = !sees || *sees != false;
  const Json* templated = find_field(info, "has_chat_template");
  server.has_template = templated && *templated == true;
  if (const Json* bos = find_field(info, "bos_token_id"); bos && bos->is_number_integer())
    server.bos = bos->get<std::int64_t>();
  return server;
}

Result<ChatFormat> chat_format_for(RequestQueue& queue, const NativeServer& server, const std::string& name) {
  if (!name.empty()) return chat_format_named(name);
  if (server.espalier && server.has_template) {
    auto format = server_chat_format(queue, server.bos);
    if (format.ok() || format.error().kind == Error::Kind::network) return format;
    log::warning("{}; the format is chosen by the model's path instead", format.error().message);
  }
  return chat_format_of_path(server.model_path);
}

}  // namespace
}  // namespace lang::native

Result<std::shared_ptr<Backend>> open_native(const NativeOptions& options) {
  net::Headers credentials;
  if (!options.api_key.empty()) credentials.add("Authorization", "Bearer " + options.api_key);
  ESP_TRY(auto endpoint, lang::open_endpoint("native", options.base_url, std::move(credentials), options.connection));
  ESP_TRY(auto driver, lang::Driver::shared());
  auto queue = std::make_shared<lang::RequestQueue>(std::move(driver), std::move(endpoint));
  ESP_TRY(lang::native::NativeServer server, lang::native::model_info(*queue));
  server.own_format = options.chat_template.empty();
  ESP_TRY(ChatFormat format, lang::native::chat_format_for(*queue, server, options.chat_template));
  return std::shared_ptr<Backend>(
      std::make_shared<lang::native::NativeBackend>(std::move(queue), std::move(server), std::move(format)));
}

}  // namespace espalier
